//! Fp8 (e4m3): who can have it, and rows of it.

use std::ops::Range;
use std::sync::Arc;

use cudarc::cublaslt::sys::cublasLtGetVersion;

use super::buffer::Buffer;
use super::gpu::Gpu;
use super::kernel::{Kernels, Quantization};
use crate::{Architecture, Error, Result};

/// The compute capability whose products cublasLt takes rows and columns in units of their own for: Hopper's.
const CAPABILITY: i32 = 90;
/// The first cublasLt that does, as it tells its version.
const OLDEST_CUBLAS: usize = 12_09_00;
/// What the sizes of matrices must be multiples of.
const STEP: usize = 16;

/// Threads that work on a row.
pub(crate) const THREADS: usize = 512;

/// Refuses a GPU, a library or a model that fp8 is impossible with.
#[allow(unsafe_code, reason = "a call into cublasLt")]
pub(crate) fn check(gpu: &Gpu, architecture: &Architecture) -> Result<()> {
    // SAFETY: it takes nothing and only tells a number.
    possible(gpu.name(), gpu.architecture(), unsafe { cublasLtGetVersion() }, architecture)
}

fn possible(gpu: &str, capability: i32, cublas: usize, architecture: &Architecture) -> Result<()> {
    if capability != CAPABILITY {
        let (major, minor) = (capability / 10, capability % 10);
        return Err(Error::no_hopper(format!("{gpu} is of compute capability {major}.{minor}, not 9.0")));
    }
    if cublas < OLDEST_CUBLAS {
        let found = format!("{}.{} was found", cublas / 10_000, cublas / 100 % 100);
        return Err(Error::NoFp8 { needed: "libcublasLt 12.9 or later", found });
    }
    let sizes = [
        ("hidden size", architecture.hidden),
        ("size of keys", architecture.attention.key_size()),
        ("MLP size", architecture.mlp()),
    ];
    match sizes.into_iter().find(|(_, size)| size % STEP != 0) {
        Some((name, size)) => {
            let found = format!("this model's {name} is {size}");
            Err(Error::NoFp8 { needed: "sizes that are multiples of 16", found })
        }
        None => Ok(()),
    }
}

/// Rows of numbers in fp8, each in a unit of its own.
pub(crate) struct Quantized {
    pub(crate) numbers: Buffer<u8>,
    pub(crate) units: Buffer<f32>,
}

impl Quantized {
    pub(crate) fn new(gpu: &Arc<Gpu>, rows: usize, width: usize) -> Result<Self> {
        Ok(Self { numbers: Buffer::new(gpu, rows * width)?, units: Buffer::new(gpu, rows)? })
    }

    /// Bytes of a row.
    pub(crate) fn row_bytes(width: usize) -> usize {
        width + size_of::<f32>()
    }

    /// Makes room. Returns whether the rows moved.
    pub(crate) fn reserve(&mut self, rows: usize, width: usize) -> Result<bool> {
        Ok(self.numbers.reserve(rows * width)? | self.units.reserve(rows)?)
    }

    /// Makes `rows` of the rows of elements that lie at `source`.
    pub(crate) fn fill(
        &self,
        gpu: &Gpu,
        kernels: &Kernels,
        rows: Range<usize>,
        width: usize,
        source: u64,
    ) -> Result<()> {
        let arguments = Quantization {
            source,
            output: self.numbers.at(rows.start * width),
            units: self.units.at(rows.start),
            width: width as u32,
        };
        gpu.launch(&kernels.quantize, [rows.len(), 1], THREADS, 0, &arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Checkpoint, FeedForward, Shape};

    #[test]
    fn what_fp8_takes_is_said() {
        let checkpoint = Checkpoint::random(Shape::Llada8b).unwrap();
        let refusal = |capability, cublas, mlp| {
            let mut architecture = checkpoint.architecture().clone();
            architecture.feed_forward.fill(FeedForward::Dense { width: mlp });
            possible("a GPU", capability, cublas, &architecture).err().map(|error| error.to_string())
        };
        assert_eq!(refusal(90, 12_09_00, 12_288), None);
        assert_eq!(refusal(90, 13_01_00, 12_288), None);
        for (capability, told) in [(89, "8.9"), (100, "10.0")] {
            let expected = format!(
                "fp8 needs an NVIDIA Hopper GPU (H100, H200), but a GPU is of compute capability {told}, not 9.0: \
                 use precision bf16"
            );
            assert_eq!(refusal(capability, 13_01_00, 12_288), Some(expected));
        }
        let expected = "fp8 needs libcublasLt 12.9 or later, but 12.8 was found: use precision bf16";
        assert_eq!(refusal(90, 12_08_04, 12_288).as_deref(), Some(expected));
        let expected = "fp8 needs sizes that are multiples of 16, but this model's MLP size is 100: use precision bf16";
        assert_eq!(refusal(90, 13_01_00, 100).as_deref(), Some(expected));
    }
}
