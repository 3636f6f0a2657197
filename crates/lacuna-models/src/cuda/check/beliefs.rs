//! The vocabulary projection, and beliefs from it.
#![allow(unsafe_code, reason = "launches of kernels")]

use std::rc::Rc;

use lacuna::{Draw, Guide, Row, Sampling, Target, TokenRule, TokenSet};

use super::lab::{Lab, Values, wide};
use crate::Result;
use crate::check::{Case, Scale, Size, noise};
use crate::cuda::buffer::Buffer;
use crate::cuda::int8::Int8Rows;
use crate::cuda::kernel::{
    ABSENT, ENTROPY, ReadState, Reading, RowSpec, SPARE_LARGEST, STRETCH, Summary, TokenWeights, to_u32,
};
use crate::int8;

/// Weights of the projection.
enum Weights {
    Elements(Values),
    Int8(Int8Rows),
}

impl Weights {
    /// Elements with these values, and the values as they are then.
    fn elements(lab: &Lab, values: &[f32], _k: usize) -> Result<(Self, Vec<f64>)> {
        let (elements, exact) = lab.elements(values)?;
        Ok((Self::Elements(elements), exact))
    }

    /// The same in int8.
    fn int8(lab: &Lab, values: &[f32], k: usize) -> Result<(Self, Vec<f64>)> {
        let rows = int8::Rows::of(values, k);
        let scales = rows.scales.iter().flat_map(|&scale| std::iter::repeat_n(f64::from(scale), k));
        let exact = rows.values.iter().zip(scales).map(|(&value, scale)| f64::from(value) * scale).collect();
        Ok((Self::Int8(Int8Rows::new(&lab.gpu, &rows)?), exact))
    }

    fn all(&self) -> TokenWeights<'_> {
        match self {
            Self::Elements(elements) => TokenWeights::Elements(elements.all()),
            Self::Int8(rows) => TokenWeights::Int8(rows.all()),
        }
    }
}

type MakeWeights = fn(&Lab, &[f32], usize) -> Result<(Weights, Vec<f64>)>;

/// Rows on their way from the projection to beliefs.
struct Rig {
    lab: Rc<Lab>,
    requests: usize,
    k: usize,
    vocabulary: usize,
    sampling: Sampling,
    allowed: TokenSet,
    guidance: Option<Guide>,
    input: (Values, Vec<f64>),
    weights: (Weights, Vec<f64>),
    logits: Buffer<f32>,
    specs: Buffer<RowSpec>,
    draws: Buffer<u64>,
    sets: Buffer<u32>,
    words: Buffer<u32>,
    tokens: Buffer<u32>,
    parts: Buffer<Summary>,
    outcomes: Buffer<Summary>,
    reads: Buffer<ReadState>,
}

impl Rig {
    /// `width` is the hidden size of the large case.
    fn new(lab: &Rc<Lab>, size: Size, width: usize, guided: bool, rule: TokenRule) -> Result<Rc<Self>> {
        Self::with(Weights::elements, lab, size, width, guided, rule)
    }

    fn with(
        weights: MakeWeights,
        lab: &Rc<Lab>,
        size: Size,
        width: usize,
        guided: bool,
        rule: TokenRule,
    ) -> Result<Rc<Self>> {
        let requests = size.of([1, 5, 33], 64);
        let (k, vocabulary) = (size.of([1, 37, 72], width), size.of([2, 333, 1000], 126_464));
        let rows = requests * if guided { 2 } else { 1 };
        let stretches = vocabulary.div_ceil(STRETCH);
        let input = lab.elements(&noise(1, rows * k))?;
        let weights = weights(lab, &noise(2, vocabulary * k), k)?;
        let logits = lab.zeros::<f32>(rows * vocabulary)?;
        let sampling = Sampling { rule, ..Sampling::default() };
        let allowed = TokenSet::all_but(vocabulary, &[0]);
        let guidance = guided.then_some(Guide { view: 1, scale: 0.5 });
        let (top_p, top_k) = match rule {
            TokenRule::Nucleus { top_p, top_k, .. } => (top_p, if top_k > 0 { to_u32(top_k) } else { ABSENT }),
            _ => (1.0, ABSENT),
        };
        let spec = |row: usize| RowSpec {
            logits: logits.slice(row * vocabulary..(row + 1) * vocabulary).into(),
            guide: if guided && row < requests { to_u32(requests + row) } else { ABSENT },
            guidance: 0.5,
            scored_token: 1,
            read: ABSENT,
            logits_only: u32::from(row >= requests),
            second_pass: u32::from(top_p < 1.0 || top_k != ABSENT),
            top_k,
            top_p,
            temperature: 1.0,
            ..RowSpec::default()
        };
        let specs = lab.buffer(&(0..rows).map(spec).collect::<Vec<_>>())?;
        Ok(Rc::new(Self {
            lab: lab.clone(),
            requests,
            k,
            vocabulary,
            sampling,
            words: lab.buffer(allowed.words())?,
            allowed,
            guidance,
            input,
            weights,
            logits,
            specs,
            draws: lab.zeros(rows)?,
            sets: lab.zeros(rows)?,
            tokens: lab.buffer(&[0])?,
            parts: lab.zeros(rows * stretches)?,
            outcomes: lab.zeros(requests)?,
            reads: lab.zeros(1)?,
        }))
    }

