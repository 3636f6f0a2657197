//! The predictor for CPUs. Views and rows are checked here, once.

use lacuna::{AttentionSource, Belief, Borders, Compute, Description, Guide, Observation, Predictor, Row, Token, View};

use super::forward::Forward;
use super::kernel::{Isa, Lines};
use super::measure::ceiling_gflops;
use super::read::Reader;
use super::weights::Weights;
use crate::checks::{check_rows, check_views};
use crate::layout::{Layout, Selection};
use crate::model::{DEFAULT_BATCH, SMALL_MODEL_BYTES};
use crate::{Checkpoint, Error, Memory, Model, Precision, Result};

/// A model on the CPU, threaded through rayon's current pool.
///
/// Batch-invariant: a row's result is bit-identical whatever rows and views are computed with it, on any number of threads.
pub struct CpuPredictor {
    description: Description,
    precision: Precision,
    layout: Layout,
    /// The views observed last.
    observed: Vec<Observed>,
    forward: Forward,
    reader: Reader,
}

/// An observed view.
enum Observed {
    /// Index among the views that were computed in one forward pass.
    Batched(usize),
    /// Layout and run of a view that was computed in a pass of its own, since its layers compute some rows only.
    Alone(Layout, u64),
}

impl CpuPredictor {
    /// Loads the weights, in the checkpoint's own precision if none is given: 16-bit weights stay so.
    pub fn load(checkpoint: &Checkpoint, precision: Option<Precision>) -> Result<Self> {
        let precision = precision.unwrap_or(checkpoint.own_precision());
        if precision == Precision::Fp8 {
            return Err(Error::no_hopper("the CPU was asked for"));
        }
        Isa::choose(None)?;
        let architecture = checkpoint.architecture();
        let description = architecture.description(checkpoint.mask_token()?);
        let weights = Weights::load(checkpoint, precision)?;
        Ok(Self {
            description,
            precision,
            layout: Layout::new(architecture.shifted, architecture.attention.visibility.default_blocks()),
            observed: Vec::new(),
            forward: Forward::new(architecture, weights, precision),
            reader: Reader::default(),
        })
    }
}

impl Predictor for CpuPredictor {
    fn description(&self) -> &Description {
        &self.description
    }

    fn observe(&mut self, views: &[View<'_>]) -> lacuna::Result<Vec<Observation>> {
        check_views(views, &self.description, |run| self.forward.kv_store.length(run))?;
        let Self { forward, layout, description, observed, .. } = self;
        observed.clear();
        if !views.iter().any(|view| matches!(view.compute, Compute::Refresh(_))) {
            layout.pack(views, description.mask);
            return Ok(inside_the_pool(|| forward.observe(layout, views)));
        }
        let together: Vec<View<'_>> =
            views.iter().copied().filter(|view| !matches!(view.compute, Compute::Refresh(_))).collect();
        layout.pack(&together, description.mask);
        inside_the_pool(|| {
            let seen = if together.is_empty() { Vec::new() } else { forward.observe(layout, &together) };
            let mut seen = seen.into_iter().enumerate();
            let observe = |view: &View<'_>| {
                let Compute::Refresh(refresh) = view.compute else {
                    let (index, seen) = seen.next().expect("it was observed together with others");
                    observed.push(Observed::Batched(index));
                    return seen;
                };
                let mut alone = Layout::new(description.shifted, None);
                alone.pack(&[*view], description.mask);
                let seen = forward.refresh(&alone, view, refresh);
                observed.push(Observed::Alone(alone, view.run));
                seen
            };
            Ok(views.iter().map(observe).collect())
        })
    }

