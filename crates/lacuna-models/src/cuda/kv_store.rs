//! Keys and values cached from one forward pass for others of the same run.

use std::collections::HashMap;
use std::sync::Arc;

use super::gpu::Gpu;
use super::kernel::{CacheSlot, Element, In};
use super::matrix::Elements;
use crate::layout::{Caching, Layout, Span};
use crate::{Error, Precision, Result};

/// The KV caches of all runs, each `[layer][position][keys, values]`.
pub(crate) struct KvStore {
    gpu: Arc<Gpu>,
    precision: Precision,
    layers: usize,
    /// Elements of the keys and values of a position.
    width: usize,
    runs: HashMap<u64, KvCache>,
    /// Caches of forgotten runs, for others of the same length.
    free: Vec<KvCache>,
}

struct KvCache {
    length: usize,
    elements: Elements,
}

impl KvStore {
    pub(crate) fn new(gpu: &Arc<Gpu>, precision: Precision, layers: usize, width: usize) -> Self {
        Self { gpu: gpu.clone(), precision, layers, width, runs: HashMap::new(), free: Vec::new() }
    }

    /// Positions that are cached for a run.
    pub(crate) fn length(&self, run: u64) -> Option<usize> {
        self.runs.get(&run).map(|cache| cache.length)
    }

    /// The slot of each row, once there is a cache for every run that needs one. Empty if none does.
    pub(crate) fn slots(&mut self, layout: &Layout) -> Result<Vec<CacheSlot>> {
        if !layout.caches() {
            return Ok(Vec::new());
        }
        for span in layout.spans.iter().filter(|span| span.caching != Caching::Off) {
            if self.length(span.run) != Some(span.length) {
                self.forget(span.run);
                let cache = self.allocate(span.length)?;
                self.runs.insert(span.run, cache);
            }
        }
        let mut slots = vec![CacheSlot::default(); layout.rows()];
        for span in layout.spans.iter().filter(|span| span.caching != Caching::Off) {
            let elements = &self.cache(span)?.elements;
            let layer_stride = (span.length * self.width) as u64;
            for (row, position) in (span.start..span.end()).zip(&layout.positions[span.start..]) {
                let first = elements.from(position * self.width).output();
                slots[row] = CacheSlot { first, layer_stride };
            }
        }
        Ok(slots)
    }

    /// The cache of a view's run.
    fn cache(&self, span: &Span) -> Result<&KvCache> {
        let run = span.run;
        match self.runs.get(&run) {
            Some(cache) if cache.length == span.length => Ok(cache),
            Some(_) => {
                Err(Error::Request(format!("two views of run {run} differ in length; give each a run of its own")))
            }
            None => Err(Error::Request(format!("the cache of run {run} was dropped; observe all of it again"))),
        }
    }

    /// Cached keys and values that a view attends to; null if it computes all of them.
    pub(crate) fn seen_by(&self, span: &Span) -> Result<In<Element>> {
        match span.caching {
            Caching::Update => Ok(self.cache(span)?.elements.all().input()),
            Caching::Off | Caching::Store => Ok(In::NULL),
        }
    }

    /// Drops the cache of a run.
    pub(crate) fn forget(&mut self, run: u64) {
        self.free.extend(self.runs.remove(&run));
    }

    fn allocate(&mut self, length: usize) -> Result<KvCache> {
        if let Some(index) = self.free.iter().position(|cache| cache.length == length) {
            return Ok(self.free.swap_remove(index));
        }
        // Caches of other lengths would only pile up.
        self.free.clear();
        let elements = Elements::new(&self.gpu, self.precision, self.layers * length * self.width)?;
        Ok(KvCache { length, elements })
    }
}
