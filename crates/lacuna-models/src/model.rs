//! A model that is ready to be asked, wherever it computes.

use lacuna::Predictor;

use crate::{Checkpoint, CpuPredictor, Memory, Precision, Result};

/// Where to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The best there is.
    #[default]
    Auto,
    /// The processor.
    Cpu,
}

/// A predictor that can also tell about itself.
pub trait Model: Predictor + Send {
    /// Where it computes, in a few words.
    fn device(&self) -> String;

    /// The precision of its matrix products.
    fn precision(&self) -> Precision;

    /// What it holds, and what a forward pass over `length` positions needs beyond.
    fn memory(&self, length: usize) -> Memory;

    /// The logits of every position of a view observed last, before any shift: row i is the model's output at position i.
    fn logits(&mut self, view: usize) -> Result<Vec<Vec<f32>>>;
}

/// Loads a checkpoint's weights onto a device, in the checkpoint's own precision if none is given.
pub fn load(checkpoint: &Checkpoint, precision: Option<Precision>, device: Device) -> Result<Box<dyn Model>> {
    match device {
        Device::Auto | Device::Cpu => Ok(Box::new(CpuPredictor::load(checkpoint, precision)?)),
    }
}
