//! Mixtures of experts, kernel by kernel.
#![allow(unsafe_code, reason = "launches of kernels")]

use std::rc::Rc;

use super::lab::{Lab, Values, wide};
use super::products::int4_columns;
use crate::Result;
use crate::architecture::{Experts, Groups, Router, RouterBias, Score};
use crate::check::{Case, Scale, Size, noise};
use crate::cuda::buffer::Buffer;
use crate::cuda::fp8::Fp8Rows;
use crate::cuda::int4::Int4Rows;
use crate::cuda::kernel::{ExpertTile, ExpertsCall, Slots, arrivals, expert_lines, most_tiles, to_u32};
use crate::cuda::matrix::Operand;

/// Formats of weights.
pub(super) const ELEMENTS: u8 = 0;
pub(super) const FP8: u8 = 1;
pub(super) const INT4: u8 = 2;

/// Weights in a format.
enum Weights {
    Elements(Values),
    Fp8(Fp8Rows, usize),
    Int4(Int4Rows, usize),
}

impl Weights {
    /// Experts with matrices of `n` rows of `k` values, and the values as they are then.
    fn new(lab: &Lab, format: u8, [n, k]: [usize; 2], gated: bool, values: &[f32]) -> Result<(Self, Vec<f64>)> {
        let rows = values.len() / k;
        Ok(match format {
            FP8 => {
                let (whole, _) = lab.elements(values)?;
                let packed = Fp8Rows::new(&lab.gpu, rows, k)?;
                lab.kernels.quantize(whole.all(), k, packed.all())?;
                let (mut bytes, mut scales) = (vec![0; rows * k], vec![0.0; rows]);
                packed.read(&mut bytes, &mut scales)?;
                let exact = bytes.iter().enumerate().map(|(i, &byte)| e4m3(byte) * f64::from(scales[i / k])).collect();
                (Self::Fp8(packed, k), exact)
            }
            INT4 => {
                let (lines, zeros) = (expert_lines(n, gated), vec![0.0; k]);
                let line = |expert: &[f32], row: &Option<usize>| {
                    row.map_or(zeros.clone(), |row| expert[row * k..][..k].to_vec())
                };
                let in_order =
                    values.chunks_exact(n * k).flat_map(|expert| lines.iter().flat_map(move |row| line(expert, row)));
                let packed = Int4Rows::of(&lab.gpu, k, &in_order.collect::<Vec<f32>>())?;
                (Self::Int4(packed, k), int4_columns(values, k))
            }
            _ => {
                let (elements, exact) = lab.elements(values)?;
                (Self::Elements(elements), exact)
            }
        })
    }

    /// All of `experts`, of `n` rows each.
    fn all(&self, experts: usize, n: usize) -> Operand<'_> {
        let rows = experts * n;
        match self {
            Self::Elements(values) => Operand::Elements(values.all()),
            Self::Fp8(packed, k) => Operand::Fp8(packed.rows(0..rows, *k)),
            Self::Int4(packed, k) => Operand::Int4(packed.rows(0..experts * expert_lines(n, false).len(), *k)),
        }
    }
}

fn e4m3(byte: u8) -> f64 {
    let (exponent, fraction) = (i32::from(byte >> 3 & 15), f64::from(byte & 7) / 8.0);
    let size = if exponent == 0 { fraction * 2f64.powi(-6) } else { (1.0 + fraction) * 2f64.powi(exponent - 7) };
    if byte < 128 { size } else { -size }
}

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
    gate_up: Weights,
    down: Weights,
    arrived: Buffer<u32>,
    scores: Buffer<f32>,
    chosen: Buffer<u32>,
    weights: Buffer<f32>,
    order: Buffer<u32>,
    tiles: Buffer<ExpertTile>,
    tile_count: Buffer<u32>,
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
    inner: Vec<f64>,
    outputs: Vec<f64>,
}

