//! Mixtures of experts: rows are grouped by expert, and each expert that is used is gone through once.
//!
//! Threads take whole experts, so that none waits for the others between two of them. A row adds up its experts in ascending
//! order, whatever rows are computed with it, so its result is batch-invariant.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

use super::feed_forward::Network;
use super::kernel::Lines;
use super::matrix::{Gated, Input, Matrix};
use crate::architecture::{self, Groups, RouterBias, Score};

/// The experts of a layer.
pub(crate) struct Experts {
    pub(crate) description: architecture::Experts,
    pub(crate) router: Matrix,
    /// The router's bias.
    pub(crate) bias: Option<Vec<f32>>,
    pub(crate) networks: Vec<Network>,
    pub(crate) shared: Option<Network>,
}

/// Buffers of a layer with experts.
#[derive(Default)]
pub(crate) struct Routed {
    /// The rows that enter, normalised.
    pub(crate) rows: Lines<f32>,
    /// The router's scores, row by row.
    scores: Lines<f32>,
    /// Scores with bias, without the experts that cannot be chosen any more.
    preferences: Lines<f32>,
    /// The experts of each row, ascending.
    chosen: Vec<Chosen>,
    /// Indices into `chosen`, ordered by expert.
    grouped: Vec<usize>,
    /// Outputs of the experts of a wave, in the order of `grouped`.
    output: Lines<f32>,
    /// Buffers of single experts, for as many as are computed at once.
    idle: Mutex<Vec<Buffers>>,
}

/// Buffers of one expert.
#[derive(Default)]
struct Buffers {
    input: Input,
    gated: Gated,
}

/// Rows of experts, over all experts, whose outputs are held at once.
const WAVE: usize = 4096;

impl Routed {
    /// Bytes that `rows` rows take.
    pub(crate) fn bytes(experts: &Experts, rows: usize) -> usize {
        let Experts { description, router, networks, .. } = experts;
        let (hidden, active) = (router.k(), description.active);
        // The rows that enter, and two tables of scores.
        let floats = hidden + 2 * description.count;
        let chosen = active * (size_of::<Chosen>() + size_of::<usize>());
        let output = (rows * active).min(WAVE + rows) * hidden * size_of::<f32>();
        // An expert for each thread, with its share of the rows.
        let share = (rows * active).div_ceil(description.count);
        let input = Input::new().bytes(networks[0].gate_up.activations(), share, hidden);
        let buffers = input + share * description.width * size_of::<f32>();
        rows * (floats * size_of::<f32>() + chosen) + output + rayon::current_num_threads() * buffers
    }
}

/// An expert of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Chosen {
    expert: usize,
    weight: f32,
    /// Its place among all rows of all experts.
    place: usize,
}

impl Experts {
    /// Adds to each row of `hidden` what its experts make of the same row of `routed.rows`.
    pub(crate) fn apply(&self, input: &mut Input, gated: &mut Gated, routed: &mut Routed, hidden: &mut [f32]) {
        let (width, active) = (self.router.k(), self.description.active);
        let count = hidden.len() / width;
        self.route(input, count, routed);
        let Routed { rows, chosen, grouped, output, idle, .. } = routed;
        let row = |row: usize| &rows[row * width..][..width];
        let mut first = 0;
        while first < grouped.len() {
            let expert = |place: usize| chosen[grouped[place]].expert;
            let border = (first + WAVE..grouped.len()).find(|&place| expert(place) != expert(place - 1));
            let end = border.unwrap_or(grouped.len());
            output.resize((end - first) * width);
            let experts = grouped[first..end].chunk_by(|&a, &b| chosen[a].expert == chosen[b].expert);
            let mut rest = &mut output[..];
            let outputs = experts.map(|rows| (rows, rest.split_off_mut(..rows.len() * width).unwrap_or_default()));
            let compute = |(rows, output): (&[usize], &mut [f32])| {
                let network = &self.networks[chosen[rows[0]].expert];
                let mut buffers = lock(idle).pop().unwrap_or_default();
                let Buffers { input, gated } = &mut buffers;
                let write = |index: usize, values: &mut [f32]| values.copy_from_slice(row(rows[index] / active));
                network.apply(input, gated, rows.len(), write, output, false);
                lock(idle).push(buffers);
            };
            // A thread that finds no expert left helps with the products of another.
            outputs.collect::<Vec<_>>().into_par_iter().with_max_len(1).for_each(compute);
            let add = |(hidden, chosen): (&mut [f32], &[Chosen])| {
                for chosen in chosen.iter().filter(|chosen| (first..end).contains(&chosen.place)) {
                    let output = &output[(chosen.place - first) * width..][..width];
                    hidden.iter_mut().zip(output).for_each(|(target, value)| *target += chosen.weight * value);
                }
            };
            hidden.par_chunks_exact_mut(width).zip(chosen.par_chunks_exact(active)).with_min_len(16).for_each(add);
            first = end;
        }
        if let Some(shared) = &self.shared {
            shared.apply(input, gated, count, |index, values| values.copy_from_slice(row(index)), hidden, true);
        }
    }

