//! Caches: which positions a forward pass computes.

use std::fmt::Debug;
use std::sync::Arc;

use crate::catalogue::{Default, Kind, Need, Parameter, Part};
use crate::{Block, Canvas, Delta};

/// Decides which positions a forward pass computes. The others' keys and values come from earlier passes of the run, so that the
/// result is approximate.
pub trait Cache: Debug + Send + Sync {
    /// The positions of the next pass.
    fn compute(&self, now: &CacheView<'_>) -> Computed;

    /// True if a block takes one more pass after its last position was decided, as Fast-dLLM's code does.
    fn lingers(&self, _block: &Block) -> bool {
        false
    }

    /// True if the first position of a block is decided by itself in this step if the model is shifted, as in Fast-dLLM's code:
    /// the row that predicts it lies before the block and is not computed again.
    fn opens_alone(&self, _block: &Block) -> bool {
        false
    }

    /// True if it caches at all.
    fn is_none(&self) -> bool {
        false
    }
}

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
}

impl Computed {
    /// True if a position is computed.
    pub fn contains(&self, position: usize) -> bool {
        match self {
            Self::All | Self::AllAndCache => true,
            Self::Only(positions) => positions.binary_search(&position).is_ok(),
        }
    }
}

const RELOAD: Parameter = Parameter::new(
    "cache_reload",
    Kind::Integer { least: 1, most: 65_536 },
    Default::Number(2.0),
    "steps of a block between two passes that compute everything; 1 computes everything always",
);

pub(crate) fn parts() -> Vec<Part> {
    vec![
        Part::cache("none", "every pass computes everything; exact", |_| Ok(Arc::new(NoCache))),
        Part::cache(
            "prefix",
            "a block's first pass computes everything, the others from the block on (Fast-dLLM)",
            |_| Ok(Arc::new(FastDllm::Prefix)),
        )
        .needs(&[Need::KvCache]),
        Part::cache("dual", "a block's first pass computes everything, the others only the block (Fast-dLLM)", |_| {
            Ok(Arc::new(FastDllm::Dual))
        })
        .needs(&[Need::KvCache]),
        Part::cache("dkv", "what was decided before the last step is not computed again (dKV-Cache-Decode)", |given| {
            Ok(Arc::new(Delayed { reload: given.integer("cache_reload") }))
        })
        .needs(&[Need::KvCache])
        .parameters(&[RELOAD]),
    ]
}

/// No cache: every pass computes everything.
#[derive(Clone, Debug)]
pub struct NoCache;

impl Cache for NoCache {
    fn compute(&self, _now: &CacheView<'_>) -> Computed {
        Computed::All
    }

    fn is_none(&self) -> bool {
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

    fn lingers(&self, block: &Block) -> bool {
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
        let CacheView { canvas, block, last, shifted } = *now;
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
