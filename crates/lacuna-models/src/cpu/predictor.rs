//! The predictor itself: what is asked is checked here, once.

use lacuna::{AttentionSource, Belief, Description, Observation, Predictor, Row, Token, View};

use super::forward::Forward;
use super::kernel::Isa;
use super::measure::ceiling_gflops;
use super::read::Reader;
use super::weights::Weights;
use crate::ask::check;
use crate::layout::Layout;
use crate::model::{SMALL, USUAL_BATCH};
use crate::{Checkpoint, Error, Memory, Model, Precision, Result};

/// A model on the CPU, threaded through rayon's current pool.
///
/// Batch-invariant: a row's result is bit-identical whatever rows and views are computed with it, on any number of threads.
pub struct CpuPredictor {
    description: Description,
    precision: Precision,
    layout: Layout,
    forward: Forward,
    reader: Reader,
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
            layout: Layout::new(architecture.shifted, architecture.attention.visibility.usual_blocks()),
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
        for view in views {
            check(view, &self.description, self.forward.kept.length(view.run))?;
        }
        self.layout.pack(views, self.description.mask);
        let Self { forward, layout, .. } = self;
        Ok(inside_the_pool(|| forward.observe(layout, views)))
    }

    fn read(&mut self, rows: &[Row<'_>]) -> lacuna::Result<Vec<Belief>> {
        let Self { forward, layout, reader, .. } = self;
        inside_the_pool(|| reader.read(forward, layout, rows))
    }

    fn forget(&mut self, run: u64) {
        self.reader.forget(run);
        self.forward.kept.forget(run);
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
    fn usual_batch(&self) -> usize {
        if self.forward.weights.bytes <= SMALL { rayon::current_num_threads() } else { USUAL_BATCH }
    }

    fn ceiling_gflops(&mut self) -> Result<f64> {
        Ok(ceiling_gflops(self.precision))
    }

    fn logits(&mut self, view: usize) -> Result<Vec<Vec<f32>>> {
        let Self { forward, layout, reader, .. } = self;
        inside_the_pool(|| reader.logits(forward, layout, view))
    }

    fn attention(
        &mut self,
        tokens: &[Token],
        position: usize,
        sources: &[AttentionSource],
    ) -> lacuna::Result<Option<Vec<f32>>> {
        let view = View { tokens, attention: sources, ..View::default() };
        check(&view, &self.description, None)?;
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
