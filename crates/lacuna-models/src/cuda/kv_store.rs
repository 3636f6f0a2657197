//! Keys and values cached from one forward pass for others of the same run.

use std::collections::HashMap;
use std::sync::Arc;

use lacuna::{Borders, Token};

use super::gpu::Gpu;
use super::kernel::{CacheSlot, Element, In};
use super::matrix::{Elements, element_size};
use crate::layout::{Caching, Layout, Span};
use crate::prompts::Prompts;
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
    /// Keys and values that finished runs leave for reuse.
    pub(crate) prompts: Prompts<KvCache>,
}

/// Keys and values of leading positions.
pub(crate) struct KvCache {
    /// Leading positions whose keys and values it has.
    length: usize,
    /// Positions that there is room for.
    capacity: usize,
    elements: Elements,
}

impl KvStore {
    pub(crate) fn new(gpu: &Arc<Gpu>, precision: Precision, layers: usize, width: usize) -> Self {
        Self {
            gpu: gpu.clone(),
            precision,
            layers,
            width,
            runs: HashMap::new(),
            free: Vec::new(),
            prompts: Prompts::default(),
        }
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
                self.reach(span.run, span.length, span.canvas)?;
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
        let dropped = || Error::Request(format!("the cache of run {run} was dropped; observe all of it again"));
        self.runs.get(&run).ok_or_else(dropped)
    }

    /// Cached keys and values that a view attends to, and positions of a layer of them; null if it computes all of them.
    pub(crate) fn seen_by(&self, span: &Span) -> Result<(In<Element>, usize)> {
        match span.caching {
            Caching::Update => self.cache(span).map(|cache| (cache.elements.all().input(), cache.capacity)),
            Caching::Off | Caching::Store => Ok((In::NULL, 0)),
        }
    }

    /// Makes the cache of a run reach `length` positions of a canvas; what is cached stays.
    fn reach(&mut self, run: u64, length: usize, canvas: usize) -> Result<()> {
        let known = self.length(run).unwrap_or(0);
        let (length, fits) = (length.max(known), self.runs.get(&run).is_some_and(|cache| cache.capacity >= length));
        if !fits {
            let mut new = self.allocate(length.max(canvas))?;
            if let Some(old) = self.runs.remove(&run) {
                new.copy(&self.gpu, self.layers, self.width, known, &old)?;
                self.free.push(old);
            }
            self.runs.insert(run, new);
        }
        let cache = self.runs.get_mut(&run).expect("it was made sure of");
        cache.length = length;
        Ok(())
    }

    /// Leaves the leading blocks of a run to others.
    pub(crate) fn store_prefix(&mut self, run: u64, tokens: &[Token], blocks: Borders) {
        let Self { gpu, precision, layers, width, runs, prompts, .. } = self;
        let (length, layers, width) = (tokens.len(), *layers, *width);
        let Some(cache) = runs.get(&run).filter(|cache| cache.length >= length) else { return };
        let size = layers * length * width;
        prompts.store(tokens, blocks, size * element_size(*precision), || {
            let mut copy =
                KvCache { length: 0, capacity: length, elements: Elements::new(gpu, *precision, size).ok()? };
            copy.copy(gpu, layers, width, length, cache).ok()?;
            Some(copy)
        });
    }

    /// Gives a run the longest beginning of its text that others have left. Returns its length.
    pub(crate) fn reuse_prefix(&mut self, run: u64, tokens: &[Token], blocks: Borders) -> usize {
        let mut prompts = std::mem::take(&mut self.prompts);
        let reused = prompts.find(tokens, blocks).and_then(|(length, _, stored)| {
            self.forget(run);
            let mut cache = self.allocate(tokens.len()).ok()?;
            cache.copy(&self.gpu, self.layers, self.width, length, stored).ok()?;
            self.runs.insert(run, cache);
            Some(length)
        });
        self.prompts = prompts;
        reused.unwrap_or(0)
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

impl KvCache {
    /// Takes over the first `length` positions of another cache.
    fn copy(&mut self, gpu: &Gpu, layers: usize, width: usize, length: usize, other: &Self) -> Result<()> {
        for layer in 0..layers {
            let part = |cache: &Self| {
                let start = layer * cache.capacity * width;
                start..start + length * width
            };
            self.elements.all().slice(part(self)).copy_from(gpu, other.elements.all().slice(part(other)))?;
        }
        self.length = length;
        Ok(())
    }
}

/// True if a view computes some positions of a canvas whose earlier ones are settled: then later ones need not be cached yet.
fn grows(span: &Span) -> bool {
    span.caching == Caching::Update && span.blocks.is_some()
}
