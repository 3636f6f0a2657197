//! All kernels, each with the type of its argument.
#![allow(unsafe_code, reason = "machine code of our own")]

use std::ffi::{CString, c_void};
use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::result::{function, module};
use cudarc::driver::sys;

use super::super::buffer::Plain;
use super::super::compile::{Variant, discard, machine_code};
use super::super::gpu::Gpu;
use super::attention::Attention;
use super::belief::{Continue, Reading};
use super::experts::{Combination, ExpertProduct};
use super::fp8::Quantization;
use super::int4::Int4Product;
use super::matrices::Matrices;
use super::product::{Ceiling, Comparison, Product};
use super::projection::Projection;
use super::routing::Routing;
use super::rows::{Bias, Embedding, Gate, Norm, Rotation};
use super::scores::{Collection, RankArguments};
use super::structs::{CType, to_u32};
use super::weights::{Conversion, Noise};
use crate::Result;

/// Kernels that begin with `follow`: they may be launched before the one before them is done, so that no time passes in between.
const FOLLOWERS: [&str; 9] = [
    "embed",
    "rms_norm",
    "rotate",
    "silu_times",
    "product_int4",
    "attention",
    "attention_with_mass",
    "route",
    "combine",
];

/// A kernel that takes an `A`.
pub(super) struct Kernel<A> {
    name: &'static str,
    function: sys::CUfunction,
    /// True if it is launched before the one before it is done.
    early: bool,
    argument: PhantomData<fn(A)>,
}

// SAFETY: a handle of the driver, which may be used from any thread that has bound the context.
unsafe impl<A> Send for Kernel<A> {}

/// The threads of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) blocks: [usize; 2],
    pub(crate) threads: usize,
    /// Bytes of dynamic shared memory of a block.
    pub(crate) shared: usize,
}

impl Grid {
    /// `blocks` blocks of `threads` threads.
    pub(crate) fn of(blocks: usize, threads: usize) -> Self {
        Self { blocks: [blocks, 1], threads, shared: 0 }
    }
}

impl<A: Plain> Kernel<A> {
    /// Launches the kernel, after all work launched before. Without blocks nothing happens.
    ///
    /// # Safety
    /// With this argument and this grid, and with what the memory it names holds by then, the kernel stays inside slices of
    /// buffers that are alive now. (Buffers are freed only after all work launched before.)
    pub(super) unsafe fn launch(&self, gpu: &Gpu, grid: Grid, argument: &A) -> Result<()> {
        let Grid { blocks, threads, shared } = grid;
        if blocks.contains(&0) {
            return Ok(());
        }
        let mut arguments = [std::ptr::from_ref(argument).cast_mut().cast::<c_void>()];
        let mut early = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: to_u32(blocks[0]),
            gridDimY: to_u32(blocks[1]),
            gridDimZ: 1,
            blockDimX: to_u32(threads),
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: to_u32(shared),
            hStream: gpu.stream(),
            attrs: &raw mut early,
            numAttrs: u32::from(self.early),
        };
        // SAFETY: the kernel takes one `A`, which the driver copies; one that is launched early waits by itself for all work
        // launched before; the rest is the caller's promise.
        unsafe {
            sys::cuLaunchKernelEx(&raw const config, self.function, arguments.as_mut_ptr(), std::ptr::null_mut())
                .result()?;
        }
        gpu.profile.note(gpu, || self.name.to_string())
    }

    /// Allows the kernel that many bytes of dynamic shared memory.
    pub(super) fn allow_shared(&self, bytes: usize) -> Result<()> {
        let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = i32::try_from(bytes).expect("shared memory is small");
        // SAFETY: the function belongs to a module that is loaded.
        unsafe { function::set_function_attribute(self.function, attribute, bytes)? };
        Ok(())
    }
}

macro_rules! kernels {
    ($($name:ident: $argument:ty,)*) => {
        /// The kernels by name.
        pub(super) struct Functions {
            $(pub(super) $name: Kernel<$argument>,)*
        }

        impl Functions {
            fn find(module: &Module, variant: Variant) -> Result<Self> {
                Ok(Self { $($name: module.kernel(stringify!($name), variant)?,)* })
            }
        }

        /// CUDA declarations of the kernels: a definition with another argument does not compile.
        pub(super) fn prototypes() -> String {
            [$(format!("KERNEL {}({});\n", stringify!($name), <$argument as CType>::name()),)*].concat()
        }
    };
}

