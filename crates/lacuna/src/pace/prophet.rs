//! Prophet: everything at once when the answer is sure.

use super::{Entry, Pace, Reads, STEPS, Schedule, Timetable};
use crate::catalogue::{Default, Kind, Parameter, Part, Range};
use crate::{Block, Canvas, Ranked, Result, Target};

/// Prophet: LLaDA's schedule, until the model is sure of the answer; then everything that is masked is committed at once.
///
/// The answer is a span of five positions. The model is sure of it when the logits of the best tokens there exceed those of the
/// second best by enough on average; the bound falls in the second and the last third of the steps.
#[derive(Clone, Debug)]
pub struct Prophet {
    schedule: Schedule,
    steps: Option<usize>,
    /// Distance of the answer from the first gap.
    offset: usize,
    /// Bounds of the three thirds.
    bounds: [f64; 3],
}

/// Positions of the answer.
const ANSWER: usize = 5;

const ANSWER_OFFSET: Parameter = Parameter::new(
    "answer_offset",
    Kind::Integer { least: 0, most: 1 << 24 },
    Default::Required,
    "first of the five positions of the answer, counted from the first masked one",
);
const GAPS: Kind = Kind::Number(Range::closed(0.0, 1e6));
const GAP_EARLY: Parameter = Parameter::new(
    "gap_early",
    GAPS,
    Default::Number(7.5),
    "mean logit gap of a sure answer in the first third of the steps",
);
const GAP_MID: Parameter = Parameter::new("gap_mid", GAPS, Default::Number(5.0), "the same in the second third");
const GAP_LATE: Parameter = Parameter::new("gap_late", GAPS, Default::Number(2.5), "the same in the last third");

pub(super) fn part() -> Part {
    Part::pace("prophet", "LLaDA's schedule, and everything at once when the answer is sure (Prophet)", |given| {
        let steps = given.optional_integer("steps");
        Ok(Box::new(Prophet {
            schedule: Schedule::new(Timetable::Llada, steps),
            steps,
            offset: given.integer("answer_offset"),
            bounds: ["gap_early", "gap_mid", "gap_late"].map(|name| given.number(name)),
        }))
    })
    .parameters(&[STEPS, ANSWER_OFFSET, GAP_EARLY, GAP_MID, GAP_LATE])
}

impl Prophet {
    fn answer(&self, canvas: &Canvas) -> impl Iterator<Item = usize> {
        canvas.span().skip(self.offset).take(ANSWER)
    }

    fn is_sure(&self, ranked: &Ranked<'_>) -> bool {
        let context = ranked.context();
        let gap = |position: usize| {
            let belief = context.belief(position);
            (belief.first / belief.second).ln()
        };
        let gaps: Vec<f64> = self.answer(context.canvas()).map(gap).collect();
        let steps = self.steps.unwrap_or_else(|| context.canvas().gaps().count());
        let progress = (context.step() + 1) as f64 / steps as f64;
        let third = [0.33, 0.67].into_iter().filter(|bound| progress >= *bound).count();
        !gaps.is_empty() && gaps.iter().sum::<f64>() / gaps.len() as f64 >= self.bounds[third]
    }
}

impl Pace for Prophet {
    fn enter(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.schedule.enter(entry)
    }

    fn reads(&self, block: &Block, candidates: usize) -> Reads {
        self.schedule.reads(block, candidates)
    }

    fn rows(&self, canvas: &Canvas, _block: &Block) -> Vec<Target> {
        self.answer(canvas).map(Target::Position).collect()
    }

    fn choose(&mut self, ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        match self.is_sure(ranked) {
            true => Ok(ranked.context().canvas().masked().collect()),
            false => self.schedule.choose(ranked),
        }
    }

    fn is_scheduled(&self) -> bool {
        true
    }

    fn exceeds_window(&self) -> bool {
        true
    }
}
