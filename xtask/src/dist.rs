//! A release for this machine: the binary, the Python wheel and the source distribution.

use std::env::consts::{ARCH, EXE_SUFFIX, OS};
use std::path::Path;

use crate::{Step, run, step, target};

/// The minor version of glibc 2 that Linux builds need: that of RHEL 8, Debian 10 and Ubuntu 20.04, and of manylinux_2_28.
const GLIBC: u32 = 28;

/// Builds everything into `target/dist`. On Linux zig links against an older glibc than the machine's.
pub(crate) fn run_all() -> Result<(), String> {
    let (tools, out) = (target().join("dist-tools"), target().join("dist"));
    run(&step(&format!("python3 -m venv {}", tools.display())))?;
    let tools = tools.join(if OS == "windows" { "Scripts" } else { "bin" });
    let tool = |name: &str, arguments: &str| -> Step {
        let mut step = step(&format!("{} {arguments}", tools.join(name).display()));
        // cargo-zigbuild and maturin find zig, which is a Python package, beside them.
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(tools.clone()).chain(std::env::split_paths(&path)));
        step.variables.extend(path.map(|path| ("PATH", path.to_string_lossy().into_owned())));
        step
    };
    run(&tool("pip", "install --quiet maturin==1.16.0 ziglang==0.17.0 cargo-zigbuild==0.24.0"))?;
    let folder = out.display();
    run(&tool("maturin", &format!("sdist --out {folder}")))?;
    if OS != "linux" {
        run(&tool("maturin", &format!("build --release --locked --out {folder}")))?;
        run(&step("cargo build --release --locked -p lacuna-cli"))?;
        return copy(&target().join("release").join(format!("lacuna{EXE_SUFFIX}")), &out);
    }
    let tag = format!("manylinux_2_{GLIBC}");
    run(&tool("maturin", &format!("build --release --locked --zig --compatibility {tag} --out {folder}")))?;
    let triple = format!("{ARCH}-unknown-linux-gnu");
    let build = format!("zigbuild --release --locked -p lacuna-cli --target {triple}.2.{GLIBC}");
    run(&tool("cargo-zigbuild", &build))?;
    let binary = target().join(triple).join("release/lacuna");
    check_glibc(&binary)?;
    copy(&binary, &out)
}

fn copy(binary: &Path, folder: &Path) -> Result<(), String> {
    let name = binary.file_name().unwrap_or_default();
    std::fs::copy(binary, folder.join(name)).map_err(|error| format!("{}: {error}", binary.display()))?;
    Ok(())
}

/// Refuses a binary that would not start with the stated glibc: its symbols name the versions that they need.
fn check_glibc(binary: &Path) -> Result<(), String> {
    const NAME: &[u8] = b"GLIBC_2.";
    let bytes = std::fs::read(binary).map_err(|error| format!("{}: {error}", binary.display()))?;
    let versions = bytes.windows(NAME.len()).enumerate().filter(|(_, window)| *window == NAME).filter_map(|(at, _)| {
        let digits = bytes[at + NAME.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        std::str::from_utf8(&digits.copied().collect::<Vec<u8>>()).ok()?.parse::<u32>().ok()
    });
    match versions.max() {
        Some(newest) if newest <= GLIBC => {
            println!("{} needs glibc 2.{newest} or later", binary.display());
            Ok(())
        }
        newest => Err(format!("{} must need glibc 2.{GLIBC} at most, but it needs {newest:?}", binary.display())),
    }
}
