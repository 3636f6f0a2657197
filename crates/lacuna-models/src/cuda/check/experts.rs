//! Mixtures of experts, kernel by kernel.
#![allow(unsafe_code, reason = "launches of kernels")]

use std::rc::Rc;

use super::lab::{Lab, Values, wide};
use crate::Result;
use crate::architecture::{Experts, Groups, Router, RouterBias, Score};
use crate::check::{Case, Scale, Size, noise};
use crate::cuda::buffer::Buffer;
use crate::cuda::kernel::{ExpertTile, ExpertsCall, Slots, most_tiles, to_u32};

/// A layer with experts, and noise in every place. The last rows only fill up.
struct Rig {
    lab: Rc<Lab>,
    experts: Experts,
    rows: usize,
    there: usize,
    width: usize,
    exact: Exact,
    present: Buffer<u32>,
    input: Values,
    hidden: Buffer<f32>,
    router: Buffer<f32>,
    bias: Option<Buffer<f32>>,
    gate_up: Values,
    down: Values,
    scores: Buffer<f32>,
    chosen: Buffer<u32>,
    weights: Buffer<f32>,
    order: Buffer<u32>,
    tiles: Buffer<ExpertTile>,
    used: Buffer<u32>,
    inner: Values,
    outputs: Buffer<f32>,
}

/// The same numbers on the host.
struct Exact {
    input: Vec<f64>,
    hidden: Vec<f64>,
    router: Vec<f64>,
    bias: Option<Vec<f64>>,
    gate_up: Vec<f64>,
    down: Vec<f64>,
    scores: Vec<f64>,
    chosen: Vec<usize>,
    weights: Vec<f64>,
    inner: Vec<f64>,
    outputs: Vec<f64>,
}

impl Rig {
    fn new(lab: &Rc<Lab>, size: Size) -> Result<Rc<Self>> {
        let (score, bias, groups) = match size {
            Size::Odd(0) => (Score::Softmax, RouterBias::None, None),
            Size::Odd(1) => (Score::Softmax, RouterBias::Weights, None),
            _ => (Score::Sigmoid, RouterBias::Choice, Some(Groups { count: 4, kept: 2 })),
        };
        let router = Router { score, bias, renormalized: size != Size::Odd(0), scale: 2.5, groups };
        let (count, active) = (size.of([3, 37, 40], 16), size.of([1, 5, 3], 8));
        let width = size.of([3, 70, 136], 512);
        let shared = [None, Some(width)][usize::from(size != Size::Odd(0))];
        let experts = Experts { count, active, width, shared, router };
        let Slots { experts: all, of_a_row } = Slots::of(&experts);
        let (there, width) = (size.of([1, 75, 33], 32), size.of([5, 37, 136], 2048));
        let rows = there + 7;
        let (input, exact_input) = lab.elements(&noise(1, rows * width))?;
        let (gate_up, exact_gate_up) = lab.elements(&noise(2, all * 2 * experts.width * width))?;
        let (down, exact_down) = lab.elements(&noise(3, all * experts.width * width))?;
        let (inner, exact_inner) = lab.elements(&noise(4, rows * of_a_row * experts.width))?;
        let [hidden, router, bias] = [noise(5, rows * width), noise(6, count * width), noise(7, count)];
        let [scores, weights] = [noise(8, rows * count), noise(9, rows * of_a_row)];
        let outputs = noise(10, rows * of_a_row * width);
        // One expert has most rows, some have none.
        let chosen: Vec<usize> =
            (0..rows * of_a_row).map(|i| if i % 3 == 0 { all / 2 } else { i * 7 % all / 2 * 2 }).collect();
        let biased = experts.router.bias != RouterBias::None;
        Ok(Rc::new(Self {
            lab: lab.clone(),
            experts,
            rows,
            there,
            width,
            present: lab.buffer(&[to_u32(there)])?,
            input,
            hidden: lab.buffer(&hidden)?,
            router: lab.buffer(&router)?,
            bias: biased.then(|| lab.buffer(&bias)).transpose()?,
            gate_up,
            down,
            scores: lab.buffer(&scores)?,
            chosen: lab.buffer(&chosen.iter().map(|&expert| to_u32(expert)).collect::<Vec<_>>())?,
            weights: lab.buffer(&weights)?,
            order: lab.zeros(rows * of_a_row)?,
            tiles: lab.zeros(most_tiles(&experts, rows))?,
            used: lab.zeros(1)?,
            inner,
            outputs: lab.buffer(&outputs)?,
            exact: Exact {
                input: exact_input,
                hidden: wide(&hidden),
                router: wide(&router),
                bias: biased.then(|| wide(&bias)),
                gate_up: exact_gate_up,
                down: exact_down,
                scores: wide(&scores),
                chosen,
                weights: wide(&weights),
                inner: exact_inner,
                outputs: wide(&outputs),
            },
        }))
    }

