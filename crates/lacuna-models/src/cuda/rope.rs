//! The rotary embedding's table, in the GPU's memory.

use std::sync::Arc;

use super::buffer::Buffer;
use super::gpu::Gpu;
use crate::Result;
use crate::rope;

/// Cosines and sines for every position up to the longest seen.
pub(crate) struct Rope {
    table: rope::Rope,
    length: usize,
    pub(crate) cosines: Buffer<f32>,
    pub(crate) sines: Buffer<f32>,
}

impl Rope {
    pub(crate) fn new(gpu: &Arc<Gpu>, rotary: usize, theta: f64) -> Result<Self> {
        let (cosines, sines) = (Buffer::new(gpu, 0)?, Buffer::new(gpu, 0)?);
        Ok(Self { table: rope::Rope::new(rotary, theta), length: 0, cosines, sines })
    }

    /// Makes sure of the positions before `length`.
    pub(crate) fn extend(&mut self, length: usize) -> Result<()> {
        if length <= self.length {
            return Ok(());
        }
        let length = length.next_power_of_two();
        // Until all of it is there.
        self.length = 0;
        self.table.extend(length);
        let (cosines, sines) = self.table.all();
        self.cosines.reserve(cosines.len())?;
        self.sines.reserve(sines.len())?;
        self.cosines.write(0, cosines)?;
        self.sines.write(0, sines)?;
        self.length = length;
        Ok(())
    }

    /// Positions that there are angles for.
    pub(crate) fn length(&self) -> usize {
        self.length
    }
}
