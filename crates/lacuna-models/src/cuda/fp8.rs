//! fp8 (e4m3): requirements, and rows of it.

use std::ops::Range;
use std::sync::Arc;

use cudarc::cublaslt::sys::cublasLtGetVersion;

use super::buffer::{Buffer, DeviceSlice};
use super::compile::HOPPER;
use super::gpu::Gpu;
use crate::architecture::{Architecture, Experts, FeedForward};
use crate::{Error, Result};

/// The first cublasLt that takes a scale for each row and column, as it tells its version.
const OLDEST_CUBLAS: usize = 12_09_00;
/// Sizes of matrices must be multiples of this.
const STEP: usize = 16;

/// Threads that work on a row.
pub(crate) const THREADS: usize = 512;

/// Refuses a GPU, a library or a model that fp8 is impossible with.
#[allow(unsafe_code, reason = "a call into cublasLt")]
pub(crate) fn check(gpu: &Gpu, architecture: &Architecture) -> Result<()> {
    // SAFETY: it takes no arguments and returns a number.
    possible(gpu.name(), gpu.architecture(), unsafe { cublasLtGetVersion() }, architecture)
}

fn possible(gpu: &str, capability: i32, cublas: usize, architecture: &Architecture) -> Result<()> {
    // Only there cublasLt takes such scales.
    if capability != HOPPER {
        let (major, minor) = (capability / 10, capability % 10);
        return Err(Error::no_hopper(format!("{gpu} is of compute capability {major}.{minor}, not 9.0")));
    }
    if cublas < OLDEST_CUBLAS {
        let found = format!("{}.{} was found", cublas / 10_000, cublas / 100 % 100);
        return Err(Error::NoFp8 { needed: "libcublasLt 12.9 or later", found });
    }
    let sizes = [
        ("hidden size", architecture.hidden),
        ("size of queries", architecture.attention.query_size()),
        ("size of keys", architecture.attention.key_size()),
    ];
    let widths = |layer: &FeedForward| match *layer {
        FeedForward::Dense { width } => [("MLP size", width); 2],
        FeedForward::Experts(Experts { width, shared, .. }) => {
            [("size of experts", width), ("size of the shared expert", shared.unwrap_or(width))]
        }
    };
    let mut sizes = sizes.into_iter().chain(architecture.feed_forward.iter().flat_map(widths));
    match sizes.find(|(_, size)| size % STEP != 0) {
        Some((name, size)) => {
            let found = format!("this model's {name} is {size}");
            Err(Error::NoFp8 { needed: "sizes that are multiples of 16", found })
        }
        None => Ok(()),
    }
}

/// Rows in fp8, each with a scale of its own.
pub(crate) struct Fp8Rows {
    values: Buffer<u8>,
    scales: Buffer<f32>,
}

/// Borrowed rows in fp8.
#[derive(Clone, Copy)]
pub(crate) struct Fp8Slice<'a> {
    pub(crate) values: DeviceSlice<'a, u8>,
    pub(crate) scales: DeviceSlice<'a, f32>,
}

impl Fp8Rows {
    pub(crate) fn new(gpu: &Arc<Gpu>, rows: usize, width: usize) -> Result<Self> {
        Ok(Self { values: Buffer::new(gpu, rows * width)?, scales: Buffer::new(gpu, rows)? })
    }

    /// Bytes of a row.
    pub(crate) fn row_bytes(width: usize) -> usize {
        width + size_of::<f32>()
    }

    /// Makes room. If they have to move, all rows are lost.
    pub(crate) fn reserve(&mut self, rows: usize, width: usize) -> Result<()> {
        self.values.reserve(rows * width)?;
        self.scales.reserve(rows)
    }

    /// Copies all values and scales to the host.
    pub(crate) fn read(&self, values: &mut [u8], scales: &mut [f32]) -> Result<()> {
        self.values.read(0, values)?;
        self.scales.read(0, scales)
    }

    /// The place for as many rows as fit.
    pub(crate) fn all(&self) -> Fp8Slice<'_> {
        Fp8Slice { values: self.values.all(), scales: self.scales.all() }
    }

    /// Some rows of `width` values.
    pub(crate) fn rows(&self, rows: Range<usize>, width: usize) -> Fp8Slice<'_> {
        let values = self.values.slice(rows.start * width..rows.end * width);
        Fp8Slice { values, scales: self.scales.slice(rows) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Checkpoint, Shape};

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
        let mut experts = Checkpoint::random(Shape::LladaMoe).unwrap().architecture().clone();
        assert!(possible("a GPU", 90, 13_01_00, &experts).is_ok());
        for layer in &mut experts.feed_forward {
            if let FeedForward::Experts(experts) = layer {
                experts.width = 1000;
            }
        }
        let refused = possible("a GPU", 90, 13_01_00, &experts).unwrap_err().to_string();
        let expected =
            "fp8 needs sizes that are multiples of 16, but this model's size of experts is 1000: use precision bf16";
        assert_eq!(refused, expected);
        let expected = "fp8 needs sizes that are multiples of 16, but this model's MLP size is 100: use precision bf16";
        assert_eq!(refusal(90, 13_01_00, 100).as_deref(), Some(expected));
    }
}
