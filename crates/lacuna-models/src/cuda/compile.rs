//! Kernels from source to machine code, by nvrtc, once for each kind of GPU.
#![allow(unsafe_code, reason = "calls into nvrtc")]

use std::ffi::{CStr, CString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use cudarc::nvrtc::{result, sys};

use super::kernel::source;
use crate::{Error, Result};

/// The compute capability that has wgmma.
pub(crate) const HOPPER: i32 = 90;

/// The GPU and model that kernels are compiled for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variant {
    /// The compute capability, such as 90.
    pub(crate) architecture: i32,
    pub(crate) head_size: usize,
    /// True if elements are bf16, false if they are f32.
    pub(crate) bf16: bool,
}

/// Machine code for a variant: from the disk if it was compiled before, else compiled and kept there if that is possible.
pub(crate) fn machine_code(variant: Variant) -> Result<Vec<u8>> {
    let kept = kept_at(variant);
    if let Some(code) = kept.as_ref().and_then(|path| std::fs::read(path).ok()) {
        return Ok(code);
    }
    let code = compile(variant)?;
    if let Some(path) = kept {
        keep(&path, &code);
    }
    Ok(code)
}

/// Removes the machine code of a variant from the disk, because it cannot be loaded.
pub(crate) fn discard(variant: Variant) {
    if let Some(path) = kept_at(variant) {
        let _ = std::fs::remove_file(path);
    }
}

/// Compiles all kernels for a compute capability such as 90, without a GPU. None if there is no nvrtc.
pub fn compile_kernels(architecture: i32, head_size: usize, bf16: bool) -> Option<Result<usize>> {
    // SAFETY: opening a library runs its initializers; these are NVIDIA's.
    unsafe { sys::is_culib_present() }
        .then(|| compile(Variant { architecture, head_size, bf16 }).map(|code| code.len()))
}

fn compile(variant: Variant) -> Result<Vec<u8>> {
    let failed = |what: String| Error::Gpu(format!("nvrtc cannot compile the kernels: {what}"));
    let source = CString::new(source()).expect("source text has no zero bytes");
    let program = result::create_program(&source, None).map_err(|error| failed(format!("{error:?}")))?;
    // SAFETY: the program was just created, and is destroyed below.
    let code = unsafe {
        match result::compile_program(program, &options(variant)) {
            Ok(()) => cubin(program).map_err(|error| failed(format!("{error:?}"))),
            Err(_) => Err(failed(match result::get_program_log(program) {
                Ok(log) => CStr::from_ptr(log.as_ptr()).to_string_lossy().into_owned(),
                Err(error) => format!("{error:?}"),
            })),
        }
    };
    // SAFETY: it is not used after this.
    let _ = unsafe { result::destroy_program(program) };
    code
}

/// # Safety
/// The program was compiled.
unsafe fn cubin(program: sys::nvrtcProgram) -> std::result::Result<Vec<u8>, result::NvrtcError> {
    let mut bytes = 0;
    // SAFETY: the program was compiled, and the code is as long as nvrtc says.
    unsafe {
        sys::nvrtcGetCUBINSize(program, &mut bytes).result()?;
        let mut code = vec![0u8; bytes];
        sys::nvrtcGetCUBIN(program, code.as_mut_ptr().cast()).result()?;
        Ok(code)
    }
}

fn options(variant: Variant) -> [String; 5] {
    let Variant { architecture, head_size, bf16 } = variant;
    // wgmma exists only in code for exactly this architecture.
    let exact = if architecture == HOPPER { "a" } else { "" };
    [
        format!("--gpu-architecture=sm_{architecture}{exact}"),
        format!("--define-macro=HEAD_SIZE={head_size}"),
        format!("--define-macro=BF16={}", i32::from(bf16)),
        "--std=c++17".to_string(),
        // Lambdas that are templates are of no execution space of their own.
        "--device-as-default-execution-space".to_string(),
    ]
}

/// Path of the machine code: in the user's cache, under everything that it depends on.
fn kept_at(variant: Variant) -> Option<PathBuf> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the pointers are valid.
    unsafe { sys::nvrtcVersion(&mut major, &mut minor).result().ok()? };
    let mut hasher = DefaultHasher::new();
    (source(), options(variant), major, minor).hash(&mut hasher);
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("lacuna").join(format!("kernels-{:016x}.cubin", hasher.finish())))
}

/// Writes beside and renames, so that another program never reads half a file. A disk that cannot be written is no reason to
/// stop: the kernels are compiled again next time.
fn keep(path: &PathBuf, code: &[u8]) {
    let beside = path.with_extension(std::process::id().to_string());
    let made = path.parent().is_some_and(|folder| std::fs::create_dir_all(folder).is_ok());
    if made && std::fs::write(&beside, code).is_ok() && std::fs::rename(&beside, path).is_err() {
        let _ = std::fs::remove_file(&beside);
    }
}
