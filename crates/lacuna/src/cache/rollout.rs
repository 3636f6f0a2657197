//! d2Cache: masks that are likely to be decided soon, and what attention flows to.

use super::{Cache, CacheView, Computed};
use crate::catalogue::{Default, Kind, Need, Parameter, Part, Range};
use crate::{Canvas, StepContext, Target};

/// d2Cache: computed are the masks that are confident and near decided positions, what was just decided, and the positions that
/// attention flows to, through all layers.
#[derive(Clone, Debug)]
pub struct Rollout {
    /// Share of the attention that flows to the positions that are computed for its sake.
    pub share: f64,
    /// Number of masks.
    pub masks: usize,
    /// Width of the bell curve by which decided positions count.
    pub sigma: f64,
    /// Distance of two computed positions up to which everything between them is computed, too.
    pub inflate: usize,
    /// Confidence at every gap in the first pass, from the first gap on.
    first: Option<Vec<f64>>,
    /// Positions of the next pass, ascending.
    next: Vec<usize>,
}

const ROLLOUT_P: Parameter = Parameter::new(
    "rollout_p",
    Kind::Number(Range::closed(0.0, 1.0)),
    Default::Number(0.1),
    "share of the attention, through all layers, that flows to the positions that are computed for its sake",
);
const CURRENT_K: Parameter = Parameter::new(
    "current_k",
    Kind::Integer { least: 1, most: 1 << 24 },
    Default::Number(32.0),
    "masks that a pass computes: the confident ones near decided positions",
);
const SIGMA: Parameter = Parameter::new(
    "sigma",
    Kind::Number(Range::above(0.0, 1e6)),
    Default::Number(10.0),
    "width of the bell curve by which decided positions count as near",
);
const INFLATE_W: Parameter = Parameter::new(
    "inflate_w",
    Kind::Integer { least: 0, most: 65_536 },
    Default::Number(4.0),
    "distance of two computed positions up to which everything between them is computed, too; 0 does not",
);

pub(super) fn part() -> Part {
    Part::cache("d2", "masks that are likely to be decided soon, and what attention flows to (d2Cache)", |given| {
        Ok(Box::new(Rollout::new(
            given.number("rollout_p"),
            given.integer("current_k"),
            given.number("sigma"),
            given.integer("inflate_w"),
        )))
    })
    .needs(&[Need::KvCache, Need::Rollout])
    .parameters(&[ROLLOUT_P, CURRENT_K, SIGMA, INFLATE_W])
}

impl Rollout {
    /// A cache that has seen nothing yet; see the fields.
    pub fn new(share: f64, masks: usize, sigma: f64, inflate: usize) -> Self {
        Self { share, masks, sigma, inflate, first: None, next: Vec::new() }
    }

    /// Share of decided neighbours for each position from the first gap to the last. As in the official code, the
    /// surroundings reach one such length to both sides: before it everything is decided, behind it all is like the last.
    fn density(&self, decided: &[bool]) -> Vec<f64> {
        let length = decided.len();
        let bell = |distance: usize| (-0.5 * (distance as f64 / self.sigma).powi(2)).exp();
        let weights: Vec<f64> = (0..=3 * length).map(bell).collect();
        let total = 2.0 * weights.iter().sum::<f64>() - weights[0] - weights[3 * length];
        let counts = |at: usize| at < length || decided[(at - length).min(length - 1)];
        let decided: Vec<usize> = (0..3 * length).filter(|&at| counts(at)).collect();
        let near = |at: usize| decided.iter().map(|other| weights[other.abs_diff(at)]).sum::<f64>();
        (length..2 * length).map(|at| near(at) / total).collect()
    }

    /// Masks that are likely to be decided soon: candidates first, then by confidence and density.
    fn soon(&self, chosen: &[usize], context: &StepContext<'_>) -> Vec<usize> {
        let (canvas, span) = (context.canvas(), context.canvas().span());
        let open = |position: usize| canvas.is_masked(position) && !chosen.contains(&position);
        let candidates: Vec<usize> = canvas.masked_before(context.block().range.end).collect();
        let Some(&from) = candidates.first() else { return Vec::new() };
        let decided: Vec<bool> = span.clone().map(|position| !open(position)).collect();
        let confidence = self.first.as_deref().unwrap_or_default();
        let mut scores: Vec<f64> = self.density(&decided).iter().zip(confidence).map(|(a, b)| a * b).collect();
        let highest = scores.iter().copied().fold(0.0, f64::max);
        candidates.iter().for_each(|position| scores[position - span.start] += highest);
        // The search ends at a multiple of the number of candidates, as in the official code.
        let last = span
            .clone()
            .filter(|&position| open(position))
            .nth(self.masks - 1)
            .map_or(span.len() - 1, |p| p - span.start);
        let end = ((last / candidates.len() + 1) * candidates.len()).min(span.len());
        let mut found: Vec<usize> = (from..span.start + end).filter(|&position| open(position)).collect();
        found.sort_by(|a, b| scores[b - span.start].total_cmp(&scores[a - span.start]));
        found.truncate(self.masks);
        found
    }

    /// Positions that attention flows to, beside those that are computed anyway: the first that together have the share.
    fn attended(&self, selected: &[bool], importance: &[f32]) -> Vec<usize> {
        let mut others: Vec<usize> = (0..selected.len()).filter(|&position| !selected[position]).collect();
        others.sort_by(|&a, &b| importance[b].total_cmp(&importance[a]));
        let total: f64 = others.iter().map(|&position| f64::from(importance[position])).sum::<f64>() + 1e-9;
        let mut sum = 0.0;
        let within = |position: &&usize| {
            sum += f64::from(importance[**position]) / total;
            sum <= self.share
        };
        let count = others.iter().take_while(within).count().max(1);
        others.truncate(count);
        others
    }
}

impl Cache for Rollout {
    fn compute(&self, now: &CacheView<'_>) -> Computed {
        if self.first.is_none() {
            return Computed::AllAndCache;
        }
        // A shifted model predicts a position from the row before it.
        let before =
            self.next.iter().filter(|&&position| now.shifted && position > 0 && now.canvas.is_masked(position));
        let mut rows: Vec<usize> = self.next.iter().copied().chain(before.map(|position| position - 1)).collect();
        rows.sort_unstable();
        rows.dedup();
        Computed::Only(rows)
    }

    fn rows(&self, canvas: &Canvas) -> Vec<Target> {
        let unknown = canvas.masked().filter(|_| self.first.is_none());
        unknown.map(Target::Position).collect()
    }

    fn rollout(&self) -> bool {
        true
    }

    fn learn(&mut self, chosen: &[usize], context: &StepContext<'_>) {
        let canvas = context.canvas();
        if self.first.is_none() {
            let confidence = |position: usize| context.try_belief(position).map_or(0.0, |belief| belief.probability);
            self.first = Some(canvas.span().map(confidence).collect());
        }
        let mut selected = vec![false; canvas.len()];
        self.soon(chosen, context).iter().chain(chosen).for_each(|&position| selected[position] = true);
        self.attended(&selected, context.rollout()).iter().for_each(|&position| selected[position] = true);
        let positions: Vec<usize> = (0..canvas.len()).filter(|&position| selected[position]).collect();
        for pair in positions.windows(2).filter(|pair| pair[1] - pair[0] <= self.inflate) {
            selected[pair[0]..pair[1]].fill(true);
        }
        self.next = (0..canvas.len()).filter(|&position| selected[position]).collect();
    }

    fn forget(&mut self) {
        self.first = None;
    }
}