    fn reading(&self, rows: usize) -> Reading {
        Reading {
            specs: self.specs.all().into(),
            draws: self.draws.all().into(),
            sets: self.sets.all().into(),
            allowed: self.words.all().into(),
            tokens: self.tokens.all().into(),
            parts: self.parts.all().into(),
            outcomes: self.outcomes.all().into(),
            reads: self.reads.all().into(),
            vocabulary: to_u32(self.vocabulary),
            stretches: to_u32(self.vocabulary.div_ceil(STRETCH)),
            rows: to_u32(rows),
            round: 1,
        }
    }

    fn project(&self) -> Result<()> {
        let reading = self.reading(self.specs.len());
        // SAFETY: `new` has made a spec, logits and parts for every row, and a draw and an outcome for every request.
        unsafe { self.lab.kernels.project(self.input.0.all(), self.weights.0.all(), self.k, &reading) }
    }

    fn guide(&self) -> Result<()> {
        // SAFETY: as for `project`; the rows that guide follow the requests.
        unsafe { self.lab.kernels.guide(&self.reading(self.requests), self.requests) }
    }

    fn conclude(&self) -> Result<()> {
        // SAFETY: as for `project`.
        unsafe { self.lab.kernels.conclude(&self.reading(self.requests), self.requests) }
    }

    fn truncate_rows(&self) -> Result<()> {
        // SAFETY: as for `project`; logits of all rows are in memory.
        unsafe { self.lab.kernels.truncate_rows(&self.reading(self.requests), self.requests) }
    }

    /// Token, its probability, the two largest probabilities, entropy and scored probability of each row.
    fn found(&self) -> Result<Vec<f64>> {
        let belief = |s: &Summary| {
            let log_total = f64::from(s.first) + s.total.ln();
            let p = |logit: f32| (f64::from(logit) - log_total).exp();
            [
                f64::from(s.drawn),
                p(s.drawn_logit),
                p(s.first),
                p(s.second),
                s.total.ln() - s.weighted / s.total,
                p(s.scored),
            ]
        };
        Ok(self.lab.read(&self.outcomes)?.iter().flat_map(belief).collect())
    }

    /// The same, by the core, from logits that a plain sum gives.
    fn exact(&self) -> Result<Vec<f64>> {
        let row = |row: usize| -> Vec<f32> {
            let input = &self.input.1[row * self.k..][..self.k];
            let logit = |weights: &[f64]| input.iter().zip(weights).map(|(a, b)| a * b).sum::<f64>() as f32;
            self.weights.1.chunks_exact(self.k).map(logit).collect()
        };
        let mut exact = Vec::new();
        for request in 0..self.requests {
            let mut logits = row(request);
            if let Some(guide) = self.guidance {
                guide.mix(&mut logits, &row(self.requests + request));
            }
            let asked = Row::new(0, Target::Position(request), &self.sampling, &self.allowed, Draw::new(0, 0, 0));
            let b = Row { scored_token: Some(1), ..asked }.belief(&mut logits, &mut None).expect("logits are finite");
            exact.extend([f64::from(b.token), b.probability, b.first, b.second, b.entropy, b.scored.unwrap_or(0.0)]);
        }
        Ok(exact)
    }

    /// A case whose outputs are beliefs. Before the first run `prepare` runs.
    fn case(
        self: Rc<Self>,
        prepare: fn(&Self) -> Result<()>,
        run: fn(&Self) -> Result<()>,
        check: bool,
    ) -> Result<Case> {
        prepare(&self)?;
        let (one, other, twin) = (self.clone(), self.clone(), self.clone());
        let finish: fn(&Self) -> Result<()> = if self.guidance.is_some() { Self::conclude } else { |_| Ok(()) };
        Ok(Case {
            launch: Box::new(move || {
                run(&one)?;
                if check { finish(&one) } else { Ok(()) }
            }),
            found: Box::new(move || other.found()),
            exact: Box::new(move || twin.exact()),
            tolerance: 1e-4,
            scale: Scale::Each,
            bytes: (self.parts.len() * size_of::<Summary>()) as f64,
            operations: 0.0,
        })
    }
}

