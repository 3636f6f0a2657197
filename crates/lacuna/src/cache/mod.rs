//! Caches: which positions a forward pass computes.

mod features;
mod rollout;

use std::fmt::Debug;

use dyn_clone::DynClone;

pub use features::Features;
pub use rollout::Rollout;

use crate::catalogue::{Default, Kind, Need, Parameter, Part};
use crate::{Block, Borders, Canvas, Compute, Delta, Pass, Refresh, StepContext, Target};

/// Decides which positions a forward pass computes. The others' keys and values come from earlier passes of the run.
///
/// If attention is block-causal, finished blocks are exact and never computed again. Otherwise the result is approximate.
pub trait Cache: DynClone + Debug + Send + Sync {
    /// The positions of the next pass.
    fn compute(&self, now: &CacheView<'_>) -> Computed;

    /// The purpose of the next pass.
    fn pass(&self, _now: &CacheView<'_>) -> Pass {
        Pass::Denoise
    }

    /// True if a pass that only stores decides the first position behind what it stores, if the model is shifted: its last row
    /// predicts it (Fast-dLLM v2).
    fn opens(&self) -> bool {
        false
    }

    /// True if a block takes one more pass after its last position was decided, as Fast-dLLM's code does.
    fn needs_another_pass(&self, _block: &Block) -> bool {
        false
    }

    /// True if the first position of a block is decided by itself in this step if the model is shifted, as in Fast-dLLM's code:
    /// the row that predicts it lies before the block and is not computed again.
    fn opens_alone(&self, _block: &Block) -> bool {
        false
    }

    /// Rows beside the candidates whose beliefs it uses, as far as they are computed.
    fn rows(&self, _canvas: &Canvas) -> Vec<Target> {
        Vec::new()
    }

    /// True if it uses the attention rollout of every pass ([`StepContext::rollout`]).
    fn rollout(&self) -> bool {
        false
    }

    /// True if its passes are of the kind [`Compute::Refresh`](crate::Compute::Refresh).
    fn refreshes(&self) -> bool {
        false
    }

    /// Looks at a step in which `chosen` are committed.
    fn learn(&mut self, _chosen: &[usize], _context: &StepContext<'_>) {}

    /// Positions have moved, and nothing is cached any more.
    fn forget(&mut self) {}

    /// True if results are those of a pass over everything.
    fn is_exact(&self) -> bool {
        false
    }

    /// True if it is made for block-causal attention.
    fn is_causal(&self) -> bool {
        false
    }
}

dyn_clone::clone_trait_object!(Cache);

/// The state that a cache decides by.
#[derive(Clone, Copy, Debug)]
pub struct CacheView<'a> {
    /// The canvas before the pass.
    pub canvas: &'a Canvas,
    /// The block being decoded.
    pub block: &'a Block,
    /// The last change, if there was one.
    pub last: Option<&'a Delta>,
    /// True if the model predicts a position from the row before it.
    pub shifted: bool,
    /// The blocks of block-causal attention; none if attention is full.
    pub borders: Option<Borders>,
    /// Leading positions whose keys and values are cached for good, if attention is block-causal.
    pub stored: usize,
    /// Leading positions with cached keys and values, if attention is block-causal.
    pub reached: usize,
}

impl CacheView<'_> {
    /// The first position of the block of block-causal attention that is being decoded.
    fn start(&self, borders: Borders) -> usize {
        borders.start(self.block.range.start)
    }

    /// The position behind that block.
    fn end(&self, borders: Borders) -> usize {
        let last = self.block.range.end.max(self.block.range.start + 1) - 1;
        borders.end(last).min(self.canvas.len())
    }

    /// Positions not stored yet up to the end of the block, and the row before it, which may predict its first position.
    fn unfinished(&self, borders: Borders) -> Computed {
        let end = self.end(borders);
        let start = if self.stored < end { self.stored } else { self.start(borders) };
        let start = if self.shifted { start.saturating_sub(1) } else { start };
        Computed::Only((start..end).collect())
    }
}