    /// Chooses the experts of all rows.
    fn route(&self, input: &mut Input, count: usize, routed: &mut Routed) {
        let Routed { rows, scores, preferences, chosen, grouped, .. } = routed;
        let (width, experts, active) = (self.router.k(), self.description.count, self.description.active);
        input.copy(&self.router, &rows[..count * width]);
        scores.resize(count * experts);
        preferences.resize(count * experts);
        self.router.multiply(input, scores, false);

        chosen.clear();
        chosen.resize(count * active, Chosen::default());
        let tables = scores.par_chunks_exact_mut(experts).zip(preferences.par_chunks_exact_mut(experts));
        let tasks = tables.zip(chosen.par_chunks_exact_mut(active)).with_min_len(16);
        tasks.for_each(|((scores, preferences), chosen)| self.choose(scores, preferences, chosen));
        grouped.clear();
        grouped.extend(0..chosen.len());
        grouped.sort_unstable_by_key(|&index| (chosen[index].expert, index));
        grouped.iter().enumerate().for_each(|(place, &index)| chosen[index].place = place);
    }

    /// Chooses the experts of one row by its scores. Ties go to the lower expert.
    fn choose(&self, scores: &mut [f32], preferences: &mut [f32], chosen: &mut [Chosen]) {
        let router = self.description.router;
        match router.score {
            Score::Softmax => softmax(scores),
            Score::Sigmoid => scores.iter_mut().for_each(|score| *score = 1.0 / (1.0 + (-*score).exp())),
        }
        let bias = |expert: usize| self.bias.as_ref().map_or(0.0, |bias| bias[expert]);
        preferences.iter_mut().enumerate().for_each(|(expert, value)| *value = scores[expert] + bias(expert));
        if let Some(groups) = router.groups {
            keep_best(groups, |expert| scores[expert] + bias(expert), preferences);
        }
        for chosen in &mut *chosen {
            let better = |a: usize, b: usize| if preferences[b] > preferences[a] { b } else { a };
            let expert = (0..preferences.len()).reduce(better).unwrap_or_default();
            preferences[expert] = f32::NEG_INFINITY;
            let weight = scores[expert] + if router.bias == RouterBias::Weights { bias(expert) } else { 0.0 };
            *chosen = Chosen { expert, weight, place: 0 };
        }
        chosen.sort_unstable_by_key(|chosen| chosen.expert);
        if router.renormalized {
            let total: f32 = chosen.iter().map(|chosen| chosen.weight).sum();
            chosen.iter_mut().for_each(|chosen| chosen.weight /= total + 1e-20);
        }
        chosen.iter_mut().for_each(|chosen| chosen.weight *= router.scale);
    }
}

fn lock(idle: &Mutex<Vec<Buffers>>) -> MutexGuard<'_, Vec<Buffers>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rules out all experts but those of the best groups.
fn keep_best(groups: Groups, preference: impl Fn(usize) -> f32, preferences: &mut [f32]) {
    let size = preferences.len() / groups.count;
    let score = |group: usize| {
        let [mut first, mut second] = [f32::NEG_INFINITY; 2];
        for value in (group * size..(group + 1) * size).map(&preference) {
            (first, second) = if value > first { (value, first) } else { (first, second.max(value)) };
        }
        first + second
    };
    for (group, preferences) in preferences.chunks_exact_mut(size).enumerate() {
        let own = score(group);
        let ahead = (0..groups.count).filter(|&other| {
            let score = score(other);
            score > own || (score == own && other < group)
        });
        if ahead.count() >= groups.kept {
            preferences.fill(f32::NEG_INFINITY);
        }
    }
}

fn softmax(scores: &mut [f32]) {
    let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    scores.iter_mut().for_each(|score| *score = (*score - top).exp());
    let total: f32 = scores.iter().sum();
    scores.iter_mut().for_each(|score| *score /= total);
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::Format;
    use crate::architecture::Router;

    /// Some numbers of about 1, the same each time.
    fn number(seed: usize) -> f32 {
        (seed as u32).wrapping_mul(0x9E37_79B9) as i32 as f32 / (1u32 << 30) as f32
    }

    #[test]
    fn rows_do_not_depend_on_the_waves_they_are_computed_in() {
        const HIDDEN: usize = 8;
        let matrix = |n: usize, k: usize, seed: usize| {
            let read = move |column: usize, from: usize, values: &mut [f32]| -> Result<(), Infallible> {
                (from..).zip(values).for_each(|(row, value)| *value = number(seed + column * k + row));
                Ok(())
            };
            let Ok(matrix) = Matrix::pack(Format::F32, n, k, read);
            matrix
        };
        let network = |seed| Network { gate_up: matrix(12, HIDDEN, seed), down: matrix(HIDDEN, 6, seed + 500) };
        let router =
            Router { score: Score::Sigmoid, bias: RouterBias::None, renormalized: true, scale: 1.0, groups: None };
        let experts = Experts {
            description: architecture::Experts { count: 5, active: 3, width: 6, shared: Some(6), router },
            router: matrix(5, HIDDEN, 7),
            bias: None,
            networks: (0..5).map(|expert| network(1000 * expert)).collect(),
            shared: Some(network(9000)),
        };
        let apply = |first: usize, rows: usize| {
            let mut routed = Routed::default();
            routed.rows.resize(rows * HIDDEN);
            routed.rows.iter_mut().enumerate().for_each(|(index, value)| *value = number(first * HIDDEN + index));
            let mut hidden = vec![1.0; rows * HIDDEN];
            experts.apply(&mut Input::new(), &mut Gated::default(), &mut routed, &mut hidden);
            hidden
        };
        let rows = WAVE;
        let (together, piece) = (apply(0, rows), rows / 64);
        assert!(rows * experts.description.active > 2 * WAVE, "there is more than one wave");
        let apart: Vec<f32> = (0..rows / piece).flat_map(|index| apply(index * piece, piece)).collect();
        assert_eq!(together, apart);
    }
}
