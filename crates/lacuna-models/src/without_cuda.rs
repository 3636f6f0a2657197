//! Answers of a build without CUDA.

use crate::{Checkpoint, CpuPredictor, Error, Precision, Result};

/// The GPU that can be used: none.
pub fn describe_gpu() -> Result<String> {
    Err(no_gpu())
}

/// The number of GPUs.
pub(crate) fn gpu_count() -> Result<usize> {
    Err(no_gpu())
}

/// The predictor that such a build has not.
pub(crate) struct CudaPredictor;

impl CudaPredictor {
    pub(crate) fn load(_checkpoint: &Checkpoint, _precision: Option<Precision>) -> Result<CpuPredictor> {
        Err(no_gpu())
    }

    pub(crate) fn load_onto(
        _number: usize,
        checkpoint: &Checkpoint,
        precision: Option<Precision>,
    ) -> Result<CpuPredictor> {
        Self::load(checkpoint, precision)
    }
}

fn no_gpu() -> Error {
    Error::NoGpu { reason: "this program was built without the feature `cuda`".into(), expected: false }
}