/// Positions that a forward pass computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Computed {
    /// All; nothing is cached.
    All,
    /// All; their keys and values are cached.
    AllAndCache,
    /// Only these, ascending; their keys and values replace the cached ones.
    Only(Vec<usize>),
    /// All; most layers give some of them what they gave before.
    Refresh(Refresh),
}

impl Computed {
    /// True if a position is computed.
    pub fn contains(&self, position: usize) -> bool {
        match self {
            Self::All | Self::AllAndCache | Self::Refresh(_) => true,
            Self::Only(positions) => positions.binary_search(&position).is_ok(),
        }
    }

    /// As a predictor is asked for it.
    pub(crate) fn as_compute(&self) -> Compute<'_> {
        match self {
            Self::All => Compute::All,
            Self::AllAndCache => Compute::AllAndCache,
            Self::Only(positions) => Compute::Only(positions),
            Self::Refresh(refresh) => Compute::Refresh(*refresh),
        }
    }

    /// Positions that are computed in all layers together, if the canvas has `length`.
    pub(crate) fn count(&self, length: usize, layers: usize) -> usize {
        match self {
            Self::All | Self::AllAndCache => length * layers,
            Self::Only(positions) => positions.len() * layers,
            Self::Refresh(Refresh { prompt, anew, changed }) => {
                let rows = if *anew { *prompt } else { 0 } + changed.unwrap_or(0);
                length + rows * layers.saturating_sub(1)
            }
        }
    }
}

const RELOAD: Parameter = Parameter::new(
    "cache_reload",
    Kind::Integer { least: 1, most: 65_536 },
    Default::Number(2.0),
    "steps of a block between two passes that compute everything; 1 computes everything always",
);

const BLOCK_PASSES: Parameter = Parameter::new(
    "block_passes",
    Kind::Choice(&["after", "before"]),
    Default::Word("after"),
    "after: the prompt is stored first, and every block when it is finished (SDAR); before: what stands before a block is stored \
     when the block begins (BD3LM)",
);
const OPEN_BLOCKS: Parameter = Parameter::new(
    "open_blocks",
    Kind::Flag,
    Default::Depends("false"),
    "a pass that stores a block decides the first token of the next, if the model is shifted (Fast-dLLM v2)",
);
const SUB_BLOCK_CACHE: Parameter = Parameter::new(
    "sub_block_cache",
    Kind::Flag,
    Default::Depends("false"),
    "passes compute the sub-block alone once its first token is decided; approximate (Fast-dLLM v2)",
);

pub(crate) fn parts() -> Vec<Part> {
    vec![
        Part::cache("none", "exact: everything is computed, but for finished blocks of block-causal attention", |_| {
            Ok(Box::new(NoCache))
        }),
        Part::cache("blocks", "block-causal attention: prompt and finished blocks get passes of their own", |given| {
            let passes = match given.word("block_passes") {
                "before" => Passes::Before,
                _ => Passes::After,
            };
            let [opens, in_parts] = ["open_blocks", "sub_block_cache"].map(|name| given.flag(name));
            Ok(Box::new(FinishedBlocks { passes, opens, in_parts }))
        })
        .needs(&[Need::KvCache])
        .parameters(&[BLOCK_PASSES, OPEN_BLOCKS, SUB_BLOCK_CACHE]),
        Part::cache(
            "prefix",
            "a block's first pass computes everything, the others from the block on (Fast-dLLM)",
            |_| Ok(Box::new(FastDllm::Prefix)),
        )
        .needs(&[Need::KvCache]),
        Part::cache("dual", "a block's first pass computes everything, the others only the block (Fast-dLLM)", |_| {
            Ok(Box::new(FastDllm::Dual))
        })
        .needs(&[Need::KvCache]),
        Part::cache("dkv", "what was decided before the last step is not computed again (dKV-Cache-Decode)", |given| {
            Ok(Box::new(Delayed { reload: given.integer("cache_reload") }))
        })
        .needs(&[Need::KvCache])
        .parameters(&[RELOAD]),
        features::part(),
        rollout::part(),
    ]
}

/// Every pass computes everything. If attention is block-causal, it computes the block that is being decoded, and together with its
/// first step what was finished before.
#[derive(Clone, Debug)]
pub struct NoCache;

