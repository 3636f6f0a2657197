//! Choice of the runs for the next forward pass.
//!
//! Those that will have had least of the model's time come first, and as long as some are behind, the step takes hardly
//! longer than theirs alone would. So a short text is done soon, whatever long ones there are; and since the others get a
//! full step after every two that long, nobody starves.

use std::time::Instant;

use crate::Limits;

/// A step for those who are behind takes at most this much longer because others share it.
const MAX_SLOWDOWN: f64 = 1.5;
/// After those who are behind have had so many times a full step's time, the others get one.
const MAX_FAVOURED_STEPS: f64 = 2.0;
/// The weight that older measurements keep at each step.
const DECAY: f64 = 0.98;

/// A run that could be stepped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Positions computed for it so far.
    pub(super) spent: usize,
    /// Positions that its next step takes.
    pub(super) cost: usize,
    /// Time at which its last step ended.
    pub(super) last_step: Instant,
    /// It must be stepped alone.
    pub(super) alone: bool,
    /// It has taken a step.
    pub(super) begun: bool,
    /// The model stores something for it between its steps.
    pub(super) keeps_state: bool,
}

impl Candidate {
    /// Positions computed for it after its next step.
    fn after(&self) -> usize {
        self.spent + self.cost
    }
}

/// Shares the model's time out.
#[derive(Default)]
pub(super) struct Share {
    time: StepTime,
    /// Seconds of steps that left others out since these had theirs.
    favoured: f64,
    /// The step under way leaves out runs that are not behind.
    favours: bool,
}

impl Share {
    /// Chooses the runs of the next step, by their numbers.
    pub(super) fn choose(&mut self, runs: &[Candidate], limits: &Limits) -> Vec<usize> {
        let mut order: Vec<usize> = (0..runs.len()).filter(|&run| may_begin(run, runs, limits.batch)).collect();
        order.sort_by_key(|&run| (runs[run].after(), runs[run].last_step));
        let Some(&first) = order.first() else { return Vec::new() };
        // Who is no more than one of its steps ahead of the first is level with it.
        let level = runs[first].after() + runs[first].cost;
        let (behind, ahead): (Vec<usize>, Vec<usize>) = order.into_iter().partition(|&run| runs[run].after() <= level);
        let mut step = Step { runs, limits, chosen: Vec::new(), positions: 0 };
        let full = ahead.iter().take(limits.batch).map(|&run| runs[run].cost).sum::<usize>().min(limits.positions);
        if !ahead.is_empty() && self.favoured >= MAX_FAVOURED_STEPS * self.time.seconds(full) {
            let mut waiting = [ahead, behind].concat();
            waiting.sort_by_key(|&run| runs[run].last_step);
            waiting.into_iter().for_each(|run| step.add(run));
            self.favours = false;
        } else {
            behind.into_iter().for_each(|run| step.add(run));
            let most = MAX_SLOWDOWN * self.time.seconds(step.positions);
            for &run in &ahead {
                if self.time.seconds(step.positions + runs[run].cost) <= most {
                    step.add(run);
                }
            }
            self.favours = ahead.iter().any(|run| !step.chosen.contains(run));
        }
        step.chosen
    }

    /// Takes in how long the step chosen last has taken.
    pub(super) fn record(&mut self, positions: usize, seconds: f64) {
        self.time.record(positions as f64, seconds);
        self.favoured = if self.favours { self.favoured + seconds } else { 0.0 };
    }
}

/// Bounds the state that the model stores between steps: no more than a batch of such runs are under way.
fn may_begin(run: usize, runs: &[Candidate], batch: usize) -> bool {
    let stored = |run: &Candidate| run.keeps_state && run.begun;
    let Candidate { keeps_state, begun, .. } = runs[run];
    let earlier = runs[..run].iter().filter(|run| run.keeps_state && !run.begun).count();
    !keeps_state || begun || runs.iter().filter(|run| stored(run)).count() + earlier < batch
}

/// A step that is being put together.
struct Step<'a> {
    runs: &'a [Candidate],
    limits: &'a Limits,
    chosen: Vec<usize>,
    positions: usize,
}

impl Step<'_> {
    /// Adds a run if there is room; the first always has some.
    fn add(&mut self, run: usize) {
        let Candidate { cost, alone, .. } = self.runs[run];
        let taken = self.chosen.first().is_some_and(|&first| alone || self.runs[first].alone);
        let full = self.chosen.len() == self.limits.batch || self.positions + cost > self.limits.positions;
        if self.chosen.is_empty() || !(taken || full) {
            self.chosen.push(run);
            self.positions += cost;
        }
    }
}

/// The time of a step by its positions: a line through the measurements, the latest counting most.
#[derive(Default)]
struct StepTime {
    weight: f64,
    positions: f64,
    seconds: f64,
    squares: f64,
    products: f64,
}

impl StepTime {
    fn record(&mut self, positions: f64, seconds: f64) {
        for (sum, new) in [
            (&mut self.weight, 1.0),
            (&mut self.positions, positions),
            (&mut self.seconds, seconds),
            (&mut self.squares, positions * positions),
            (&mut self.products, positions * seconds),
        ] {
            *sum = *sum * DECAY + new;
        }
    }

