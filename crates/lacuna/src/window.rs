//! Windows: which masked positions may be filled now.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::catalogue::{Default, Kind, Parameter, Part};
use crate::{Canvas, Error, Result};

/// Opens a canvas from left to right. A step may fill every masked position before the end of what is open.
pub trait Window: Debug + Send + Sync {
    /// The blocks of a canvas, which are decoded one after the other.
    fn blocks(&self, canvas: &Canvas) -> Result<Blocks>;

    /// The end of what is open in `block`; `before` is what it was in the step before, or the block's start.
    fn end(&self, _canvas: &Canvas, block: &Range<usize>, _before: usize) -> usize {
        block.end
    }
}

const BLOCK_LENGTH: Parameter = Parameter::new(
    "block_length",
    Kind::Integer { least: 1, most: 1 << 24 },
    Default::Depends("one block"),
    "positions in a block; for a sliding window its length at the start",
);
const MAX_WINDOW: Parameter = Parameter::new(
    "max_window",
    Kind::Limit,
    Default::Depends("no limit"),
    "most positions that are open from the first masked one on",
);

pub(crate) fn parts() -> Vec<Part> {
    vec![
        Part::window(
            "blocks",
            "blocks of block_length, one after the other; one block if no length is given",
            |given| Ok(Arc::new(InBlocks { length: given.optional_integer("block_length") })),
        )
        .parameters(&[BLOCK_LENGTH]),
        Part::window("sliding", "a window that advances by as many positions as were committed (DSB)", |given| {
            Ok(Arc::new(Sliding { length: given.integer("block_length"), most: given.optional_integer("max_window") }))
        })
        .parameters(&[BLOCK_LENGTH.default(Default::Required), MAX_WINDOW]),
    ]
}

/// Blocks of a canvas: ascending, disjoint, each with a gap, all gaps in one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks(Vec<Range<usize>>);

impl Blocks {
    /// Blocks of these positions. Ranges without a gap are left out.
    pub fn new(canvas: &Canvas, ranges: impl IntoIterator<Item = Range<usize>>) -> Result<Self> {
        let (mut blocks, mut end, mut gaps) = (Vec::new(), 0, 0);
        for range in ranges {
            if range.start < end || range.end > canvas.len() {
                return Err(Error::Incompatible("blocks must ascend and lie in the canvas".into()));
            }
            end = range.end;
            let count = range.clone().filter(|&position| canvas.is_gap(position)).count();
            gaps += count;
            if count > 0 {
                blocks.push(range);
            }
        }
        if gaps != canvas.gaps().count() {
            return Err(Error::Incompatible("every masked position must lie in a block".into()));
        }
        Ok(Self(blocks))
    }

    /// Blocks of `length` from the first gap on; the last one is shorter if they do not divide.
    pub fn split(canvas: &Canvas, length: usize) -> Result<Self> {
        let Range { start, end } = canvas.span();
        let length = length.clamp(1, canvas.len());
        Self::new(canvas, (start..end).step_by(length).map(|start| start..(start + length).min(end)))
    }

    /// The block with this index.
    pub fn get(&self, index: usize) -> Option<&Range<usize>> {
        self.0.get(index)
    }

    /// Adds blocks behind the last.
    pub(crate) fn append(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Number of blocks; at least one.
    #[allow(clippy::len_without_is_empty, reason = "there is at least one block")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// Blocks of a fixed length, one after the other.
#[derive(Clone, Debug)]
pub struct InBlocks {
    /// Positions in a block; one block if there is no length.
    pub length: Option<usize>,
}

impl Window for InBlocks {
    fn blocks(&self, canvas: &Canvas) -> Result<Blocks> {
        Blocks::split(canvas, self.length.unwrap_or(canvas.len()))
    }
}

/// DSB's sliding window: as many gaps are open as at the start, not counting those that are decided.
#[derive(Clone, Debug)]
pub struct Sliding {
    /// Gaps that are open at the start.
    pub length: usize,
    /// Most gaps that are open from the first masked one on.
    pub most: Option<usize>,
}

impl Window for Sliding {
    fn blocks(&self, canvas: &Canvas) -> Result<Blocks> {
        Blocks::new(canvas, [canvas.span()])
    }

    fn end(&self, canvas: &Canvas, block: &Range<usize>, before: usize) -> usize {
        let behind = |gaps: &mut dyn Iterator<Item = usize>, count: usize| {
            gaps.nth(count - 1).map_or(block.end, |position| position + 1)
        };
        let decided = canvas.gaps().filter(|&position| !canvas.is_masked(position)).count();
        let end = behind(&mut canvas.gaps(), self.length.saturating_add(decided));
        // As in the official code, the bound counts from the end that was, if everything before it is decided.
        let first = canvas.masked().next().map_or(before, |masked| masked.min(before.max(block.start)));
        match self.most {
            Some(most) => end.min(behind(&mut canvas.gaps().filter(|&position| position >= first), most)),
            None => end,
        }
    }
}
