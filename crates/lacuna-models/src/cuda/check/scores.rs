//! Dependency scores, and ranking by them.
#![allow(unsafe_code, reason = "launches of kernels")]

use std::rc::Rc;

use super::lab::{Lab, wide};
use crate::Result;
use crate::check::{Case, Scale, Size, noise};
use crate::cuda::kernel::{ABSENT, Candidate, CollectCall, RankTask, Ranking, ReadState, ScoreTask, to_u32};

const MASK: u32 = 3;

/// One source with all heads, and one with some heads of the second layer, of a canvas that computes every second position.
pub(super) fn collect(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let (rows, heads) = (size.of([1, 37, 300], 640), size.of([1, 3, 5], 32));
    let length = 2 * rows;
    let mass: Vec<f32> = noise(1, 2 * rows * heads).iter().map(|x| x.abs()).collect();
    let tokens: Vec<u32> = (0..rows).map(|i| if i % 4 == 1 { 5 } else { MASK }).collect();
    let positions: Vec<u32> = (0..rows).map(|i| to_u32(2 * i)).collect();
    let chosen: Vec<u32> = (0..heads).step_by(2).map(to_u32).collect();
    let whole = ScoreTask { tokens: to_u32(rows), length: to_u32(length), ..ScoreTask::default() };
    let tasks = [whole, ScoreTask { layer: 1, head_count: to_u32(chosen.len()), output: to_u32(length), ..whole }];
    let operands = (
        lab.buffer(&tasks)?,
        lab.buffer(&chosen)?,
        lab.buffer(&mass)?,
        lab.indices(&tokens, 10)?,
        lab.indices(&positions, length)?,
    );
    let scores = Rc::new(lab.buffer(&vec![9.0f32; 2 * length])?);
    let (its, target) = (lab.clone(), scores.clone());
    let launch = move || {
        let (tasks, heads_list, mass, tokens, positions) = &operands;
        let call = CollectCall {
            tasks: tasks.all(),
            heads: heads_list.all(),
            mass: mass.all(),
            tokens: tokens.all(),
            positions: positions.all(),
            scores: target.all(),
            rows,
            all_heads: heads,
            mask: MASK,
        };
        // SAFETY: both tasks name the rows, layers and heads that there are, and `length` scores each.
        unsafe { its.kernels.collect(call) }
    };
    let exact = move || {
        let mut scores = vec![0.0; 2 * length];
        let all: Vec<u32> = (0..to_u32(heads)).collect();
        for (layer, heads_of) in [&all, &chosen].into_iter().enumerate() {
            for row in (0..rows).filter(|&row| tokens[row] == MASK) {
                let of = |&head: &u32| f64::from(mass[(layer * rows + row) * heads + head as usize]);
                scores[layer * length + 2 * row] = heads_of.iter().map(of).sum::<f64>() / heads_of.len() as f64;
            }
        }
        Ok(scores)
    };
    let its = lab.clone();
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(move || Ok(wide(&its.read(&scores)?))),
        exact: Box::new(exact),
        tolerance: 1e-6,
        scale: Scale::Largest,
        bytes: (2 * rows * heads * 4 + 2 * length * 4) as f64,
        operations: (2 * rows * heads) as f64,
    })
}

/// The best of some candidates by the mean of two sources, with noise.
pub(super) fn rank(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let (count, take) = (size.of([1, 37, 700], 320), size.of([1, 5, 64], 64));
    let temperature = 0.5;
    // Rounded, so that there are ties; and one is no number.
    let mut scores: Vec<f32> = noise(1, 2 * count).iter().map(|x| (x * 8.0).round()).collect();
    if count > 1 {
        scores[count / 2] = f32::NAN;
    }
    let candidate = |i: usize| Candidate {
        position: to_u32(i),
        row: to_u32(100 + i),
        guide: ABSENT,
        set: to_u32(i),
        draw: 1000 + i as u64,
        noise: f64::from(u8::from(i.is_multiple_of(5))),
    };
    let candidates: Vec<Candidate> = (0..count).map(candidate).collect();
    let task = RankTask {
        temperature,
        tokens: to_u32(count),
        sources: 2,
        count: to_u32(count),
        take: to_u32(take),
        guide_slots: ABSENT,
        ..RankTask::default()
    };
    let requests: Vec<u32> = (0..to_u32(take)).collect();
    let operands = (
        lab.buffer(&[task])?,
        lab.buffer(&candidates)?,
        lab.buffer(&scores)?,
        lab.buffer(&[ReadState::default()])?,
        lab.buffer(&requests)?,
    );
    let output =
        Rc::new((lab.zeros::<u32>(take)?, lab.zeros::<u64>(take)?, lab.zeros::<u32>(take)?, lab.zeros::<f64>(take)?));
    let sets = Rc::new(lab.zeros::<u32>(take)?);
    let (its, target, its_sets) = (lab.clone(), output.clone(), sets.clone());
    let launch = move || {
        let (tasks, candidates, scores, reads, requests) = &operands;
        let call = Ranking {
            tasks: tasks.all(),
            candidates: candidates.all(),
            scores: scores.all(),
            reads: reads.all(),
            requests: requests.all(),
            rows: target.0.all(),
            draws: target.1.all(),
            sets: its_sets.all(),
            chosen: target.2.all(),
            values: target.3.all(),
            most_candidates: count,
        };
        // SAFETY: the task names all candidates and scores, and as many slots and requests as it takes.
        unsafe { its.kernels.rank(call) }
    };
    let exact = move || {
        let value = |i: usize| {
            let mean = (f64::from(scores[i]) + f64::from(scores[count + i])) / 2.0;
            let value = mean / temperature + candidates[i].noise;
            if value.is_nan() { f64::NEG_INFINITY } else { value }
        };
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|&a, &b| value(b).total_cmp(&value(a)));
        order.truncate(take);
        let rows = order.iter().map(|i| (100 + i) as f64);
        let draws = order.iter().map(|i| (1000 + i) as f64);
        let numbers = || order.iter().map(|&i| i as f64);
        let all = rows.chain(draws).chain(numbers()).chain(numbers());
        Ok(all.chain(order.iter().map(|&i| value(i))).collect())
    };
    let its = lab.clone();
    let found = move || {
        let rows = its.read(&output.0)?.into_iter().map(f64::from);
        let draws = its.read(&output.1)?.into_iter().map(|draw| draw as f64);
        let chosen = its.read(&output.2)?.into_iter().chain(its.read(&sets)?).map(f64::from);
        Ok(rows.chain(draws).chain(chosen).chain(its.read(&output.3)?).collect())
    };
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(found),
        exact: Box::new(exact),
        tolerance: 1e-12,
        scale: Scale::Each,
        bytes: (2 * count * 4 + count * 32) as f64,
        operations: (count * count) as f64,
    })
}
