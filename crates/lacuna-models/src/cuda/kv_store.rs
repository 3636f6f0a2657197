//! Keys and values cached from one forward pass for others of the same run.

use std::collections::HashMap;
use std::sync::Arc;

use super::gpu::Gpu;
use super::kernel::{CacheSlot, Element, In};
use super::matrix::Elements;
use crate::layout::{Caching, Layout, Span};
use crate::{Error, Precision, Result};

/// The KV caches of all runs, each `[layer][position][keys, values]`. A run of a block-causal model fills its cache block by block.
pub(crate) struct KvStore {
    gpu: Arc<Gpu>,
    precision: Precision,
    layers: usize,
    /// Elements of the keys and values of a position.
    width: usize,
    runs: HashMap<u64, KvCache>,
    /// Caches of forgotten runs, for others of the same length or little less.
    free: Vec<KvCache>,
}

struct KvCache {
    /// Leading positions whose keys and values it has.
    length: usize,
    /// Positions that there is room for.
    capacity: usize,
    elements: Elements,
}

impl KvStore {
    pub(crate) fn new(gpu: &Arc<Gpu>, precision: Precision, layers: usize, width: usize) -> Self {
        Self { gpu: gpu.clone(), precision, layers, width, runs: HashMap::new(), free: Vec::new() }
    }

    /// Leading positions that are cached for a run.
    pub(crate) fn length(&self, run: u64) -> Option<usize> {
        self.runs.get(&run).map(|cache| cache.length)
    }

    /// The slot of each row, once there is a cache for every run that needs one. Empty if none does.
    pub(crate) fn slots(&mut self, layout: &Layout) -> Result<Vec<CacheSlot>> {
        if !layout.caches() {
            return Ok(Vec::new());
        }
        for span in layout.spans.iter().filter(|span| span.caching != Caching::Off) {
            if grows(span) {
                self.reach(span)?;
            } else if self.length(span.run) != Some(span.length) {
                self.forget(span.run);
                let cache = self.allocate(span.length)?;
                self.runs.insert(span.run, KvCache { length: span.length, ..cache });
            }
        }
        let mut slots = vec![CacheSlot::default(); layout.rows()];
        for span in layout.spans.iter().filter(|span| span.caching != Caching::Off) {
            let KvCache { elements, capacity, .. } = self.cache(span)?;
            let layer_stride = (capacity * self.width) as u64;
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
            Some(cache) if cache.length == span.length || (grows(span) && cache.length > span.length) => Ok(cache),
            Some(_) => {
                Err(Error::Request(format!("two views of run {run} differ in length; give each a run of its own")))
            }
            None => Err(Error::Request(format!("the cache of run {run} was dropped; observe all of it again"))),
        }
    }

    /// Cached keys and values that a view attends to, and positions of a layer of them; null if it computes all of them.
    pub(crate) fn seen_by(&self, span: &Span) -> Result<(In<Element>, usize)> {
        match span.caching {
            Caching::Update => self.cache(span).map(|cache| (cache.elements.all().input(), cache.capacity)),
            Caching::Off | Caching::Store => Ok((In::NULL, 0)),
        }
    }

    /// Makes the cache of a run reach as far as a view; what is cached stays.
    fn reach(&mut self, span: &Span) -> Result<()> {
        let length = self.length(span.run).unwrap_or(0).max(span.length);
        let old = match self.runs.get_mut(&span.run) {
            Some(cache) if cache.capacity >= length => {
                cache.length = length;
                return Ok(());
            }
            _ => self.runs.remove(&span.run),
        };
        let new = self.allocate(length.max(span.canvas))?;
        if let Some(old) = old {
            let kept = old.length * self.width;
            for layer in 0..self.layers {
                let part = |cache: &'_ KvCache| layer * cache.capacity * self.width;
                let (from, to) = (part(&old), part(&new));
                let target = new.elements.all().slice(to..to + kept);
                target.copy_from(&self.gpu, old.elements.all().slice(from..from + kept))?;
            }
            self.free.push(old);
        }
        self.runs.insert(span.run, KvCache { length, ..new });
        Ok(())
    }

    /// Drops the cache of a run.
    pub(crate) fn forget(&mut self, run: u64) {
        self.free.extend(self.runs.remove(&run));
    }

    /// A cache with room for `length` positions, empty.
    fn allocate(&mut self, length: usize) -> Result<KvCache> {
        let fits = |cache: &KvCache| (length..=length + length / 8).contains(&cache.capacity);
        if let Some(index) = self.free.iter().position(fits) {
            return Ok(KvCache { length: 0, ..self.free.swap_remove(index) });
        }
        // Caches of other lengths would only pile up.
        self.free.clear();
        let elements = Elements::new(&self.gpu, self.precision, self.layers * length * self.width)?;
        Ok(KvCache { length: 0, capacity: length, elements })
    }
}

/// True if a view computes some positions of a canvas whose earlier ones are settled: then later ones need not be cached yet.
fn grows(span: &Span) -> bool {
    span.caching == Caching::Update && span.blocks.is_some()
}
