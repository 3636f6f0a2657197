//! Keys and values kept from one forward pass for others of the same run.

use std::collections::HashMap;
use std::sync::Arc;

use super::gpu::Gpu;
use super::kernel::{KeptPlace, NONE};
use super::matrix::Elements;
use crate::layout::{Caching, Layout, Span};
use crate::{Precision, Result};

/// For each run, the keys and values of each layer and position.
pub(crate) struct Kept {
    gpu: Arc<Gpu>,
    precision: Precision,
    layers: usize,
    /// Keys and values of a position.
    width: usize,
    runs: HashMap<u64, Canvas>,
    /// Of runs that were forgotten, for others of the same length.
    free: Vec<Canvas>,
}

struct Canvas {
    length: usize,
    elements: Elements,
}

impl Kept {
    pub(crate) fn new(gpu: &Arc<Gpu>, precision: Precision, layers: usize, width: usize) -> Self {
        Self { gpu: gpu.clone(), precision, layers, width, runs: HashMap::new(), free: Vec::new() }
    }

    /// How many positions were kept for a run.
    pub(crate) fn length(&self, run: u64) -> Option<usize> {
        self.runs.get(&run).map(|canvas| canvas.length)
    }

    /// For each row where its keys and values go, once there is room for all that is kept.
    pub(crate) fn places(&mut self, layout: &Layout) -> Result<Vec<KeptPlace>> {
        let mut places = vec![KeptPlace::default(); layout.rows()];
        for span in layout.spans.iter().filter(|span| span.caching != Caching::Off) {
            if self.length(span.run) != Some(span.length) {
                self.forget(span.run);
                let canvas = self.room(span.length)?;
                self.runs.insert(span.run, canvas);
            }
            let Canvas { elements, .. } = &self.runs[&span.run];
            for (row, position) in (span.start..span.end()).zip(&layout.positions[span.start..]) {
                let layer = (span.length * self.width) as u64;
                places[row] = KeptPlace { first: elements.at(position * self.width), layer };
            }
        }
        Ok(places)
    }

    /// Where what a view sees beyond its own rows begins; none if it computes all of it.
    pub(crate) fn seen_by(&self, span: &Span) -> u64 {
        match span.caching {
            Caching::Update => self.runs[&span.run].elements.at(0),
            Caching::Off | Caching::Store => NONE,
        }
    }

    pub(crate) fn forget(&mut self, run: u64) {
        self.free.extend(self.runs.remove(&run));
    }

    fn room(&mut self, length: usize) -> Result<Canvas> {
        if let Some(index) = self.free.iter().position(|canvas| canvas.length == length) {
            return Ok(self.free.swap_remove(index));
        }
        // What fits no other run would only pile up.
        self.free.clear();
        let elements = Elements::new(&self.gpu, self.precision, self.layers * length * self.width)?;
        Ok(Canvas { length, elements })
    }
}
