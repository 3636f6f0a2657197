//! Mixtures of experts: rows are grouped by expert, and each expert that is used is gone through once.
//!
//! A row adds up its experts in ascending order, whatever rows are computed with it, so its result is batch-invariant.

use rayon::prelude::*;

use super::feed_forward::Network;
use super::kernel::Lines;
use super::matrix::{Input, Matrix};
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
    /// The same, ordered by expert.
    grouped: Vec<Assigned>,
    /// The output of one expert.
    output: Lines<f32>,
}

impl Routed {
    /// Bytes that `rows` rows take.
    pub(crate) fn bytes(experts: &Experts, rows: usize) -> usize {
        let Experts { description, router, .. } = experts;
        // The rows that enter, the output of an expert, and two tables of scores.
        let floats = 2 * router.k() + 2 * description.count;
        rows * (floats * size_of::<f32>() + description.active * (size_of::<Chosen>() + size_of::<Assigned>()))
    }
}

/// An expert of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Chosen {
    expert: usize,
    weight: f32,
}

/// A row of an expert.
#[derive(Clone, Copy, Default)]
struct Assigned {
    expert: usize,
    row: usize,
    weight: f32,
}

impl Experts {
    /// Adds to each row of `hidden` what its experts make of the same row of `routed.rows`.
    pub(crate) fn apply(&self, input: &mut Input, gate_up: &mut Lines<f32>, routed: &mut Routed, hidden: &mut [f32]) {
        let width = self.router.k();
        let count = hidden.len() / width;
        self.route(input, count, routed);
        let Routed { rows, grouped, output, .. } = routed;
        let row = |row: usize| &rows[row * width..][..width];
        for assigned in grouped.chunk_by(|a, b| a.expert == b.expert) {
            let network = &self.networks[assigned[0].expert];
            output.resize(assigned.len() * width);
            let write = |index: usize, values: &mut [f32]| values.copy_from_slice(row(assigned[index].row));
            network.apply(input, gate_up, assigned.len(), write, output, false);
            for (assigned, output) in assigned.iter().zip(output.chunks_exact(width)) {
                let target = &mut hidden[assigned.row * width..][..width];
                target.iter_mut().zip(output).for_each(|(target, value)| *target += assigned.weight * value);
            }
        }
        if let Some(shared) = &self.shared {
            shared.apply(input, gate_up, count, |index, values| values.copy_from_slice(row(index)), hidden, true);
        }
    }

    /// Chooses the experts of all rows.
    fn route(&self, input: &mut Input, count: usize, routed: &mut Routed) {
        let Routed { rows, scores, preferences, chosen, grouped, .. } = routed;
        let (width, experts, active) = (self.router.k(), self.description.count, self.description.active);
        input.fill(&self.router, count, |row, values| values.copy_from_slice(&rows[row * width..][..width]));
        scores.resize(count * experts);
        preferences.resize(count * experts);
        self.router.multiply(input, scores, false);

        chosen.clear();
        chosen.resize(count * active, Chosen::default());
        let tables = scores.par_chunks_exact_mut(experts).zip(preferences.par_chunks_exact_mut(experts));
        let tasks = tables.zip(chosen.par_chunks_exact_mut(active)).with_min_len(16);
        tasks.for_each(|((scores, preferences), chosen)| self.choose(scores, preferences, chosen));
        grouped.clear();
        let assign =
            |(index, &Chosen { expert, weight }): (usize, &Chosen)| Assigned { expert, row: index / active, weight };
        grouped.extend(chosen.iter().enumerate().map(assign));
        grouped.sort_unstable_by_key(|assigned| (assigned.expert, assigned.row));
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
            *chosen = Chosen { expert, weight };
        }
        chosen.sort_unstable_by_key(|chosen| chosen.expert);
        if router.renormalized {
            let total: f32 = chosen.iter().map(|chosen| chosen.weight).sum();
            chosen.iter_mut().for_each(|chosen| chosen.weight /= total + 1e-20);
        }
        chosen.iter_mut().for_each(|chosen| chosen.weight *= router.scale);
    }
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