kernels! {
    embed: Embedding,
    rms_norm: Norm,
    rotate: Rotation,
    add_bias: Bias,
    silu_times: Gate,
    rms_norm_fp8: Norm,
    silu_times_fp8: Gate,
    quantize: Quantization,
    product: Product,
    product_int4: Int4Product,
    compare: Comparison,
    ceiling: Ceiling,
    attention: Attention,
    attention_with_mass: Attention,
    add_attention: Matrices,
    collect: Collection,
    rank: RankArguments,
    project: Projection,
    project_int8: Projection,
    route: Routing,
    expert_gate_up: ExpertProduct,
    expert_gate_up_fp8: ExpertProduct,
    expert_gate_up_int4: ExpertProduct,
    expert_down: ExpertProduct,
    expert_down_fp8: ExpertProduct,
    expert_down_int4: ExpertProduct,
    combine: Combination,
    guide: Reading,
    conclude: Reading,
    truncate_rows: Reading,
    continue_reads: Continue,
    convert: Conversion,
    noise: Noise,
}

/// All kernels of a variant, loaded on a GPU.
pub(crate) struct Kernels {
    pub(super) gpu: Arc<Gpu>,
    pub(super) functions: Functions,
    pub(super) variant: Variant,
    module: Module,
}

struct Module(sys::CUmodule);

// SAFETY: a handle of the driver, which may be used from any thread that has bound the context.
unsafe impl Send for Module {}

impl Module {
    fn kernel<A>(&self, name: &'static str, variant: Variant) -> Result<Kernel<A>> {
        let symbol = CString::new(name).expect("a name has no zero byte");
        // SAFETY: the module is loaded. `Kernels` keeps it loaded for as long as the function is there.
        let function = unsafe { module::get_function(self.0, symbol)? };
        let early = variant.architecture >= 90 && FOLLOWERS.contains(&name);
        Ok(Kernel { name, function, early, argument: PhantomData })
    }
}

impl Kernels {
    /// Compiles the kernels, or finds them compiled, and loads them.
    pub(crate) fn load(gpu: &Arc<Gpu>, variant: Variant) -> Result<Self> {
        let load = |code: Vec<u8>| {
            // SAFETY: the code is a whole image, which the driver copies.
            unsafe { module::load_data(code.as_ptr().cast::<c_void>()) }.map(Module)
        };
        let module = load(machine_code(variant)?).or_else(|_| {
            discard(variant);
            Ok::<_, crate::Error>(load(machine_code(variant)?)?)
        })?;
        let kernels = Self { gpu: gpu.clone(), functions: Functions::find(&module, variant)?, variant, module };
        kernels.allow_shared()?;
        Ok(kernels)
    }

    /// The GPU that they are loaded on.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    fn allow_shared(&self) -> Result<()> {
        for kernel in [&self.functions.attention, &self.functions.attention_with_mass] {
            kernel.allow_shared(super::attention::Geometry::of(self.variant).shared)?;
        }
        self.functions.product_int4.allow_shared(super::int4::shared(self.variant))?;
        for kernel in [&self.functions.project, &self.functions.project_int8] {
            kernel.allow_shared(super::projection::shared(self.variant.bf16))?;
        }
        self.allow_experts()
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() && self.gpu.wait().is_ok() {
            // SAFETY: no kernel of it runs any more, and none can be launched: the functions go with it.
            let _ = unsafe { module::unload(self.module.0) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FOLLOWERS;
    use crate::cuda::kernel::source::source;

    /// One that did not would read what is not written yet.
    #[test]
    fn kernels_that_are_launched_early_wait_for_the_one_before() {
        let source = source();
        for kernel in FOLLOWERS {
            let name = format!(" {kernel}(");
            let heads = source.match_indices(&name).map(|(at, _)| &source[at..]);
            let bodies = heads.filter_map(|text| text.split_once(") {\n")).filter(|(head, _)| !head.contains(';'));
            let bodies: Vec<&str> = bodies.filter_map(|(_, text)| Some(text.split_once("\n}\n")?.0)).collect();
            assert!(!bodies.is_empty(), "{kernel}");
            let follows = |body: &&str| body.contains("follow();") || body.contains("multiply_tiles<");
            assert!(bodies.iter().all(follows), "{kernel}");
        }
    }
}
