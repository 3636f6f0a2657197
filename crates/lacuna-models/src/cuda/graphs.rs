//! Recorded forward passes.
#![allow(unsafe_code, reason = "launches of recorded kernels")]

use std::collections::HashMap;
use std::ops::Range;

use super::gpu::{Gpu, Graph};
use crate::Result;

/// Recorded passes that are kept at most.
const CAPACITY: usize = 128;

/// Forward passes that were seen before, each recorded when it comes again.
#[derive(Default)]
pub(crate) struct Graphs {
    passes: HashMap<(Pass, [u64; 7]), Option<Graph>>,
    /// Addresses of the buffers that they compute in.
    buffers: Vec<u64>,
}

/// The shape of a pass: what its launches depend on beside addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Pass {
    /// Rows, padded.
    pub(crate) rows: usize,
    /// Tiles, padded.
    pub(crate) tiles: usize,
    /// The layers whose mass is wanted, ascending.
    pub(crate) mass_layers: Vec<usize>,
    /// The layers whose matrices are wanted, ascending, with their tasks, and positions of the longest canvas of these.
    pub(crate) matrix_layers: Vec<(usize, Range<usize>)>,
    pub(crate) longest_matrix: usize,
    /// True if keys and values are cached for other passes.
    pub(crate) caches: bool,
}

impl Graphs {
    /// Computes a pass: launch by launch when it is new, recorded from the second time on.
    ///
    /// # Safety
    /// `compute` launches nothing but kernels whose arguments depend on `pass`, on the addresses `inputs` and `buffers` and on
    /// memory that never moves; and for buffers at these addresses it is sound to launch them.
    pub(crate) unsafe fn run(
        &mut self,
        gpu: &Gpu,
        pass: Pass,
        inputs: [u64; 7],
        buffers: &[u64],
        compute: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if gpu.profile.is_on() {
            return compute();
        }
        // Recordings for other buffers are of no use any more.
        if self.buffers != buffers {
            self.passes.clear();
            self.buffers = buffers.to_vec();
        }
        let key = (pass, inputs);
        match self.passes.get(&key) {
            Some(Some(graph)) => {
                // SAFETY: it was recorded for the same pass and the same addresses, so by the caller's promise it launches
                // what `compute` would.
                unsafe { graph.launch() }
            }
            Some(None) => {
                let graph = gpu.record(compute)?;
                // SAFETY: it was recorded just now.
                unsafe { graph.launch()? };
                self.passes.insert(key, Some(graph));
                Ok(())
            }
            None => {
                compute()?;
                if self.passes.len() >= CAPACITY {
                    self.passes.clear();
                }
                self.passes.insert(key, None);
                Ok(())
            }
        }
    }
}
