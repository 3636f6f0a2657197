//! Windows: which masked positions may be filled now.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::catalogue::{Default, Kind, Parameter, Part};
use crate::{Borders, Canvas, Description, Error, Result, Visibility};

/// Opens a canvas from left to right. A step may fill every masked position before the end of what is open.
pub trait Window: Debug + Send + Sync {
    /// The blocks of a canvas, which are decoded one after the other; `borders` are those of block-causal attention.
    fn blocks(&self, canvas: &Canvas, borders: Option<Borders>) -> Result<Blocks>;

    /// The blocks of block-causal attention, if the first gap is at `first`; none if attention is full.
    fn borders(&self, _first: usize, model: &Description) -> Option<Borders> {
        model.visibility.default_blocks()
    }

    /// Length of a canvas with a prompt and `length` tokens to decode behind it.
    fn canvas_length(&self, prompt: usize, length: usize, _model: &Description) -> usize {
        prompt.saturating_add(length)
    }

    /// Refuses a number of tokens to decode that it cannot be cut for.
    fn fits(&self, _length: usize, _model: &Description) -> Result<()> {
        Ok(())
    }

    /// The end of what is open in `block`; `before` is what it was in the step before, or the block's start.
    fn end(&self, _canvas: &Canvas, block: &Range<usize>, _before: usize) -> usize {
        block.end
    }
}

const BLOCK_LENGTH: Parameter = Parameter::new(
    "block_length",
    Kind::Integer { least: 1, most: 1 << 24 },
    Default::Depends("the model's blocks, else one block"),
    "positions in a block, and in a block of block-causal attention; for a sliding window its length at the start",
);
const WHOLE_BLOCKS: Parameter = Parameter::new(
    "whole_blocks",
    Kind::Flag,
    Default::Flag(true),
    "the canvas of a block-causal model is rounded up to whole blocks; what is decoded beyond gen_length is not shown",
);
const SUB_BLOCK_LENGTH: Parameter = Parameter::new(
    "sub_block_length",
    Kind::Integer { least: 1, most: 1 << 24 },
    Default::Number(8.0),
    "positions in a sub-block; a block's sub-blocks are decoded from left to right",
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
            "blocks of block_length, one after the other; from position 0 on if attention is block-causal",
            |given| {
                let (length, whole) = (given.optional_integer("block_length"), given.flag("whole_blocks"));
                Ok(Arc::new(InBlocks { length, whole }))
            },
        )
        .parameters(&[BLOCK_LENGTH, WHOLE_BLOCKS]),
        Part::window("causal-blocks", "blocks from the prompt's end on, and block-causal attention (BD3LM)", |given| {
            Ok(Arc::new(CausalBlocks { length: given.optional_integer("block_length") }))
        })
        .parameters(&[BLOCK_LENGTH.default(Default::Depends("the model's blocks, else 32"))]),
        Part::window("sub-blocks", "parts of blocks, and block-causal attention (Fast-dLLM v2)", |given| {
            let (length, part) = (given.optional_integer("block_length"), given.integer("sub_block_length"));
            Ok(Arc::new(SubBlocks { length, part }))
        })
        .parameters(&[BLOCK_LENGTH.default(Default::Depends("the model's blocks, else 32")), SUB_BLOCK_LENGTH]),
        Part::window("sliding", "a window that advances by as many positions as were committed (DSB)", |given| {
            Ok(Arc::new(Sliding { length: given.integer("block_length"), most: given.optional_integer("max_window") }))
        })
        .parameters(&[BLOCK_LENGTH.default(Default::Required), MAX_WINDOW]),
    ]
}

/// Default length of causal blocks.
const DEFAULT_LENGTH: usize = 32;

/// Blocks of a canvas: ascending, disjoint, each with a gap, all gaps in one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    ranges: Vec<Range<usize>>,
    scheduled: usize,
}

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
        Ok(Self { scheduled: blocks.len(), ranges: blocks })
    }

    /// Blocks of `length` from the first gap on; the last one is shorter if they do not divide.
    pub fn split(canvas: &Canvas, length: usize) -> Result<Self> {
        let Range { start, end } = canvas.span();
        let length = length.clamp(1, canvas.len());
        Self::new(canvas, (start..end).step_by(length).map(|start| start..(start + length).min(end)))
    }

    /// The blocks of block-causal attention, cut into parts of `part` at most. Steps are divided by as many blocks as the gaps fill.
    pub fn along(canvas: &Canvas, borders: Borders, part: usize) -> Result<Self> {
        let (mut ranges, mut start) = (Vec::new(), borders.start(canvas.span().start));
        while start < canvas.span().end {
            let end = borders.end(start).min(canvas.len());
            ranges.extend((start..end).step_by(part).map(|start| start..start.saturating_add(part).min(end)));
            start = end;
        }
        let scheduled = canvas.gaps().count().div_ceil(borders.length().min(part));
        Ok(Self { scheduled, ..Self::new(canvas, ranges)? })
    }

    /// The block with this index.
    pub fn get(&self, index: usize) -> Option<&Range<usize>> {
        self.ranges.get(index)
    }

    /// Adds blocks behind the last.
    pub(crate) fn append(&mut self, more: Self) {
        self.ranges.extend(more.ranges);
        self.scheduled += more.scheduled;
    }

    /// Number of blocks; at least one.
    #[allow(clippy::len_without_is_empty, reason = "there is at least one block")]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Number of blocks that the steps of a schedule are divided by.
    pub fn scheduled(&self) -> usize {
        self.scheduled
    }
}

