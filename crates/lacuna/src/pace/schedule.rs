//! A fixed number of steps.

use super::{Entry, Pace, Reads, STEPS};
use crate::catalogue::{Default, Kind, Parameter, Part, Range};
use crate::{Block, Error, Ranked, Result};

/// A fixed number of steps for each block.
#[derive(Clone, Debug)]
pub struct Schedule {
    timetable: Timetable,
    /// Steps for the whole canvas; one per masked position if not given.
    steps: Option<usize>,
    masks: usize,
    steps_in_block: usize,
    /// The steps of a linear timetable.
    linear: Vec<usize>,
}

/// Spread of a schedule's tokens over its steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timetable {
    /// Evenly, the remainder in the first steps (LLaDA's `get_num_transfer_tokens`).
    Llada,
    /// By timesteps from 1 down to `eps`, rounding down, all that remain in the last step (Dream's `diffusion_generate`).
    Dream {
        /// Last timestep.
        eps: f32,
    },
    /// An even share of what is left, rounded to the nearest; steps that would commit nothing are left out (A2D's `linear`).
    Linear,
    /// So that after each step an even share of the whole, in f32 and rounded down, is left (RND1's `diffusion_sample`).
    Rnd1,
}

const SCHEDULE: Parameter = Parameter::new(
    "schedule",
    Kind::Choice(&["llada", "dream", "linear", "rnd1"]),
    Default::Depends("the model's own, else llada"),
    "how the tokens are spread over the steps",
);
const EPS: Parameter = Parameter::new(
    "eps",
    Kind::Number(Range::open(0.0, 1.0)),
    Default::Number(0.001),
    "last timestep of schedule dream",
);

pub(super) fn part() -> Part {
    Part::pace("schedule", "a fixed number of steps, spread as LLaDA, Dream, A2D or RND1 does", |given| {
        let timetable = match given.optional_word("schedule").unwrap_or("llada") {
            "dream" => Timetable::Dream { eps: given.number("eps") as f32 },
            other if given.has("eps") => {
                let only = Error::unused("eps", format!("schedule {other}")).advise("schedule", "dream");
                return Err(only);
            }
            "linear" => Timetable::Linear,
            "rnd1" => Timetable::Rnd1,
            _ => Timetable::Llada,
        };
        Ok(Box::new(Schedule::new(timetable, given.optional_integer("steps"))))
    })
    .parameters(&[STEPS, SCHEDULE, EPS])
}

impl Schedule {
    /// A schedule of `steps` for the whole canvas, or of one step per masked position.
    pub fn new(timetable: Timetable, steps: Option<usize>) -> Self {
        Self { timetable, steps, masks: 0, steps_in_block: 0, linear: Vec::new() }
    }

    /// Positions to commit at `step` of the block, when `left` are masked.
    pub(super) fn count(&self, step: usize, left: usize) -> usize {
        match self.timetable {
            Timetable::Llada => self.masks / self.steps_in_block + usize::from(step < self.masks % self.steps_in_block),
            Timetable::Dream { .. } if step + 1 >= self.steps_in_block => left,
            Timetable::Dream { eps } => {
                let (now, next) = (self.timestep(eps, step), self.timestep(eps, step + 1));
                (left as f32 * (1.0 - next / now)) as usize
            }
            Timetable::Linear => self.linear.get(step).copied().unwrap_or(left),
            Timetable::Rnd1 => {
                let steps_left = self.steps_in_block.saturating_sub(step + 1);
                let rate = (steps_left as f64 / self.steps_in_block as f64) as f32;
                left.saturating_sub((self.masks as f32 * rate) as usize)
            }
        }
    }

    /// `torch.linspace(1, eps, steps + 1)[step]` in f32, which counts from the nearer end.
    fn timestep(&self, eps: f32, step: usize) -> f32 {
        let stride = (eps - 1.0) / self.steps_in_block as f32;
        if step < self.steps_in_block.div_ceil(2) {
            1.0 + stride * step as f32
        } else {
            eps - stride * (self.steps_in_block - step) as f32
        }
    }

    /// The same schedule with one step per masked position.
    pub(super) fn one_by_one(&mut self) {
        self.steps = None;
    }
}

/// A linear timetable of `masks` tokens over `steps`: a share of what is left is rounded from f32, as in A2D's code, where halves
/// fall to one side or the other.
fn linear(mut masks: usize, steps: usize) -> Vec<usize> {
    let time = |left: usize| 1.0 - (1.0 - (left as f64 / steps as f64) as f32);
    let share = |left: usize| {
        let staying = time(left - 1) / time(left);
        let share = (masks as f64 * (1.0 - f64::from(staying))).round_ties_even() as usize;
        masks -= share;
        share
    };
    (1..=steps).rev().map(share).filter(|&share| share > 0).collect()
}

/// Steps for a block, if there are so many for the whole canvas; one per masked position if not given.
pub(crate) fn steps_in_block(steps: Option<usize>, entry: &Entry<'_>) -> Result<usize> {
    let &Entry { masks, blocks, .. } = entry;
    match steps {
        Some(steps) if steps % blocks != 0 => {
            let expected = format!("must be a multiple of the number of blocks, {blocks}");
            Err(Error::parameter("steps", steps.to_string(), expected))
        }
        steps => Ok(steps.map_or(masks, |steps| steps / blocks)),
    }
}

impl Pace for Schedule {
    fn enter(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.masks = entry.masks;
        match self.timetable {
            Timetable::Linear => {
                let steps = self.steps.map_or(entry.masks, |steps| steps.div_ceil(entry.blocks));
                self.linear = linear(entry.masks, steps);
            }
            _ => self.steps_in_block = steps_in_block(self.steps, entry)?,
        }
        Ok(())
    }

    fn reads(&self, block: &Block, candidates: usize) -> Reads {
        Reads::First(self.count(block.step, candidates))
    }

    fn choose(&mut self, ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        Ok(ranked.first(self.count(ranked.block().step, ranked.positions().len())))
    }

    fn is_scheduled(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_timetable_rounds_as_its_official_code_and_leaves_empty_steps_out() {
        assert_eq!(linear(8, 3), [3, 2, 3]);
        assert_eq!(linear(2, 8), [1, 1]);
        assert_eq!(linear(5, 5), [1; 5]);
        // Halves of f32: 1.4999998 of three tokens in the second of three steps, 1.4999996 of six in the seventh of ten.
        assert_eq!(linear(4, 3), [1, 1, 2]);
        assert_eq!(linear(13, 10), [1, 1, 1, 1, 2, 1, 1, 2, 1, 2]);
        assert!((1..40).all(|masks| (1..40).all(|steps| linear(masks, steps).iter().sum::<usize>() == masks)));
    }

    #[test]
    fn what_rnd1_leaves_masked_is_rounded_down_from_f32() {
        let schedule = Schedule { masks: 22, steps_in_block: 22, ..Schedule::new(Timetable::Rnd1, None) };
        let mut left = 22;
        let mut commit = |step| {
            let count = schedule.count(step, left);
            left -= count;
            count
        };
        // 22 · (13/22) is 12.999999.
        let counts: Vec<usize> = (0..22).map(&mut commit).collect();
        assert_eq!((counts[8], counts[9]), (2, 0));
        assert_eq!(counts.iter().sum::<usize>(), 22);
    }
}