    fn call(&self) -> ExpertsCall<'_> {
        ExpertsCall {
            experts: &self.experts,
            rows: self.rows,
            width: self.width,
            present: self.present.all(),
            input: self.input.all(),
            hidden: self.hidden.all(),
            router: self.router.all(),
            bias: self.bias.as_ref().map(Buffer::all),
            gate_up: self.gate_up.all(),
            down: self.down.all(),
            scores: self.scores.all(),
            chosen: self.chosen.all(),
            weights: self.weights.all(),
            order: self.order.all(),
            tiles: self.tiles.all(),
            used: self.used.all(),
            inner: self.inner.all(),
            outputs: self.outputs.all(),
        }
    }

    fn group(&self) -> Result<()> {
        // SAFETY: `new` has made room for all rows, of which fewer are present, and chosen experts that there are.
        unsafe { self.lab.kernels.group(self.call()) }
    }

    /// Experts that rows go through.
    fn assigned(&self) -> usize {
        self.there * Slots::of(&self.experts).of_a_row
    }

    /// A case of a kernel that is launched after rows were grouped.
    fn case(
        self: Rc<Self>,
        run: fn(&Self) -> Result<()>,
        found: fn(&Self) -> Result<Vec<f64>>,
        exact: fn(&Self) -> Vec<f64>,
        tolerance: f64,
        weights: usize,
    ) -> Result<Case> {
        self.group()?;
        let (one, other, twin) = (self.clone(), self.clone(), self.clone());
        Ok(Case {
            launch: Box::new(move || run(&one)),
            found: Box::new(move || found(&other)),
            exact: Box::new(move || Ok(exact(&twin))),
            tolerance,
            scale: Scale::Largest,
            bytes: (weights * self.lab.size()) as f64,
            operations: (2 * self.assigned() * weights / self.experts.count) as f64,
        })
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(super) fn route(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let rig = Rig::new(lab, size)?;
    let weights = rig.exact.router.len();
    rig.case(
        // SAFETY: as in `group`.
        |rig| unsafe { rig.lab.kernels.route(rig.call()) },
        |rig| Ok(wide(&rig.lab.read(&rig.scores)?[..rig.there * rig.experts.count])),
        |rig| {
            let row = |row: &[f64]| -> Vec<f64> {
                rig.exact.router.chunks_exact(rig.width).map(|expert| dot(row, expert)).collect()
            };
            rig.exact.input.chunks_exact(rig.width).take(rig.there).flat_map(row).collect()
        },
        1e-5,
        weights,
    )
}

pub(super) fn choose(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let rig = Rig::new(lab, size)?;
    let scores = rig.exact.scores.len();
    rig.case(
        // SAFETY: as in `group`.
        |rig| unsafe { rig.lab.kernels.choose(rig.call()) },
        |rig| {
            let (chosen, weights) = (rig.lab.read(&rig.chosen)?, rig.lab.read(&rig.weights)?);
            let pairs = chosen.iter().zip(&weights).take(rig.assigned());
            Ok(pairs.flat_map(|(&expert, &weight)| [f64::from(expert), f64::from(weight)]).collect())
        },
        |rig| {
            rig.exact.scores.chunks_exact(rig.experts.count).take(rig.there).flat_map(|row| rig.choice(row)).collect()
        },
        1e-5,
        scores,
    )
}

impl Rig {
    /// Experts and weights of a row, one after the other.
    fn choice(&self, scores: &[f64]) -> Vec<f64> {
        let Router { score, bias, renormalized, scale, groups } = self.experts.router;
        let total: f64 = scores.iter().map(|score| score.exp()).sum();
        let chance = |expert: usize| match score {
            Score::Softmax => scores[expert].exp() / total,
            Score::Sigmoid => 1.0 / (1.0 + (-scores[expert]).exp()),
        };
        let shift = |expert: usize| self.exact.bias.as_ref().map_or(0.0, |bias| bias[expert]);
        let mut order: Vec<usize> = (0..scores.len()).collect();
        let preference = |expert: usize| chance(expert) + shift(expert);
        order.sort_by(|&a, &b| preference(b).total_cmp(&preference(a)));
        if let Some(Groups { count, kept }) = groups {
            let size = scores.len() / count;
            let best = |group: usize| -> f64 {
                order.iter().filter(|&&expert| expert / size == group).take(2).map(|&expert| preference(expert)).sum()
            };
            let mut ranking: Vec<usize> = (0..count).collect();
            ranking.sort_by(|&a, &b| best(b).total_cmp(&best(a)));
            order.retain(|expert| ranking[..kept].contains(&(expert / size)));
        }
        order.truncate(self.experts.active);
        order.sort_unstable();
        let weight = |expert: usize| chance(expert) + if bias == RouterBias::Weights { shift(expert) } else { 0.0 };
        let sum: f64 = if renormalized { order.iter().map(|&expert| weight(expert)).sum() } else { 1.0 };
        let chosen = order.iter().flat_map(|&expert| [expert as f64, weight(expert) / sum * f64::from(scale)]);
        let shared = self.experts.shared.map(|_| [scores.len() as f64, 1.0]);
        chosen.chain(shared.into_iter().flatten()).collect()
    }
}

/// Every row of an expert is in one of its tiles, once, and there are no more tiles than that takes.
pub(super) fn group(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let rig = Rig::new(lab, size)?;
    let chosen = rig.exact.chosen.len();
    rig.case(
        Rig::group,
        |rig| {
            let (order, tiles) = (rig.lab.read(&rig.order)?, rig.lab.read(&rig.tiles)?);
            let mut seen = vec![0.0; rig.assigned()];
            for tile in &tiles {
                for &assigned in &order[tile.first as usize..][..tile.count as usize] {
                    let expert = rig.exact.chosen[assigned as usize];
                    seen[assigned as usize] += if expert == tile.expert as usize { 1.0 } else { 100.0 };
                }
            }
            seen.push(tiles.iter().filter(|tile| tile.count > 0).count() as f64);
            Ok(seen)
        },
        |rig| {
            let mut counts = vec![0usize; Slots::of(&rig.experts).experts];
            rig.exact.chosen[..rig.assigned()].iter().for_each(|&expert| counts[expert] += 1);
            let tiles: usize = counts.iter().map(|count| count.div_ceil(64)).sum();
            [vec![1.0; rig.assigned()], vec![tiles as f64]].concat()
        },
        0.0,
        chosen,
    )
}

pub(super) fn expert_gate_up(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let rig = Rig::new(lab, size)?;
    let weights = rig.exact.gate_up.len();
    rig.case(
        // SAFETY: as in `group`, after it.
        |rig| unsafe { rig.lab.kernels.expert_gate_up(rig.call()) },
        |rig| {
            let (order, inner) = (rig.lab.read(&rig.order)?, rig.lab.read_elements(&rig.inner)?);
            let mut found = vec![Vec::new(); rig.assigned()];
            for (slot, row) in inner.chunks_exact(rig.experts.width).take(rig.assigned()).enumerate() {
                found[order[slot] as usize] = row.to_vec();
            }
            Ok(found.concat())
        },
        |rig| {
            let (slots, inner) = (Slots::of(&rig.experts).of_a_row, rig.experts.width);
            let one = |assigned: usize| -> Vec<f64> {
                let row = &rig.exact.input[assigned / slots * rig.width..][..rig.width];
                let expert = &rig.exact.gate_up[rig.exact.chosen[assigned] * 2 * inner * rig.width..];
                let product = |column: usize| dot(row, &expert[column * rig.width..][..rig.width]);
                let gated = |column: usize| {
                    let (gate, up) = (product(column), product(inner + column));
                    gate / (1.0 + (-gate).exp()) * up
                };
                (0..inner).map(gated).collect()
            };
            (0..rig.assigned()).flat_map(one).collect()
        },
        lab.tolerance(1e-5),
        weights,
    )
}

pub(super) fn expert_down(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let rig = Rig::new(lab, size)?;
    let weights = rig.exact.down.len();
    rig.case(
        // SAFETY: as in `group`, after it.
        |rig| unsafe { rig.lab.kernels.expert_down(rig.call()) },
        |rig| {
            // What slot a row has is any, so its input is found where `order` says.
            let (order, outputs) = (rig.lab.read(&rig.order)?, rig.lab.read(&rig.outputs)?);
            let inner = rig.experts.width;
            let mut apart = Vec::new();
            for (row, &from) in rig.exact.inner.chunks_exact(inner).zip(&order).take(rig.assigned()) {
                let from = from as usize;
                let expert = &rig.exact.down[rig.exact.chosen[from] * inner * rig.width..];
                let output = wide(&outputs[from * rig.width..][..rig.width]);
                let exact = (0..rig.width).map(|column| dot(row, &expert[column * inner..][..inner]));
                apart.extend(output.iter().zip(exact).map(|(found, exact)| 1.0 + (found - exact).abs()));
            }
            Ok(apart)
        },
        |rig| vec![1.0; rig.assigned() * rig.width],
        1e-4,
        weights,
    )
}

pub(super) fn combine(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let rig = Rig::new(lab, size)?;
    let outputs = rig.exact.outputs.len();
    rig.case(
        // SAFETY: as in `group`.
        |rig| unsafe { rig.lab.kernels.combine(rig.call()) },
        |rig| Ok(wide(&rig.lab.read(&rig.hidden)?)),
        |rig| {
            let (slots, width) = (Slots::of(&rig.experts).of_a_row, rig.width);
            let sum = |(i, &before): (usize, &f64)| {
                let (row, column) = (i / width, i % width);
                let part = |number: usize| {
                    let assigned = row * slots + number;
                    rig.exact.weights[assigned] * rig.exact.outputs[assigned * width + column]
                };
                before + if row < rig.there { (0..slots).map(part).sum::<f64>() } else { 0.0 }
            };
            rig.exact.hidden.iter().enumerate().map(sum).collect()
        },
        1e-5,
        outputs,
    )
}