    fn read(&mut self, rows: &[Row<'_>]) -> lacuna::Result<Vec<Belief>> {
        check_rows(rows, self.description.vocabulary)?;
        let Self { forward, layout, reader, observed, .. } = self;
        let last = |forward: &mut Forward, selection: &Selection, finished: &mut Lines<f32>| {
            forward.finish(layout, selection, finished);
        };
        if observed.is_empty() {
            return inside_the_pool(|| reader.read(forward, layout, rows, last));
        }
        let mut beliefs = Vec::with_capacity(rows.len());
        for rows in rows.chunk_by(|a, b| a.view == b.view) {
            let guide = |guide: Guide| match observed.get(guide.view) {
                Some(&Observed::Batched(view)) => Guide { view, ..guide },
                _ => guide,
            };
            let moved = |view: usize| -> Vec<Row<'_>> {
                rows.iter().map(|row| Row { view, guide: row.guide.map(guide), ..*row }).collect()
            };
            beliefs.extend(inside_the_pool(|| match observed.get(rows[0].view) {
                None => reader.read(forward, layout, rows, last),
                Some(Observed::Batched(view)) => reader.read(forward, layout, &moved(*view), last),
                Some(Observed::Alone(layout, run)) => {
                    reader.read(forward, layout, &moved(0), |forward, selection, finished| {
                        forward.refreshed.copy(*run, selection, forward.sizes.hidden, finished);
                    })
                }
            })?);
        }
        Ok(beliefs)
    }

    fn forget(&mut self, run: u64) {
        self.reader.forget(run);
        self.forward.kv_store.forget(run);
        self.forward.refreshed.forget(run);
    }

    fn store_prefix(&mut self, run: u64, tokens: &[Token], blocks: Borders) {
        self.forward.kv_store.store_prefix(run, tokens, blocks);
    }

    fn reuse_prefix(&mut self, run: u64, tokens: &[Token], blocks: Borders) -> usize {
        self.forward.kv_store.reuse_prefix(run, tokens, blocks)
    }
}

impl Model for CpuPredictor {
    fn device(&self) -> String {
        format!("cpu, {} threads, {}", rayon::current_num_threads(), Isa::in_use(self.precision))
    }

    fn precision(&self) -> Precision {
        self.precision
    }

    fn memory(&self, length: usize) -> Memory {
        let buffers = self.forward.buffer_bytes(length) + Reader::buffer_bytes(&self.forward, length);
        Memory { weights: self.forward.weights.bytes, buffers }
    }

    /// With a small model one canvas a thread is enough, and the rows of more would not stay in the caches.
    fn default_batch(&self) -> usize {
        if self.forward.weights.bytes <= SMALL_MODEL_BYTES { rayon::current_num_threads() } else { DEFAULT_BATCH }
    }

    fn reuse_prompts(&mut self, bytes: usize) {
        self.forward.kv_store.limit_prompts(bytes);
    }

    fn prompt_bytes(&self) -> usize {
        self.forward.kv_store.prompt_bytes()
    }

    fn ceiling_gflops(&mut self) -> Result<f64> {
        Ok(ceiling_gflops(self.precision))
    }

    fn logits_at(&mut self, view: usize, positions: Option<&[usize]>) -> Result<Vec<Vec<f32>>> {
        let Self { forward, layout, reader, .. } = self;
        let rows = layout.output_rows(view, positions)?;
        inside_the_pool(|| Ok(reader.logits(forward, layout, &rows)))
    }

    fn attention(
        &mut self,
        tokens: &[Token],
        position: usize,
        sources: &[AttentionSource],
    ) -> lacuna::Result<Option<Vec<f32>>> {
        let view = View { tokens, attention: sources, ..View::default() };
        check_views(&[view], &self.description, |_| None)?;
        if position >= tokens.len() {
            return Err(Error::Request(format!("position {position} is not on a canvas of {}", tokens.len())).into());
        }
        self.layout.pack(&[view], self.description.mask);
        let Self { forward, layout, .. } = self;
        Ok(Some(inside_the_pool(|| forward.attention(layout, position, sources))))
    }
}

/// Runs all of `work` on a thread of the pool: entering it for every product would cost more than small products take.
fn inside_the_pool<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    rayon::scope(|_| work())
}