impl Rig {
    /// One with weights in a format, after routing.
    fn new(lab: &Rc<Lab>, size: Size, format: u8) -> Result<Rc<Self>> {
        let (score, bias, groups) = match size {
            Size::Odd(0) => (Score::Softmax, RouterBias::None, None),
            // More groups than a warp has lanes.
            Size::Odd(1) => (Score::Softmax, RouterBias::Weights, Some(Groups { count: 66, kept: 5 })),
            _ => (Score::Sigmoid, RouterBias::Choice, Some(Groups { count: 4, kept: 2 })),
        };
        let router = Router { score, bias, renormalized: size != Size::Odd(0), scale: 2.5, groups };
        let (count, active) = (size.of([3, 132, 40], 16), size.of([1, 5, 3], 8));
        let step = if format == FP8 { 16 } else { 1 };
        let width = size.of([3, 70, 136], 512).next_multiple_of(step);
        let shared = [None, Some(width)][usize::from(size != Size::Odd(0))];
        let experts = Experts { count, active, width, shared, router };
        let Slots { experts: all, of_a_row } = Slots::of(&experts);
        let (there, width) = (size.of([1, 75, 33], 32), size.of([5, 37, 600], 2048).next_multiple_of(step));
        let rows = there + 7;
        let (input, exact_input) = lab.elements(&noise(1, rows * width))?;
        let (gate_up, exact_gate_up) =
            Weights::new(lab, format, [2 * experts.width, width], true, &noise(2, all * 2 * experts.width * width))?;
        let (down, exact_down) =
            Weights::new(lab, format, [width, experts.width], false, &noise(3, all * experts.width * width))?;
        let (inner, exact_inner) = lab.elements(&noise(4, rows * of_a_row * experts.width))?;
        let [hidden, router, mut bias] = [noise(5, rows * width), noise(6, count * width), noise(7, count)];
        // One expert has all rows, some have none.
        bias.iter_mut().step_by(5).for_each(|bias| *bias -= 10.0);
        bias[1] += 30.0;
        let outputs = noise(8, rows * of_a_row * width);
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
            arrived: lab.zeros(arrivals(rows))?,
            scores: lab.zeros(rows * count)?,
            chosen: lab.zeros(rows * of_a_row)?,
            weights: lab.zeros(rows * of_a_row)?,
            order: lab.zeros(rows * of_a_row)?,
            tiles: lab.zeros(most_tiles(&experts, rows))?,
            tile_count: lab.zeros(1)?,
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
            gate_up: self.gate_up.all(Slots::of(&self.experts).experts, 2 * self.experts.width),
            down: self.down.all(Slots::of(&self.experts).experts, self.width),
            arrived: self.arrived.all(),
            scores: self.scores.all(),
            chosen: self.chosen.all(),
            weights: self.weights.all(),
            order: self.order.all(),
            tiles: self.tiles.all(),
            tile_count: self.tile_count.all(),
            used: self.used.all(),
            inner: self.inner.all(),
            outputs: self.outputs.all(),
        }
    }

    fn route(&self) -> Result<()> {
        // SAFETY: `new` has made room for all rows, of which fewer are present.
        unsafe { self.lab.kernels.route(self.call()) }
    }

    /// The experts that were chosen.
    fn chosen(&self) -> Result<Vec<usize>> {
        Ok(self.lab.read(&self.chosen)?.into_iter().take(self.assigned()).map(|expert| expert as usize).collect())
    }

    /// Experts that rows go through.
    fn assigned(&self) -> usize {
        self.there * Slots::of(&self.experts).of_a_row
    }

    /// A case of a kernel that is launched after rows were routed.
    fn case(
        self: Rc<Self>,
        run: fn(&Self) -> Result<()>,
        found: fn(&Self) -> Result<Vec<f64>>,
        exact: fn(&Self) -> Result<Vec<f64>>,
        tolerance: f64,
        weights: usize,
    ) -> Result<Case> {
        self.route()?;
        let (one, other, twin) = (self.clone(), self.clone(), self.clone());
        Ok(Case {
            launch: Box::new(move || run(&one)),
            found: Box::new(move || found(&other)),
            exact: Box::new(move || exact(&twin)),
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

/// Scores.
pub(super) fn route(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let rig = Rig::new(lab, size, ELEMENTS)?;
    let weights = rig.exact.router.len();
    rig.case(
        Rig::route,
        |rig| Ok(wide(&rig.lab.read(&rig.scores)?[..rig.there * rig.experts.count])),
        |rig| {
            let row = |row: &[f64]| -> Vec<f64> {
                rig.exact.router.chunks_exact(rig.width).map(|expert| dot(row, expert)).collect()
            };
            Ok(rig.exact.input.chunks_exact(rig.width).take(rig.there).flat_map(row).collect())
        },
        1e-5,
        weights,
    )
}

/// The experts of each row and their weights, by its scores.
pub(super) fn route_choice(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let rig = Rig::new(lab, size, ELEMENTS)?;
    let weights = rig.exact.router.len();
    rig.case(
        Rig::route,
        |rig| {
            let (chosen, weights) = (rig.lab.read(&rig.chosen)?, rig.lab.read(&rig.weights)?);
            let pairs = chosen.iter().zip(&weights).take(rig.assigned());
            Ok(pairs.flat_map(|(&expert, &weight)| [f64::from(expert), f64::from(weight)]).collect())
        },
        |rig| {
            let scores = wide(&rig.lab.read(&rig.scores)?);
            Ok(scores.chunks_exact(rig.experts.count).take(rig.there).flat_map(|row| rig.choice(row)).collect())
        },
        1e-5,
        weights,
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

/// Every row of an expert is in one of its tiles, once, and there are no more tiles than that takes. Nobody has arrived.
pub(super) fn route_tiles(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let rig = Rig::new(lab, size, ELEMENTS)?;
    let weights = rig.exact.router.len();
    rig.case(
        Rig::route,
        |rig| {
            let (chosen, order, tiles) = (rig.chosen()?, rig.lab.read(&rig.order)?, rig.lab.read(&rig.tiles)?);
            let (count, arrived) = (rig.lab.read(&rig.tile_count)?[0], rig.lab.read(&rig.arrived)?);
            let mut seen = vec![0.0; rig.assigned()];
            for tile in &tiles[..count as usize] {
                for &assigned in &order[tile.first as usize..][..tile.count as usize] {
                    let expert = chosen[assigned as usize];
                    seen[assigned as usize] += if expert == tile.expert as usize { 1.0 } else { 100.0 };
                }
            }
            seen.extend([f64::from(count), f64::from(arrived.iter().sum::<u32>())]);
            Ok(seen)
        },
        |rig| {
            let mut counts = vec![0usize; Slots::of(&rig.experts).experts];
            rig.chosen()?.into_iter().for_each(|expert| counts[expert] += 1);
            let tiles: usize = counts.iter().map(|count| count.div_ceil(rig.lab.kernels.expert_rows())).sum();
            Ok([vec![1.0; rig.assigned()], vec![tiles as f64, 0.0]].concat())
        },
        0.0,
        weights,
    )
}

pub(super) fn expert_gate_up<const FORMAT: u8>(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let rig = Rig::new(lab, size, FORMAT)?;
    let weights = rig.exact.gate_up.len();
    rig.case(
        // SAFETY: as in `route`, after it.
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
            let (slots, inner, chosen) = (Slots::of(&rig.experts).of_a_row, rig.experts.width, rig.chosen()?);
            let one = |assigned: usize| -> Vec<f64> {
                let row = &rig.exact.input[assigned / slots * rig.width..][..rig.width];
                let expert = &rig.exact.gate_up[chosen[assigned] * 2 * inner * rig.width..];
                let product = |column: usize| dot(row, &expert[column * rig.width..][..rig.width]);
                let gated = |column: usize| {
                    let (gate, up) = (product(column), product(inner + column));
                    gate / (1.0 + (-gate).exp()) * up
                };
                (0..inner).map(gated).collect()
            };
            Ok((0..rig.assigned()).flat_map(one).collect())
        },
        lab.tolerance(1e-5),
        weights,
    )
}

pub(super) fn expert_down<const FORMAT: u8>(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let rig = Rig::new(lab, size, FORMAT)?;
    let weights = rig.exact.down.len();
    rig.case(
        // SAFETY: as in `route`, after it.
        |rig| unsafe { rig.lab.kernels.expert_down(rig.call()) },
        |rig| {
            // What slot a row has is any, so its input is found where `order` says.
            let (order, outputs) = (rig.lab.read(&rig.order)?, rig.lab.read(&rig.outputs)?);
            let (inner, chosen) = (rig.experts.width, rig.chosen()?);
            let mut apart = Vec::new();
            for (row, &from) in rig.exact.inner.chunks_exact(inner).zip(&order).take(rig.assigned()) {
                let from = from as usize;
                let expert = &rig.exact.down[chosen[from] * inner * rig.width..];
                let output = wide(&outputs[from * rig.width..][..rig.width]);
                let exact = (0..rig.width).map(|column| dot(row, &expert[column * inner..][..inner]));
                apart.extend(output.iter().zip(exact).map(|(found, exact)| 1.0 + (found - exact).abs()));
            }
            Ok(apart)
        },
        |rig| Ok(vec![1.0; rig.assigned() * rig.width]),
        1e-4,
        weights,
    )
}

pub(super) fn combine(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let rig = Rig::new(lab, size, ELEMENTS)?;
    let outputs = rig.exact.outputs.len();
    rig.case(
        // SAFETY: as in `route`.
        |rig| unsafe { rig.lab.kernels.combine(rig.call()) },
        |rig| Ok(wide(&rig.lab.read(&rig.hidden)?)),
        |rig| {
            let (slots, width, weights) =
                (Slots::of(&rig.experts).of_a_row, rig.width, wide(&rig.lab.read(&rig.weights)?));
            let sum = |(i, &before): (usize, &f64)| {
                let (row, column) = (i / width, i % width);
                let part = |number: usize| {
                    let assigned = row * slots + number;
                    weights[assigned] * rig.exact.outputs[assigned * width + column]
                };
                before + if row < rig.there { (0..slots).map(part).sum::<f64>() } else { 0.0 }
            };
            Ok(rig.exact.hidden.iter().enumerate().map(sum).collect())
        },
        1e-5,
        outputs,
    )
}
