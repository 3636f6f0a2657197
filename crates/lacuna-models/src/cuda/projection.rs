//! The vocabulary projection, in tiles as the kernel takes them.

use super::gpu::Gpu;
use super::kernel::{Kernels, Projection, STRETCH};
use crate::{Precision, Result};

/// Threads of a block.
const THREADS: usize = 256;

/// Rows of a tile.
const TILE: usize = 64;

/// Bytes of shared memory that a block needs.
fn shared(precision: Precision) -> usize {
    match precision {
        // The logits.
        Precision::F32 => TILE * (STRETCH + 5) * 4,
        // Four stages of slices of 64 columns of both factors, which begin at a multiple of 1024 bytes.
        _ => 4 * (STRETCH + TILE) * 64 * 2 + 1024,
    }
}

/// Lets the kernel have as much.
pub(crate) fn allow(kernels: &Kernels, precision: Precision) -> Result<()> {
    kernels.allow_shared(&kernels.project, shared(precision))
}

/// Projects `rows` rows.
pub(crate) fn project(
    gpu: &Gpu,
    kernels: &Kernels,
    precision: Precision,
    rows: usize,
    arguments: &Projection,
) -> Result<()> {
    let grid = [rows.div_ceil(TILE), arguments.reading.stretches as usize];
    gpu.launch(&kernels.project, grid, THREADS, shared(precision), arguments)
}
