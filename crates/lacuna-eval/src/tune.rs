//! Calibration: which layers, sets of layers and heads suit a model and its tasks best.
//!
//! It looks only at the part of the problems that is set aside for it ([`Part::Tune`]); measure with [`Part::Test`] what it
//! finds. Candidates get more complex from stage to stage, and a more complex one must be strictly better to be chosen.

use std::collections::HashSet;

use lacuna::Replica;
use serde::{Deserialize, Serialize};

use crate::run::{Entry, Evaluation, Part, Progress, TextCodec, Trial, evaluate};
use crate::statistics::wilson;
use crate::{Error, Result};

/// Number of best layers that are also tried combined.
const COMBINED: usize = 4;

/// Result of a calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Preset {
    /// The model.
    pub model: String,
    /// The tasks.
    pub tasks: Vec<String>,
    /// The strategy.
    pub strategy: String,
    /// The layers whose attention is averaged.
    pub layer: Vec<usize>,
    /// The heads that are averaged in each layer; all if empty.
    #[serde(default)]
    pub heads: Vec<usize>,
    /// Problems that it was measured on.
    pub n: usize,
    /// Number of right answers.
    pub correct: usize,
    /// The 95% interval of their share.
    pub interval: [f64; 2],
    /// Forward passes for a problem.
    pub nfe: f64,
    /// Every candidate, in the order it was tried.
    pub candidates: Vec<Candidate>,
}

/// A choice of layers and heads and how it did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The layers.
    pub layer: Vec<usize>,
    /// The heads; all if empty.
    pub heads: Vec<usize>,
    /// Problems.
    pub n: usize,
    /// Number of right answers.
    pub correct: usize,
    /// Forward passes for a problem.
    pub nfe: f64,
}