/// Blocks of a fixed length, one after the other.
#[derive(Clone, Debug)]
pub struct InBlocks {
    /// Positions in a block; if there is no length, one block, or the blocks of block-causal attention.
    pub length: Option<usize>,
    /// True if the canvas of a block-causal model is rounded up to whole blocks.
    pub whole: bool,
}

impl Window for InBlocks {
    fn blocks(&self, canvas: &Canvas, borders: Option<Borders>) -> Result<Blocks> {
        match borders {
            Some(borders) => Blocks::along(canvas, borders, borders.length()),
            None => Blocks::split(canvas, self.length.unwrap_or(canvas.len())),
        }
    }

    fn borders(&self, _first: usize, model: &Description) -> Option<Borders> {
        match model.visibility {
            Visibility::Blocks(usual) => Some(Borders::from_zero(self.length.unwrap_or(usual))),
            Visibility::Full | Visibility::Either => None,
        }
    }

    fn canvas_length(&self, prompt: usize, length: usize, model: &Description) -> usize {
        let end = prompt.saturating_add(length);
        match self.borders(prompt, model) {
            Some(borders) if self.whole && end > 0 => borders.end(end - 1),
            _ => end,
        }
    }

    fn fits(&self, length: usize, model: &Description) -> Result<()> {
        match self.length {
            Some(block) if !length.is_multiple_of(block) && self.borders(length, model).is_none() => {
                let expected = format!("must divide the generation length, {length}");
                Err(Error::parameter("block_length", block.to_string(), expected))
            }
            _ => Ok(()),
        }
    }
}

/// Blocks of a fixed length from the first gap on, and block-causal attention with the same borders (BD3LM).
#[derive(Clone, Debug)]
pub struct CausalBlocks {
    /// Positions in a block.
    pub length: Option<usize>,
}

impl Window for CausalBlocks {
    fn blocks(&self, canvas: &Canvas, borders: Option<Borders>) -> Result<Blocks> {
        InBlocks { length: self.length, whole: false }.blocks(canvas, borders)
    }

    fn borders(&self, first: usize, model: &Description) -> Option<Borders> {
        Some(Borders::at(first, block_length(self.length, model)))
    }
}

/// Parts of blocks of block-causal attention, decoded from left to right (Fast-dLLM v2).
#[derive(Clone, Debug)]
pub struct SubBlocks {
    /// Positions in a block.
    pub length: Option<usize>,
    /// Positions in a part.
    pub part: usize,
}

impl Window for SubBlocks {
    fn blocks(&self, canvas: &Canvas, borders: Option<Borders>) -> Result<Blocks> {
        let borders = borders.unwrap_or(Borders::from_zero(canvas.len()));
        Blocks::along(canvas, borders, self.part)
    }

    fn borders(&self, _first: usize, model: &Description) -> Option<Borders> {
        Some(Borders::from_zero(block_length(self.length, model)))
    }

    /// As in the official code: `length` in whole blocks, the first of which may have begun with the prompt, and the first token of
    /// a further one. A `length` of less than a block, to which the official code answers nothing, takes the blocks that hold it.
    fn canvas_length(&self, prompt: usize, length: usize, model: &Description) -> usize {
        let block = block_length(self.length, model);
        let blocks = match length / block {
            0 => prompt.saturating_add(length).div_ceil(block),
            whole => (prompt / block).saturating_add(whole),
        };
        blocks.saturating_mul(block).saturating_add(1)
    }
}

fn block_length(given: Option<usize>, model: &Description) -> usize {
    let usual = model.visibility.default_blocks().map_or(DEFAULT_LENGTH, Borders::length);
    given.unwrap_or(usual)
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
    fn blocks(&self, canvas: &Canvas, _borders: Option<Borders>) -> Result<Blocks> {
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
