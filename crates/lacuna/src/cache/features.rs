//! dLLM-Cache: in every layer, what has changed most.

use super::{Cache, CacheView, Computed};
use crate::catalogue::{Default, Kind, Need, Parameter, Part, Range};
use crate::{Refresh, StepContext};

/// dLLM-Cache: the outputs of every layer are cached. The prompt is computed anew every few passes, and so is the text
/// behind it; in the passes between, a share of it: the positions whose value vectors have changed most.
#[derive(Clone, Debug)]
pub struct Features {
    prompt_interval: usize,
    gen_interval: usize,
    transfer_ratio: f64,
    /// Passes so far.
    passes: usize,
}

const INTERVALS: Kind = Kind::Integer { least: 1, most: 65_536 };
const PROMPT_INTERVAL: Parameter = Parameter::new(
    "prompt_interval",
    INTERVALS,
    Default::Number(50.0),
    "passes between two that compute the prompt; 1 computes it always",
);
const GEN_INTERVAL: Parameter = Parameter::new(
    "gen_interval",
    INTERVALS,
    Default::Number(8.0),
    "passes between two that compute everything behind the prompt; 1 computes it always",
);
const TRANSFER_RATIO: Parameter = Parameter::new(
    "transfer_ratio",
    Kind::Number(Range::closed(0.0, 1.0)),
    Default::Number(0.25),
    "share of the positions behind the prompt that the passes between compute: those whose values have changed most",
);

pub(super) fn part() -> Part {
    Part::cache("dllm", "in every layer the positions whose values have changed most (dLLM-Cache)", |given| {
        Ok(Box::new(Features::new(
            given.integer("prompt_interval"),
            given.integer("gen_interval"),
            given.number("transfer_ratio"),
        )))
    })
    .needs(&[Need::KvCache])
    .parameters(&[PROMPT_INTERVAL, GEN_INTERVAL, TRANSFER_RATIO])
}

impl Features {
    /// A cache that computes the prompt and what is behind it at these intervals, and a share of the latter in every pass.
    pub fn new(prompt_interval: usize, gen_interval: usize, transfer_ratio: f64) -> Self {
        Self { prompt_interval, gen_interval, transfer_ratio, passes: 0 }
    }
}

impl Cache for Features {
    fn compute(&self, now: &CacheView<'_>) -> Computed {
        let prompt = now.canvas.span().start;
        let behind = now.canvas.len() - prompt;
        let changed = match self.passes.is_multiple_of(self.gen_interval) {
            true => Some(behind),
            false => (self.transfer_ratio > 0.0).then_some((behind as f64 * self.transfer_ratio) as usize),
        };
        let anew = self.passes.is_multiple_of(self.prompt_interval);
        Computed::Refresh(Refresh { prompt, anew, changed })
    }

    fn refreshes(&self) -> bool {
        true
    }

    fn learn(&mut self, _chosen: &[usize], _context: &StepContext<'_>) {
        self.passes += 1;
    }

    fn forget(&mut self) {
        self.passes = 0;
    }
}
