//! A model that is ready to be asked, wherever it computes.

use lacuna::{AttentionSource, Predictor, Token};

use crate::{Checkpoint, CpuPredictor, CudaPredictor, Error, Precision, Result};

/// Compute device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// An NVIDIA GPU if there is one that can be used, else the processor.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// The first NVIDIA GPU.
    Cuda,
}

/// Default batch size, unless a device has reasons for another.
pub(crate) const USUAL_BATCH: usize = 8;
/// Weights of so many bytes or fewer are a small model's.
pub(crate) const SMALL: usize = 64 << 20;

/// A predictor that can also tell about itself.
pub trait Model: Predictor + Send {
    /// Name of the device, in a few words.
    fn device(&self) -> String;

    /// The precision of its matrix products.
    fn precision(&self) -> Precision;

    /// Bytes held, and bytes that a forward pass over `length` positions needs in addition.
    fn memory(&self, length: usize) -> Memory;

    /// Recommended batch size for many canvases.
    fn usual_batch(&self) -> usize {
        USUAL_BATCH
    }

    /// Keeps keys and values of finished blocks for runs whose texts begin alike, in so many bytes; none unless it is told. Block-causal
    /// models alone can do that, and it changes no result.
    fn reuse_prompts(&mut self, _bytes: usize) {}

    /// Bytes of what is kept for that.
    fn prompt_bytes(&self) -> usize {
        0
    }

    /// The most operations a second, in GFLOP/s, that its device does in its precision. It is measured.
    fn ceiling_gflops(&mut self) -> Result<f64>;

    /// Waits until everything asked so far is computed, where that goes on behind the caller's back. Only measuring needs it.
    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    /// The logits of every position of a view observed last, before any shift: row i is the model's output at position i.
    fn logits(&mut self, view: usize) -> Result<Vec<Vec<f32>>>;

    /// The attention that one position pays to every position of a canvas, the mean over `sources`; none if this device does
    /// not give single attention weights. It computes anew: views observed before can no longer be read.
    fn attention(
        &mut self,
        _tokens: &[Token],
        _position: usize,
        _sources: &[AttentionSource],
    ) -> lacuna::Result<Option<Vec<f32>>> {
        Ok(None)
    }
}

/// Memory use of a predictor, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The weights.
    pub weights: usize,
    /// The buffers of one forward pass.
    pub buffers: usize,
}

/// Loads a checkpoint's weights onto a device, in the checkpoint's own precision if none is given.
///
/// [`Device::Auto`] means the GPU, except where there is none that can be used or the precision is one that it does not have. A
/// model that is too large for the GPU is refused, not moved: on the processor it would be many times slower.
pub fn load(checkpoint: &Checkpoint, precision: Option<Precision>, device: Device) -> Result<Box<dyn Model>> {
    let cpu = || Ok(Box::new(CpuPredictor::load(checkpoint, precision)?) as Box<dyn Model>);
    match device {
        Device::Cpu => cpu(),
        Device::Cuda => Ok(Box::new(CudaPredictor::load(checkpoint, precision)?)),
        Device::Auto => match CudaPredictor::load(checkpoint, precision) {
            Err(Error::NoGpu { reason, .. }) if precision == Some(Precision::Fp8) => Err(Error::no_hopper(reason)),
            Err(Error::NoGpu { .. } | Error::NotOnGpu { .. }) => cpu(),
            loaded => Ok(Box::new(loaded?)),
        },
    }
}
