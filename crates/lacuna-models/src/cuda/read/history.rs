//! Logits remembered from one step to the next, in the GPU's memory.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::buffer::{Buffer, DeviceSlice};
use super::super::gpu::Gpu;
use crate::Result;

/// Rows of logits by run and position.
pub(super) struct LogitHistory {
    gpu: Arc<Gpu>,
    vocabulary: usize,
    slabs: Vec<Buffer<f32>>,
    /// Numbers of unused rows: row `i` lies in slab `i / SLAB`.
    free: Vec<usize>,
    entries: HashMap<(u64, usize), Entry>,
}

/// A remembered row.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    row: usize,
    /// Logarithm of its sum of exponentials, once it is there.
    pub(super) log_total: Option<f64>,
}

/// Rows that are allocated together.
const SLAB: usize = 32;

impl LogitHistory {
    pub(super) fn new(gpu: &Arc<Gpu>, vocabulary: usize) -> Self {
        Self { gpu: gpu.clone(), vocabulary, slabs: Vec::new(), free: Vec::new(), entries: HashMap::new() }
    }

    /// The entry of a row, new or with what was remembered before.
    pub(super) fn entry(&mut self, key: (u64, usize)) -> Result<Entry> {
        if let Some(entry) = self.entries.get(&key) {
            return Ok(*entry);
        }
        if self.free.is_empty() {
            let first = self.slabs.len() * SLAB;
            self.slabs.push(Buffer::new(&self.gpu, SLAB * self.vocabulary)?);
            self.free.extend(first..first + SLAB);
        }
        let row = self.free.pop().expect("a slab was just added");
        let entry = Entry { row, log_total: None };
        self.entries.insert(key, entry);
        Ok(entry)
    }

    /// The logits of an entry.
    pub(super) fn logits(&self, entry: Entry) -> DeviceSlice<'_, f32> {
        let first = entry.row % SLAB * self.vocabulary;
        self.slabs[entry.row / SLAB].slice(first..first + self.vocabulary)
    }

    /// Notes that the logits of a row were replaced. A row that is not finite is dropped.
    pub(super) fn replaced(&mut self, key: (u64, usize), log_total: f64) {
        match self.entries.get_mut(&key) {
            Some(entry) if log_total.is_finite() => entry.log_total = Some(log_total),
            Some(_) => self.forget(|other| *other == key),
            None => {}
        }
    }

    /// Drops all rows that `unwanted` names.
    pub(super) fn forget(&mut self, unwanted: impl Fn(&(u64, usize)) -> bool) {
        let free = &mut self.free;
        self.entries.retain(|key, entry| {
            let keep = !unwanted(key);
            if !keep {
                free.push(entry.row);
            }
            keep
        });
    }
}