    /// Without any measurement, time is taken to grow with the positions.
    fn seconds(&self, positions: usize) -> f64 {
        if self.weight == 0.0 {
            return positions as f64;
        }
        let (mean, time) = (self.positions / self.weight, self.seconds / self.weight);
        let spread = self.squares / self.weight - mean * mean;
        let slope = (self.products / self.weight - mean * time) / spread;
        // Neither an empty step nor a position takes less than nothing.
        let slope = if spread > 0.01 * mean * mean { slope.clamp(0.0, time / mean) } else { time / mean };
        (time + slope * (positions as f64 - mean)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A clock, runs, and a model that takes a second for a thousand positions and `base` for each step.
    struct Simulation {
        share: Share,
        runs: Vec<Candidate>,
        begun: Instant,
        now: f64,
        base: f64,
        limits: Limits,
    }

    impl Simulation {
        fn new(base: f64) -> Self {
            let (share, runs, begun) = (Share::default(), Vec::new(), Instant::now());
            Self { share, runs, begun, now: 0.0, base, limits: Limits::default() }
        }

        fn add(&mut self, cost: usize) -> usize {
            let last_step = self.begun + Duration::from_secs_f64(self.now);
            let run = Candidate { spent: 0, cost, last_step, alone: false, begun: false, keeps_state: false };
            self.runs.push(run);
            self.runs.len() - 1
        }

        fn step(&mut self) -> Vec<usize> {
            let chosen = self.share.choose(&self.runs, &self.limits);
            let positions: usize = chosen.iter().map(|&run| self.runs[run].cost).sum();
            assert!(chosen.len() <= self.limits.batch);
            assert!(chosen.len() == 1 || positions <= self.limits.positions);
            let seconds = self.base + positions as f64 / 1000.0;
            self.share.record(positions, seconds);
            self.now += seconds;
            for &run in &chosen {
                let run = &mut self.runs[run];
                run.spent += run.cost;
                run.last_step = self.begun + Duration::from_secs_f64(self.now);
                run.begun = true;
            }
            chosen
        }

        /// The time that a run takes for so many steps.
        fn time(&mut self, run: usize, steps: usize) -> f64 {
            let (begun, end) = (self.now, self.runs[run].spent + steps * self.runs[run].cost);
            while self.runs[run].spent < end {
                self.step();
            }
            self.now - begun
        }
    }

    #[test]
    fn a_short_text_beside_many_long_ones_takes_three_times_as_long_at_most() {
        for base in [0.0, 0.01, 0.5] {
            for (cost, steps, before) in [(50, 16, 0), (50, 16, 400), (100, 64, 400), (600, 30, 400)] {
                let mut alone = Simulation::new(base);
                let run = alone.add(cost);
                let alone = alone.time(run, steps);
                let mut busy = Simulation::new(base);
                for _ in 0..64 {
                    busy.add(1000);
                }
                (0..before).for_each(|_| drop(busy.step()));
                let run = busy.add(cost);
                let taken = busy.time(run, steps);
                assert!(taken <= 3.0 * alone + base + 8.192, "{cost} x {steps}, {base}: {alone} alone, {taken} here");
            }
        }
    }

    #[test]
    fn long_texts_get_their_share_however_many_short_ones_come() {
        let mut simulation = Simulation::new(0.01);
        let long: Vec<usize> = (0..16).map(|_| simulation.add(1000)).collect();
        (0..20).for_each(|_| drop(simulation.step()));
        let (before, begun) = (long.iter().map(|&run| simulation.runs[run].spent).sum::<usize>(), simulation.now);
        // There is always a short one that has just come.
        while simulation.now < begun + 200.0 {
            let short = simulation.add(100);
            simulation.step();
            assert_eq!(simulation.runs.len() - 1, short);
            simulation.runs[short].spent = simulation.runs[short].spent.max(1);
        }
        let spent: Vec<usize> = long.iter().map(|&run| simulation.runs[run].spent).collect();
        let share = (spent.iter().sum::<usize>() - before) as f64 / 1000.0 / (simulation.now - begun);
        assert!(share > 0.2, "{share} of the time");
        assert!(spent.iter().max().unwrap() - spent.iter().min().unwrap() <= 2000, "alike among themselves: {spent:?}");
    }

    #[test]
    fn equal_texts_share_full_steps() {
        let mut simulation = Simulation::new(0.01);
        for _ in 0..40 {
            simulation.add(200);
        }
        let steps: Vec<usize> = (0..25).map(|_| simulation.step().len()).collect();
        assert!(steps.iter().sum::<usize>() >= 24 * 16, "{steps:?}");
        let spent: Vec<usize> = simulation.runs.iter().map(|run| run.spent / run.cost).collect();
        assert!(spent.iter().max().unwrap() - spent.iter().min().unwrap() <= 2, "{spent:?}");
    }

    #[test]
    fn a_model_that_hardly_feels_more_positions_steps_all_together() {
        let mut simulation = Simulation::new(10.0);
        for _ in 0..8 {
            simulation.add(100);
            simulation.add(150);
            (0..5).for_each(|_| drop(simulation.step()));
        }
        assert!(simulation.step().len() >= 12, "newcomers do not step alone");
    }

    #[test]
    fn what_must_step_alone_does_and_stored_state_is_bounded() {
        let mut simulation = Simulation::new(0.01);
        for _ in 0..4 {
            simulation.add(100);
        }
        simulation.runs[0].alone = true;
        assert_eq!(simulation.step(), [0]);
        assert_eq!(simulation.step(), [1, 2, 3]);

        let mut simulation = Simulation::new(0.01);
        simulation.limits.batch = 4;
        for _ in 0..20 {
            simulation.add(100);
        }
        simulation.runs.iter_mut().for_each(|run| run.keeps_state = true);
        (0..50).for_each(|_| drop(simulation.step()));
        assert_eq!(simulation.runs.iter().filter(|run| run.begun).count(), 4);
    }
}