pub(super) fn project(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    projection(Weights::elements, lab, size, |k| k * lab.size())
}

pub(super) fn project_int8(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    projection(Weights::int8, lab, size, |k| k)
}

/// Logits of the projection. What is made of them on the way, `conclude` checks. `row_bytes` is the size of a token's weights.
fn projection(weights: MakeWeights, lab: &Rc<Lab>, size: Size, row_bytes: impl Fn(usize) -> usize) -> Result<Case> {
    let rig = Rig::with(weights, lab, size, 4096, false, TokenRule::Greedy)?;
    let (one, other, twin) = (rig.clone(), rig.clone(), rig.clone());
    let exact = move || {
        let row = |row: &[f64]| -> Vec<f64> {
            let product = |weights: &[f64]| row.iter().zip(weights).map(|(a, b)| a * b).sum();
            let mut logits: Vec<f64> = twin.weights.1.chunks_exact(twin.k).map(product).collect();
            // Suppressed.
            logits[0] = f64::NEG_INFINITY;
            logits
        };
        Ok(twin.input.1.chunks_exact(twin.k).flat_map(row).collect())
    };
    let operations = 2.0 * (rig.requests * rig.k * rig.vocabulary) as f64;
    Ok(Case {
        launch: Box::new(move || one.project()),
        found: Box::new(move || Ok(wide(&other.lab.read(&other.logits)?))),
        exact: Box::new(exact),
        tolerance: 1e-5,
        scale: Scale::Largest,
        bytes: (rig.vocabulary * (row_bytes(rig.k) + rig.requests * 4)) as f64,
        operations,
    })
}

pub(super) fn guide(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    Rig::new(lab, size, 64, true, TokenRule::Greedy)?.case(Rig::project, Rig::guide, size != Size::Large)
}

pub(super) fn conclude(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    Rig::new(lab, size, 64, false, TokenRule::Greedy)?.case(Rig::project, Rig::conclude, size != Size::Large)
}

pub(super) fn truncate_rows(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let rule = TokenRule::Nucleus { temperature: 0.0, top_p: 0.9, top_k: 20 };
    let prepare = |rig: &Rig| {
        rig.project()?;
        rig.conclude()
    };
    Rig::new(lab, size, 64, false, rule)?.case(prepare, Rig::truncate_rows, size != Size::Large)
}

/// Reads of one row each in the first round: half of them may go on.
pub(super) fn continue_reads(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let reads = size.of([1, 5, 33], 64);
    let first = 3;
    let state = |read: usize| ReadState {
        bound: 1.0,
        rule: ENTROPY | SPARE_LARGEST,
        requests: to_u32(read * first),
        first: to_u32(first),
        most: 100,
        rounds: 1,
    };
    // All logits of a row are alike, so its entropy is the logarithm of their number: here 0 to 1.2.
    let entropy = |request: usize| (request * 7 % 13) as f64 * 0.1;
    let outcome = |request: usize| Summary { total: entropy(request).exp(), ..Summary::default() };
    let states: Vec<ReadState> = (0..reads).map(state).collect();
    let outcomes: Vec<Summary> = (0..reads * first).map(outcome).collect();
    let operands = (
        lab.buffer(&(0..to_u32(reads * first)).collect::<Vec<_>>())?,
        lab.buffer(&outcomes)?,
        lab.zeros::<f64>(reads * first)?,
    );
    let device = Rc::new(lab.buffer(&states)?);
    let (its, target) = (lab.clone(), device.clone());
    let launch = move || {
        let (requests, outcomes, values) = &operands;
        // SAFETY: each read has `first` requests, and there are outcomes and values for all.
        unsafe { its.kernels.continue_reads(target.all(), requests.all(), outcomes.all(), values.all(), 2) }
    };
    let exact = move || {
        let goes_on = |read: usize| {
            let entropies: Vec<f64> = (read * first..(read + 1) * first).map(entropy).collect();
            let largest = entropies.iter().copied().fold(0.0, f64::max);
            if entropies.iter().sum::<f64>() - largest <= 1.0 + 2e-9 { 2.0 } else { 1.0 }
        };
        Ok((0..reads).map(goes_on).collect())
    };
    let its = lab.clone();
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(move || Ok(its.read(&device)?.iter().map(|state| f64::from(state.rounds)).collect())),
        exact: Box::new(exact),
        tolerance: 0.0,
        scale: Scale::Largest,
        bytes: (reads * first * size_of::<Summary>()) as f64,
        operations: 0.0,
    })
}