/// Finds the best layers, sets of layers and heads for the trials of `evaluation`, one for each task, whose strategy must
/// look at attention. Every stage has its folder in the evaluation's, so a stopped calibration resumes.
pub fn tune(
    evaluation: &Evaluation,
    replicas: &mut [Replica<'_>],
    codec: &dyn TextCodec,
    watch: &mut (dyn FnMut(&str, &Progress<'_>) + Send),
) -> Result<Preset> {
    let (Some(first), Some(replica)) = (evaluation.trials.first(), replicas.first()) else {
        return Err(Error::Request("there is nothing to tune for: name a task".into()));
    };
    let (layers, heads) = (replica.description().layers, replica.description().heads);
    if let Some(trial) = evaluation.trials.iter().find(|trial| !trial.uses_attention()) {
        return Err(Error::Request(format!(
            "{} does not use attention, so it has no layers to tune: use dos",
            trial.strategy
        )));
    }
    let mut stage = |name: &str, choices: Vec<(Vec<usize>, Vec<usize>)>| -> Result<Vec<Candidate>> {
        let trials: Vec<Trial> = choices
            .iter()
            .flat_map(|(layers, heads)| evaluation.trials.iter().map(move |trial| with(trial, layers, heads)))
            .collect::<Result<_>>()?;
        let stage = Evaluation {
            out: evaluation.out.join(name),
            data: evaluation.data.clone(),
            model: evaluation.model.clone(),
            trials,
            part: Part::Tune,
            options: evaluation.options.clone(),
            general: evaluation.general.clone(),
            ..*evaluation
        };
        let entries = evaluate(&stage, replicas, codec, &mut |progress| watch(name, progress))?;
        Ok(choices
            .into_iter()
            .zip(entries.chunks(evaluation.trials.len()))
            .map(|((layer, heads), entries)| candidate(layer, heads, entries))
            .collect())
    };

    let mut candidates = stage("1-layers", (0..layers).map(|layer| (vec![layer], Vec::new())).collect())?;
    let ranked = ranking(&candidates);
    let mut best = ranked[0].clone();

    let sets = sets(&ranked.iter().map(|candidate| candidate.layer[0]).collect::<Vec<_>>(), layers);
    if !sets.is_empty() {
        let tried = stage("2-layer-sets", sets.into_iter().map(|set| (set, Vec::new())).collect())?;
        best = better(best, &tried);
        candidates.extend(tried);
    }
    if heads > 1 {
        let tried = stage("3-heads", (0..heads).map(|head| (best.layer.clone(), vec![head])).collect())?;
        let order: Vec<usize> = ranking(&tried).iter().map(|candidate| candidate.heads[0]).collect();
        best = better(best, &tried);
        let layer = best.layer.clone();
        candidates.extend(tried);
        let half: Vec<usize> = sorted(&order[..heads.div_ceil(2)]);
        let without_worst: Vec<usize> = sorted(&order[..heads - 1]);
        let mut choices = vec![(layer.clone(), half)];
        if choices[0].1 != without_worst {
            choices.push((layer, without_worst));
        }
        let tried = stage("4-head-sets", choices)?;
        best = better(best, &tried);
        candidates.extend(tried);
    }
    Ok(Preset {
        model: evaluation.model.name.clone(),
        tasks: evaluation.trials.iter().map(|trial| trial.task.clone()).collect(),
        strategy: first.strategy.clone(),
        interval: wilson(best.correct, best.n),
        layer: best.layer,
        heads: best.heads,
        n: best.n,
        correct: best.correct,
        nfe: best.nfe,
        candidates,
    })
}

fn with(trial: &Trial, layers: &[usize], heads: &[usize]) -> Result<Trial> {
    let mut settings = trial.settings.clone().with("layer", layers)?;
    settings.unset("heads");
    if !heads.is_empty() {
        settings = settings.with("heads", heads)?;
    }
    Ok(Trial { settings, ..trial.clone() })
}

fn candidate(layer: Vec<usize>, heads: Vec<usize>, entries: &[Entry]) -> Candidate {
    let n: usize = entries.iter().map(|entry| entry.n).sum();
    let forwards: f64 = entries.iter().map(|entry| entry.nfe * entry.n as f64).sum();
    Candidate {
        layer,
        heads,
        n,
        correct: entries.iter().map(|entry| entry.correct).sum(),
        nfe: forwards / n.max(1) as f64,
    }
}

/// The best first: more right answers, then fewer forward passes; of equals the one that was tried first.
fn ranking(candidates: &[Candidate]) -> Vec<Candidate> {
    let mut ranked = candidates.to_vec();
    ranked.sort_by(|a, b| b.correct.cmp(&a.correct).then(a.nfe.total_cmp(&b.nfe)));
    ranked
}

/// The best of those tried if it gets strictly more right, else what we have.
fn better(best: Candidate, tried: &[Candidate]) -> Candidate {
    match ranking(tried).into_iter().next() {
        Some(found) if found.correct > best.correct => found,
        _ => best,
    }
}

/// Sets worth trying: the best layer with each of the next, the best few together, and the lower half of the model.
fn sets(ranked: &[usize], layers: usize) -> Vec<Vec<usize>> {
    let few = &ranked[..COMBINED.min(ranked.len())];
    let mut sets: Vec<Vec<usize>> = few.iter().skip(1).map(|other| sorted(&[few[0], *other])).collect();
    sets.extend((3..=few.len()).map(|count| sorted(&few[..count])));
    sets.push((0..layers.div_ceil(2)).collect());
    let mut seen = HashSet::new();
    sets.retain(|set| set.len() > 1 && seen.insert(set.clone()));
    sets
}

fn sorted(numbers: &[usize]) -> Vec<usize> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_start_from_the_best_layers() {
        let sets = sets(&[5, 2, 7, 0, 1], 8);
        assert_eq!(sets, [vec![2, 5], vec![5, 7], vec![0, 5], vec![2, 5, 7], vec![0, 2, 5, 7], vec![0, 1, 2, 3]]);
        assert_eq!(super::sets(&[0, 1, 2], 3), [vec![0, 1], vec![0, 2], vec![0, 1, 2]]);
        assert!(super::sets(&[0], 1).is_empty());
    }

    #[test]
    fn a_more_complex_choice_must_be_strictly_better() {
        let candidate =
            |layer: &[usize], correct, nfe| Candidate { layer: layer.to_vec(), heads: vec![], n: 10, correct, nfe };
        let best = candidate(&[1], 7, 20.0);
        assert_eq!(better(best.clone(), &[candidate(&[1, 2], 7, 5.0)]).layer, [1]);
        assert_eq!(better(best, &[candidate(&[1, 2], 8, 50.0), candidate(&[1, 3], 8, 40.0)]).layer, [1, 3]);
    }
}
