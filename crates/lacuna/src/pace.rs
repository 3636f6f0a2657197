//! Paces: how many of the ranked positions to commit in one step.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::RangeInclusive;

use crate::{Block, Error, Measure, Ranking, Result, Step, StopRule};

/// Chooses the positions to commit from a ranking: at least one, unless a schedule says otherwise.
///
/// To add one, write its `choose` and name it in [`Strategy::parse`](crate::Strategy::parse).
pub trait Pace: Debug + Send + Sync {
    /// The positions to commit now.
    fn choose(&mut self, ranking: &Ranking, step: &mut Step<'_>) -> Result<Vec<usize>>;

    /// A block with `masks` masked positions begins, one of `blocks`.
    fn enter(&mut self, _masks: usize, _blocks: usize) -> Result<()> {
        Ok(())
    }

    /// How many of the ranking's first positions it reads, when `masked` are ranked: so many in any case, and no more than so
    /// many. What it does not tell is read when it is asked for, only not together with what other runs need.
    fn reads(&self, _block: &Block, masked: usize) -> RangeInclusive<usize> {
        0..=masked
    }

    /// Where in the ranking it stops reading.
    fn stop(&self) -> Option<StopRule> {
        None
    }

    /// Whether it compares a belief with the one before it ([`Belief::divergence`](crate::Belief::divergence)). The first step
    /// of a block is compared with the last step of the block before, so that one reads both blocks.
    fn compares(&self) -> bool {
        false
    }
}

/// Always the same number.
#[derive(Debug)]
pub struct TopK(pub usize);

impl Pace for TopK {
    fn choose(&mut self, ranking: &Ranking, _step: &mut Step<'_>) -> Result<Vec<usize>> {
        Ok(ranking.first(self.0))
    }

    fn reads(&self, _block: &Block, _masked: usize) -> RangeInclusive<usize> {
        self.0..=self.0
    }
}

/// A fixed number of steps for each block.
#[derive(Debug)]
pub struct Schedule {
    timetable: Timetable,
    /// Steps for the whole canvas; one for each masked position if not given.
    steps: Option<usize>,
    masks: usize,
    steps_in_block: usize,
}

/// How a schedule spreads its tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timetable {
    /// Evenly, the remainder in the first steps (LLaDA's `get_num_transfer_tokens`).
    Llada,
    /// By timesteps from 1 down to `eps`, rounding down, all that remain in the last step (Dream's `diffusion_generate`).
    Dream {
        /// The last timestep.
        eps: f32,
    },
}

impl Schedule {
    /// A schedule of `steps` for the whole canvas, or of one step for each masked position.
    pub fn new(timetable: Timetable, steps: Option<usize>) -> Self {
        Self { timetable, steps, masks: 0, steps_in_block: 0 }
    }

