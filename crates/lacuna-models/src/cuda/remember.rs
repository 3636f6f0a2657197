//! Distributions kept from one step to the next, in the GPU's memory.

use std::collections::HashMap;
use std::sync::Arc;

use super::buffer::Buffer;
use super::gpu::Gpu;
use crate::Result;

/// Rows of logits by run and position.
pub(crate) struct Remembered {
    gpu: Arc<Gpu>,
    vocabulary: usize,
    slabs: Vec<Buffer<f32>>,
    free: Vec<u64>,
    kept: HashMap<(u64, usize), Kept>,
}

/// Where a row lies.
#[derive(Clone, Copy)]
pub(crate) struct Kept {
    pub(crate) address: u64,
    /// The logarithm of its sum of exponentials, once it is there.
    pub(crate) log_total: Option<f64>,
}

/// Rows that are allocated together.
const SLAB: usize = 32;

impl Remembered {
    pub(crate) fn new(gpu: &Arc<Gpu>, vocabulary: usize) -> Self {
        Self { gpu: gpu.clone(), vocabulary, slabs: Vec::new(), free: Vec::new(), kept: HashMap::new() }
    }

    /// How long a row is.
    pub(crate) fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// The place for a row, with what was kept there before.
    pub(crate) fn place(&mut self, key: (u64, usize)) -> Result<Kept> {
        if let Some(kept) = self.kept.get(&key) {
            return Ok(*kept);
        }
        if self.free.is_empty() {
            let slab = Buffer::new(&self.gpu, SLAB * self.vocabulary)?;
            self.free.extend((0..SLAB).map(|row| slab.at(row * self.vocabulary)));
            self.slabs.push(slab);
        }
        let address = self.free.pop().expect("a slab was just added");
        let kept = Kept { address, log_total: None };
        self.kept.insert(key, kept);
        Ok(kept)
    }

    /// Notes what a row was replaced by; one that is not finite is dropped.
    pub(crate) fn replaced(&mut self, key: (u64, usize), log_total: f64) {
        match self.kept.get_mut(&key) {
            Some(kept) if log_total.is_finite() => kept.log_total = Some(log_total),
            Some(_) => self.forget(|other| *other == key),
            None => {}
        }
    }

    /// Drops all rows that `unwanted` names.
    pub(crate) fn forget(&mut self, unwanted: impl Fn(&(u64, usize)) -> bool) {
        let free = &mut self.free;
        self.kept.retain(|key, kept| {
            let keep = !unwanted(key);
            if !keep {
                free.push(kept.address);
            }
            keep
        });
    }
}
