//! ReMDM's deterministic form.

use super::{Changes, Ends, Revision, lowest};
use crate::catalogue::{Default, Kind, Need, Parameter, Part, Range};
use crate::pace::Entry;
use crate::{Block, Canvas, Result, StepContext, Target, Token};

/// Once a share of the block is decided, steps alternate: one reopens the tokens that the model finds least probable, the next
/// commits; so often, and then the block is finished. This is the deterministic form of ReMDM that PC-Sampler's code has. A block with
/// a draft is finished earlier if it would reopen again what it has just written.
#[derive(Clone, Debug)]
pub struct Remdm {
    start: f64,
    count: usize,
    loops: usize,
    left: usize,
    phase: Phase,
    /// True if the block has a draft.
    drafted: bool,
    /// Positions that were reopened last, and their tokens.
    last: Vec<(usize, Token)>,
}

/// A phase of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Before the share is decided.
    Fill,
    Reopen,
    Commit,
}

const REMDM_START: Parameter = Parameter::new(
    "remdm_start",
    Kind::Number(Range::closed(0.0, 1.0)),
    Default::Number(0.875),
    "share of a block that is decided before tokens are reopened",
);
const REMDM_K: Parameter = Parameter::new(
    "remdm_k",
    Kind::Integer { least: 1, most: 65_536 },
    Default::Number(1.0),
    "tokens that are reopened at once",
);
const REMDM_LOOPS: Parameter = Parameter::new(
    "remdm_loops",
    Kind::Integer { least: 0, most: 65_536 },
    Default::Number(32.0),
    "times that tokens of a block are reopened",
);

pub(super) fn part() -> Part {
    let about =
        "the least probable tokens of a block, remdm_loops times, once a share of it is decided (ReMDM, deterministic)";
    Part::revision("remdm", about, |given| {
        let (start, count) = (given.number("remdm_start"), given.integer("remdm_k"));
        Ok(Box::new(Remdm::new(start, count, given.integer("remdm_loops"))))
    })
    .needs(&[Need::Beliefs])
    .parameters(&[REMDM_START, REMDM_K, REMDM_LOOPS])
}

impl Remdm {
    /// Reopens `count` tokens `loops` times, once a share `start` of the block is decided.
    pub fn new(start: f64, count: usize, loops: usize) -> Self {
        Self { start, count, loops, left: loops, phase: Phase::Fill, drafted: false, last: Vec::new() }
    }
}

impl Revision for Remdm {
    fn enter(&mut self, entry: &Entry<'_>) -> Result<()> {
        (self.left, self.phase, self.drafted) = (self.loops, Phase::Fill, entry.drafts > 0);
        self.last.clear();
        Ok(())
    }

    fn needs_another_pass(&self) -> bool {
        self.drafted && self.left > 0
    }

    fn only_revises(&self, canvas: &Canvas, block: &Block) -> bool {
        let gaps = canvas.gaps_in(block.range.clone()).count();
        let share = (gaps as f64 * self.start / self.count as f64) as usize * self.count;
        let ready = || canvas.decided_in(block.range.clone()).count() >= share;
        self.left > 0 && (self.phase == Phase::Reopen || self.phase == Phase::Fill && ready())
    }

    fn rows(&self, canvas: &Canvas, block: &Block) -> Vec<Target> {
        match self.only_revises(canvas, block) {
            true => canvas.decided_in(block.range.clone()).map(Target::Position).collect(),
            false => Vec::new(),
        }
    }

    fn revise(&mut self, _chosen: &[usize], _filled: bool, context: &StepContext<'_>) -> Result<Changes> {
        if !self.only_revises(context.canvas(), context.block()) {
            if self.phase == Phase::Commit {
                self.phase = Phase::Reopen;
            }
            return Ok(Changes::default());
        }
        self.left -= 1;
        self.phase = Phase::Commit;
        let decided = context.canvas().decided_in(context.block().range.clone());
        let own = decided.map(|position| (position, context.own_probability(position)));
        let reopened = lowest(own.collect(), self.count);
        let tokens = reopened.iter().map(|&position| (position, context.canvas().tokens()[position])).collect();
        let before = std::mem::replace(&mut self.last, tokens);
        if self.drafted && self.last == before {
            self.left = 0;
            return Ok(Changes::default());
        }
        Ok(Changes::reopen(reopened))
    }

    fn settled(&self, block: &Block) -> usize {
        block.range.start
    }

    fn ends(&self) -> Ends {
        Ends::ReopensAtFirst
    }
}