    /// How many to commit at `step` of the block, when `left` are masked.
    fn count(&self, step: usize, left: usize) -> usize {
        match self.timetable {
            Timetable::Llada => self.masks / self.steps_in_block + usize::from(step < self.masks % self.steps_in_block),
            Timetable::Dream { .. } if step + 1 >= self.steps_in_block => left,
            Timetable::Dream { eps } => {
                let (now, next) = (self.timestep(eps, step), self.timestep(eps, step + 1));
                (left as f32 * (1.0 - next / now)) as usize
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
}

impl Pace for Schedule {
    fn enter(&mut self, masks: usize, blocks: usize) -> Result<()> {
        if let Some(steps) = self.steps.filter(|steps| steps % blocks != 0) {
            return Err(Error::Parameter {
                name: "steps",
                value: steps.to_string(),
                expected: format!("it must be a multiple of the number of blocks, {blocks}"),
            });
        }
        self.masks = masks;
        self.steps_in_block = self.steps.map_or(masks, |steps| steps / blocks);
        Ok(())
    }

    fn choose(&mut self, ranking: &Ranking, step: &mut Step<'_>) -> Result<Vec<usize>> {
        Ok(ranking.first(self.count(step.block.step, ranking.positions().len())))
    }

    fn reads(&self, block: &Block, masked: usize) -> RangeInclusive<usize> {
        let count = self.count(block.step, masked);
        count..=count
    }
}

/// The longest prefix of the ranking whose joint entropy can exceed that of its members taken alone by at most `gamma`:
/// `Σ H − max H ≤ γ` (EB-Sampler).
#[derive(Debug)]
pub struct EntropyBound {
    /// The bound in nats.
    pub gamma: f64,
}

impl EntropyBound {
    /// How many positions are read before the bound is looked at, and again whenever as many more were.
    const AT_FIRST: usize = 4;
}

impl Pace for EntropyBound {
    fn choose(&mut self, ranking: &Ranking, step: &mut Step<'_>) -> Result<Vec<usize>> {
        let (mut sum, mut largest, mut count) = (0.0, 0.0f64, 0);
        // The bound grows with every position, so nothing behind the first that breaks it needs to be read.
        while count < ranking.positions().len() {
            let end = (2 * count).max(Self::AT_FIRST).min(ranking.positions().len());
            for belief in step.beliefs(&ranking.positions()[count..end])? {
                sum += belief.entropy;
                largest = largest.max(belief.entropy);
                if count > 0 && sum - largest > self.gamma {
                    return Ok(ranking.first(count));
                }
                count += 1;
            }
        }
        Ok(ranking.first(count))
    }

    fn reads(&self, _block: &Block, masked: usize) -> RangeInclusive<usize> {
        Self::AT_FIRST..=masked
    }

    fn stop(&self) -> Option<StopRule> {
        Some(StopRule::Sum { measure: Measure::Entropy, spare_largest: true, bound: self.gamma })
    }
}

/// The first of the ranking and every position whose confidence reaches the threshold (Fast-dLLM).
#[derive(Debug)]
pub struct Threshold(pub f64);

impl Pace for Threshold {
    fn choose(&mut self, ranking: &Ranking, step: &mut Step<'_>) -> Result<Vec<usize>> {
        let beliefs = step.beliefs(ranking.positions())?;
        Ok(first_and(ranking, |rank| beliefs[rank].probability >= self.0))
    }

    fn reads(&self, _block: &Block, masked: usize) -> RangeInclusive<usize> {
        masked..=masked
    }
}

/// The first of the ranking and every position whose score in the order reaches the threshold.
#[derive(Debug)]
pub struct ScoreThreshold(pub f64);

impl Pace for ScoreThreshold {
    fn choose(&mut self, ranking: &Ranking, _step: &mut Step<'_>) -> Result<Vec<usize>> {
        Ok(first_and(ranking, |rank| ranking.scores()[rank] >= self.0))
    }

    fn reads(&self, _block: &Block, masked: usize) -> RangeInclusive<usize> {
        1..=masked
    }

    fn stop(&self) -> Option<StopRule> {
        Some(StopRule::Score(self.0))
    }
}

fn first_and(ranking: &Ranking, passes: impl Fn(usize) -> bool) -> Vec<usize> {
    let ranks = (0..ranking.positions().len()).filter(|&rank| rank == 0 || passes(rank));
    ranks.map(|rank| ranking.positions()[rank]).collect()
}

/// The longest prefix whose n-th member is confident enough for n at once: `(n + 1) (1 − p) ≤ f` (Fast-dLLM's factor).
#[derive(Debug)]
pub struct Factor(pub f64);

impl Pace for Factor {
    fn choose(&mut self, ranking: &Ranking, step: &mut Step<'_>) -> Result<Vec<usize>> {
        let beliefs = step.beliefs(ranking.positions())?;
        let fits = |rank: usize| (rank + 2) as f64 * (1.0 - beliefs[rank].probability) <= self.0;
        let count = (1..beliefs.len()).find(|&rank| !fits(rank)).unwrap_or(beliefs.len());
        Ok(ranking.first(count))
    }

    fn reads(&self, _block: &Block, masked: usize) -> RangeInclusive<usize> {
        masked..=masked
    }
}

/// Every position that is confident and whose distribution has kept still for the last few steps; if there is none, what a
/// schedule says (KLASS).
///
/// The divergence is KL(now ‖ before), as in the official code; the paper writes it the other way round.
#[derive(Debug)]
pub struct Stability {
    /// The confidence to exceed.
    pub confidence: f64,
    /// The divergence to stay below.
    pub divergence: f64,
    /// For how many steps.
    pub history: usize,
    /// What to do when nothing is stable.
    pub fallback: Schedule,
    still: BTreeMap<usize, usize>,
}

impl Stability {
    /// A stability rule in which nothing has been seen yet.
    pub fn new(confidence: f64, divergence: f64, history: usize, fallback: Schedule) -> Self {
        Self { confidence, divergence, history, fallback, still: BTreeMap::new() }
    }
}

impl Pace for Stability {
    fn enter(&mut self, masks: usize, blocks: usize) -> Result<()> {
        self.still.clear();
        self.fallback.enter(masks, blocks)
    }

    fn choose(&mut self, ranking: &Ranking, step: &mut Step<'_>) -> Result<Vec<usize>> {
        let beliefs = step.beliefs(ranking.positions())?;
        let mut ready = Vec::new();
        for (&position, belief) in ranking.positions().iter().zip(&beliefs) {
            let still = self.still.entry(position).or_default();
            let moved = belief.divergence.is_none_or(|divergence| divergence >= self.divergence);
            *still = if moved { 0 } else { *still + 1 };
            if *still >= self.history && belief.probability > self.confidence {
                ready.push(position);
            }
        }
        if ready.is_empty() {
            let count = self.fallback.count(step.block.step, ranking.positions().len()).max(1);
            ready = ranking.first(count);
        }
        Ok(ready)
    }

    fn compares(&self) -> bool {
        true
    }

    fn reads(&self, _block: &Block, masked: usize) -> RangeInclusive<usize> {
        masked..=masked
    }
}

/// WINO's wide-in: every position whose confidence exceeds the threshold, up to a share of what is masked; meant to be
/// followed by [`Verify`](crate::Verify).
#[derive(Debug)]
pub struct Draft(pub f64);

impl Pace for Draft {
    fn choose(&mut self, ranking: &Ranking, step: &mut Step<'_>) -> Result<Vec<usize>> {
        let masked = ranking.positions().len();
        let most = (masked * 7 / 10).clamp(5, 20);
        let beliefs = step.beliefs(ranking.positions())?;
        let passing = ranking.positions().iter().zip(&beliefs).filter(|(_, belief)| belief.probability > self.0);
        let mut accepted: Vec<usize> = passing.map(|(&position, _)| position).take(most).collect();
        if accepted.is_empty() {
            accepted = ranking.first(1);
        }
        Ok(accepted)
    }

    fn reads(&self, _block: &Block, masked: usize) -> RangeInclusive<usize> {
        masked..=masked
    }
}

/// Saber's adaptive acceleration: every position more confident than committed ones were on average when they were
/// committed, and at least `least`.
#[derive(Debug)]
pub struct Adaptive {
    least: usize,
    committed: BTreeMap<usize, f64>,
}

impl Adaptive {
    /// At least `least` positions in every step.
    pub fn new(least: usize) -> Self {
        Self { least, committed: BTreeMap::new() }
    }
}

impl Pace for Adaptive {
    fn choose(&mut self, ranking: &Ranking, step: &mut Step<'_>) -> Result<Vec<usize>> {
        let beliefs = step.beliefs(ranking.positions())?;
        let mean = match self.committed.len() {
            0 => 1.0,
            count => self.committed.values().sum::<f64>() / count as f64,
        };
        let above = |(_, belief): &(&usize, &crate::Belief)| belief.probability > mean;
        let pairs = || ranking.positions().iter().zip(&beliefs);
        let count = pairs().filter(above).count();
        let chosen: Vec<_> =
            if count < self.least { pairs().take(self.least).collect() } else { pairs().filter(above).collect() };
        // A reopened position keeps its entry until it is committed again, as in the official code.
        self.committed.extend(chosen.iter().map(|(position, belief)| (**position, belief.probability)));
        Ok(chosen.into_iter().map(|(&position, _)| position).collect())
    }

    fn reads(&self, _block: &Block, masked: usize) -> RangeInclusive<usize> {
        masked..=masked
    }
}
