//! The kernels, and the arguments they take. Each struct here is one of the same name in the `.cu` files.
#![allow(unsafe_code, reason = "machine code of our own")]

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::result::{function, module};
use cudarc::driver::sys;

use super::compile::{Variant, discard, machine_code};
use super::gpu::Gpu;
use crate::Result;

/// A kernel that can be launched.
pub(crate) struct Function(sys::CUfunction);

// SAFETY: a handle of the driver, which may be used from any thread that has bound the context.
unsafe impl Send for Function {}

impl Function {
    pub(crate) fn raw(&self) -> sys::CUfunction {
        self.0
    }
}

macro_rules! kernels {
    ($($name:ident),* $(,)?) => {
        /// All kernels of a variant.
        pub(crate) struct Kernels {
            gpu: Arc<Gpu>,
            module: Module,
            $(pub(crate) $name: Function,)*
        }

        impl Kernels {
            fn find(gpu: &Arc<Gpu>, module: Module) -> Result<Self> {
                Ok(Self { gpu: gpu.clone(), $($name: module.function(stringify!($name))?,)* module })
            }
        }
    };
}

kernels![
    embed,
    rms_norm,
    rotate,
    keep,
    silu_times,
    collect,
    choose,
    rms_norm_fp8,
    silu_times_fp8,
    quantize,
    product,
    compare,
    ceiling,
    attention,
    attention_with_mass,
    project,
    guide,
    conclude,
    look_again,
    go_on,
    convert,
    noise,
];

struct Module(sys::CUmodule);

// SAFETY: as for functions.
unsafe impl Send for Module {}

impl Module {
    fn function(&self, name: &str) -> Result<Function> {
        let name = std::ffi::CString::new(name).expect("a name has no zero byte");
        // SAFETY: the module is loaded and outlives the function.
        Ok(Function(unsafe { module::get_function(self.0, name)? }))
    }
}

impl Kernels {
    /// Compiles or finds them, and loads them.
    pub(crate) fn load(gpu: &Arc<Gpu>, variant: Variant) -> Result<Self> {
        let load = |code: Vec<u8>| {
            // SAFETY: the code is a whole image, which the driver copies.
            unsafe { module::load_data(code.as_ptr().cast::<c_void>()) }.map(Module)
        };
        let module = load(machine_code(variant)?).or_else(|_| {
            discard(variant);
            Ok::<_, crate::Error>(load(machine_code(variant)?)?)
        })?;
        Self::find(gpu, module)
    }

    /// Allows a kernel more shared memory than it gets unasked.
    pub(crate) fn allow_shared(&self, kernel: &Function, bytes: usize) -> Result<()> {
        let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is loaded.
        unsafe { function::set_function_attribute(kernel.0, attribute, bytes as i32)? };
        Ok(())
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() && self.gpu.wait().is_ok() {
            // SAFETY: nothing of it runs any more.
            let _ = unsafe { module::unload(self.module.0) };
        }
    }
}

