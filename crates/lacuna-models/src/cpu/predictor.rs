//! The predictor itself: what is asked is checked here, once.

use lacuna::{Belief, Description, Observation, Predictor, Row, View};

use super::forward::Forward;
use super::layout::Layout;
use super::matrix::Precision;
use super::read::Reader;
use super::weights::Weights;
use crate::{Checkpoint, Error, Model, Result};

/// A model on the CPU, threaded through rayon's current pool.
///
/// What it answers for a row does not depend, bit for bit, on the rows and views that are computed with it, nor on the number
/// of threads.
pub struct CpuPredictor {
    description: Description,
    precision: Precision,
    layout: Layout,
    forward: Forward,
    reader: Reader,
}

/// What a predictor holds, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The weights.
    pub weights: usize,
    /// The buffers of one forward pass.
    pub buffers: usize,
}

impl CpuPredictor {
    /// Loads the weights, in the checkpoint's own precision if none is given: 16-bit weights stay so.
    pub fn load(checkpoint: &Checkpoint, precision: Option<Precision>) -> Result<Self> {
        let own = if checkpoint.is_f32() { Precision::F32 } else { Precision::Bf16 };
        let precision = precision.unwrap_or(own);
        let architecture = checkpoint.architecture();
        let weights = Weights::load(checkpoint, precision)?;
        Ok(Self {
            description: Description {
                vocabulary: architecture.vocabulary,
                mask: architecture.mask,
                layers: architecture.layers,
                heads: architecture.heads,
                context: architecture.context,
                // A shadow row of a shifted model would predict the position behind it.
                shadows: !architecture.shifted,
            },
            precision,
            layout: Layout::new(architecture.shifted),
            forward: Forward::new(architecture, weights, precision),
            reader: Reader::default(),
        })
    }

    fn check(&self, view: &View<'_>) -> lacuna::Result<()> {
        let Description { vocabulary, layers, heads, context, shadows, .. } = self.description;
        let length = view.tokens.len();
        if length == 0 {
            return Err(Error::Request("a canvas without positions cannot be observed".to_string()).into());
        }
        if length > context {
            return Err(lacuna::Error::TooLong { length, context });
        }
        if let Some(position) = view.tokens.iter().position(|&token| token as usize >= vocabulary) {
            return Err(lacuna::Error::TokenOutOfRange { token: view.tokens[position], position, vocabulary });
        }
        for source in view.attention {
            if source.layer >= layers {
                return Err(lacuna::Error::NoSuchLayer { layer: source.layer, layers });
            }
            if let Some(&head) = source.heads.iter().find(|&&head| head >= heads) {
                return Err(lacuna::Error::NoSuchHead { head, heads });
            }
        }
        if !shadows && !view.shadows.is_empty() {
            let reason = "a model whose prediction is shifted has no shadow rows";
            return Err(lacuna::Error::Unfit(reason.to_string()));
        }
        match view.shadows.iter().find(|&&position| position >= length) {
            Some(position) => Err(Error::Request(format!("position {position} has no token to shadow")).into()),
            None => Ok(()),
        }
    }
}

impl Predictor for CpuPredictor {
    fn description(&self) -> &Description {
        &self.description
    }

    fn observe(&mut self, views: &[View<'_>]) -> lacuna::Result<Vec<Observation>> {
        views.iter().try_for_each(|view| self.check(view))?;
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
    }
}

impl Model for CpuPredictor {
    fn device(&self) -> String {
        format!("cpu, {} threads", rayon::current_num_threads())
    }

    fn precision(&self) -> Precision {
        self.precision
    }

    fn memory(&self, length: usize) -> Memory {
        let buffers = self.forward.buffer_bytes(length) + Reader::buffer_bytes(&self.forward, length);
        Memory { weights: self.forward.weights.bytes(), buffers }
    }

    fn logits(&mut self, view: usize) -> Result<Vec<Vec<f32>>> {
        let Self { forward, layout, reader, .. } = self;
        inside_the_pool(|| reader.logits(forward, layout, view))
    }
}

/// Runs all of `work` on a thread of the pool: entering it for every product would cost more than small products take.
fn inside_the_pool<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    rayon::scope(|_| work())
}