impl Cache for NoCache {
    fn compute(&self, now: &CacheView<'_>) -> Computed {
        now.borders.map_or(Computed::All, |borders| now.unfinished(borders))
    }

    fn is_exact(&self) -> bool {
        true
    }
}

/// Block-causal attention with passes that only store: keys and values of what will not change any more.
#[derive(Clone, Debug)]
pub struct FinishedBlocks {
    /// Schedule of these passes.
    pub passes: Passes,
    /// True if such a pass decides the first position of the next block.
    pub opens: bool,
    /// True if a pass computes the sub-block alone once its first position is decided, as Fast-dLLM v2's block cache does; the
    /// rest of the block is stale then.
    pub in_parts: bool,
}

/// Schedule of the passes that only store keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passes {
    /// Before the first block, for the complete blocks of the prompt, and after every block.
    After,
    /// Before every block.
    Before,
}

impl Cache for FinishedBlocks {
    fn pass(&self, now: &CacheView<'_>) -> Pass {
        let Some(borders) = now.borders else { return Pass::Denoise };
        let (start, end) = (now.start(borders), now.end(borders));
        let filled = || !(start..end).any(|position| now.canvas.is_masked(position));
        if now.stored < start {
            Pass::Prefill
        } else if self.passes == Passes::After && now.stored < end && filled() {
            Pass::Store
        } else {
            Pass::Denoise
        }
    }

    fn compute(&self, now: &CacheView<'_>) -> Computed {
        let Some(borders) = now.borders else { return Computed::All };
        let (start, end) = (now.start(borders), now.end(borders));
        let part = now.block.range.clone();
        match self.pass(now) {
            Pass::Prefill => Computed::Only((now.stored..start).collect()),
            Pass::Store => Computed::Only((now.stored..end).collect()),
            Pass::Denoise if self.in_parts && now.reached >= end && !now.canvas.is_masked(part.start) => {
                Computed::Only(part.collect())
            }
            Pass::Denoise => now.unfinished(borders),
        }
    }

    fn opens(&self) -> bool {
        self.opens
    }

    fn is_exact(&self) -> bool {
        !self.in_parts
    }

    fn is_causal(&self) -> bool {
        true
    }
}

/// Fast-dLLM's caches. The first pass of a block computes everything.
#[derive(Clone, Copy, Debug)]
pub enum FastDllm {
    /// Later passes compute the block and everything behind it.
    Prefix,
    /// Later passes compute the block alone.
    Dual,
}

impl Cache for FastDllm {
    fn compute(&self, now: &CacheView<'_>) -> Computed {
        let CacheView { canvas, block, .. } = now;
        if block.step == 0 {
            return Computed::AllAndCache;
        }
        let end = match self {
            Self::Prefix => canvas.len(),
            Self::Dual => block.range.end,
        };
        Computed::Only((block.range.start..end).collect())
    }

    fn needs_another_pass(&self, block: &Block) -> bool {
        block.step == 0
    }

    fn opens_alone(&self, block: &Block) -> bool {
        block.step == 0
    }
}

/// dKV-Cache-Decode: a token is computed once more in the step after it was decided, and then taken from the cache. Every
/// `reload` steps of a block everything is computed.
#[derive(Clone, Debug)]
pub struct Delayed {
    /// Steps between two passes that compute everything.
    pub reload: usize,
}

impl Cache for Delayed {
    fn compute(&self, now: &CacheView<'_>) -> Computed {
        let CacheView { canvas, block, last, shifted, .. } = *now;
        if block.step < 2 || block.step.is_multiple_of(self.reload) {
            return Computed::AllAndCache;
        }
        let fresh = |position: usize| {
            last.is_some_and(|delta| delta.committed.iter().any(|commit| commit.position == position))
        };
        let needed = |position: usize| canvas.is_masked(position) || fresh(position);
        // A shifted model predicts a position from the row before it.
        let predicts = |position: usize| shifted && position + 1 < canvas.len() && canvas.is_masked(position + 1);
        Computed::Only((0..canvas.len()).filter(|&position| needed(position) || predicts(position)).collect())
    }
}