/// A null pointer, where a kernel takes one.
pub(crate) const NONE: u64 = 0;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Embedding {
    pub(crate) table: u64,
    pub(crate) tokens: u64,
    pub(crate) hidden: u64,
    pub(crate) width: u32,
    pub(crate) table_is_bf16: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Norm {
    pub(crate) input: u64,
    pub(crate) rows: u64,
    pub(crate) weight: u64,
    pub(crate) output: u64,
    pub(crate) units: u64,
    pub(crate) copy: u64,
    pub(crate) width: u32,
    pub(crate) epsilon: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Rotation {
    pub(crate) data: u64,
    pub(crate) bias: u64,
    pub(crate) rows: u64,
    pub(crate) positions: u64,
    pub(crate) cosines: u64,
    pub(crate) sines: u64,
    pub(crate) heads: u32,
    pub(crate) rotated: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct KeptPlace {
    pub(crate) first: u64,
    pub(crate) layer: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Keeping {
    pub(crate) places: u64,
    pub(crate) keys: u64,
    pub(crate) stride: u32,
    pub(crate) width: u32,
    pub(crate) layer: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Gate {
    pub(crate) gate_up: u64,
    pub(crate) output: u64,
    pub(crate) units: u64,
    pub(crate) width: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Quantization {
    pub(crate) source: u64,
    pub(crate) output: u64,
    pub(crate) units: u64,
    pub(crate) width: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Job {
    pub(crate) layer: u32,
    pub(crate) heads: u32,
    pub(crate) head_count: u32,
    pub(crate) start: u32,
    pub(crate) tokens: u32,
    pub(crate) length: u32,
    pub(crate) output: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Collection {
    pub(crate) jobs: u64,
    pub(crate) heads: u64,
    pub(crate) mass: u64,
    pub(crate) tokens: u64,
    pub(crate) positions: u64,
    pub(crate) scores: u64,
    pub(crate) rows: u32,
    pub(crate) all_heads: u32,
    pub(crate) mask: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Product {
    pub(crate) input: u64,
    pub(crate) weights: u64,
    pub(crate) output: u64,
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) add: u32,
    pub(crate) wide: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Comparison {
    pub(crate) one: u64,
    pub(crate) other: u64,
    pub(crate) different: u64,
    pub(crate) words: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Tile {
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) key_start: u32,
    pub(crate) key_count: u32,
    pub(crate) open_start: u32,
    pub(crate) shadow: u32,
    pub(crate) kept: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Attention {
    pub(crate) queries: u64,
    pub(crate) keys: u64,
    pub(crate) values: u64,
    pub(crate) output: u64,
    pub(crate) mass: u64,
    pub(crate) tiles: u64,
    pub(crate) rows: u64,
    pub(crate) positions: u64,
    pub(crate) open: u64,
    pub(crate) query_stride: u32,
    pub(crate) key_stride: u32,
    pub(crate) output_stride: u32,
    pub(crate) layer: u32,
    pub(crate) heads: u32,
    pub(crate) key_value_heads: u32,
    pub(crate) scale: f32,
}

/// No token or row, where a kernel takes one.
/// Rules of a [`Line`], as `scores.cu` has them.
pub(crate) const SCORE: u32 = 0;
pub(crate) const ENTROPY: u32 = 1;
pub(crate) const SURPRISAL: u32 = 2;
pub(crate) const SPARE_LARGEST: u32 = 4;
pub(crate) const NOBODY: u32 = u32::MAX;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Line {
    pub(crate) bound: f64,
    pub(crate) rule: u32,
    pub(crate) asks: u32,
    pub(crate) first: u32,
    pub(crate) most: u32,
    pub(crate) rounds: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Going {
    pub(crate) lines: u64,
    pub(crate) asks: u64,
    pub(crate) outcomes: u64,
    pub(crate) values: u64,
    pub(crate) round: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Choice {
    pub(crate) temperature: f64,
    pub(crate) scores: u32,
    pub(crate) tokens: u32,
    pub(crate) sources: u32,
    pub(crate) candidates: u32,
    pub(crate) count: u32,
    pub(crate) take: u32,
    pub(crate) slots: u32,
    pub(crate) guide_slots: u32,
    pub(crate) line: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Candidate {
    pub(crate) position: u32,
    pub(crate) row: u32,
    pub(crate) guide: u32,
    pub(crate) draw: u64,
    pub(crate) noise: f64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Choosing {
    pub(crate) choices: u64,
    pub(crate) candidates: u64,
    pub(crate) scores: u64,
    pub(crate) lines: u64,
    pub(crate) asks: u64,
    pub(crate) rows: u64,
    pub(crate) draws: u64,
    pub(crate) chosen: u64,
    pub(crate) values: u64,
}

/// Logits that are summed up together.
pub(crate) const STRETCH: usize = 128;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Look {
    pub(crate) logits: u64,
    pub(crate) kept: u64,
    pub(crate) kept_total: f64,
    pub(crate) compare: u32,
    pub(crate) guide: u32,
    pub(crate) scale: f32,
    pub(crate) suppressed: u32,
    pub(crate) suppressed_count: u32,
    pub(crate) deferred: u32,
    pub(crate) deferred_count: u32,
    pub(crate) witness: u32,
    pub(crate) line: u32,
    pub(crate) silent: u32,
    pub(crate) again: u32,
    pub(crate) most: u32,
    pub(crate) share: f64,
    pub(crate) temper: f64,
    pub(crate) noise: f64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) total: f64,
    pub(crate) weighted: f64,
    pub(crate) moved: f64,
    pub(crate) first: f32,
    pub(crate) second: f32,
    pub(crate) token: u32,
    pub(crate) witness: f32,
    pub(crate) weight: f64,
    pub(crate) drawn: u32,
    pub(crate) drawn_logit: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) looks: u64,
    pub(crate) draws: u64,
    pub(crate) tokens: u64,
    pub(crate) parts: u64,
    pub(crate) outcomes: u64,
    pub(crate) lines: u64,
    pub(crate) vocabulary: u32,
    pub(crate) stretches: u32,
    pub(crate) rows: u32,
    pub(crate) round: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Projection {
    pub(crate) input: u64,
    pub(crate) weights: u64,
    pub(crate) reading: Reading,
    pub(crate) k: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Conversion {
    pub(crate) source: u64,
    pub(crate) target: u64,
    pub(crate) wrong: u64,
    pub(crate) first: u64,
    pub(crate) length: u64,
    pub(crate) numbers: u32,
    pub(crate) wide: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Noise {
    pub(crate) target: u64,
    pub(crate) length: u64,
    pub(crate) seed: u32,
    pub(crate) mean: f32,
    pub(crate) step: f32,
    pub(crate) wide: u32,
}
