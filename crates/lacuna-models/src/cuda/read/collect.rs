//! Beliefs from what has come back from the GPU.

use lacuna::{Belief, Error, Result, Row, Token};

use super::super::kernel::{ReadState, Summary};
use super::super::staging::{Fetched, Landing};
use super::history::LogitHistory;
use super::rank::RankedRead;
use super::request::RowRequest;

/// Beliefs on their way to the host.
pub(crate) struct Pending<'a> {
    pub(super) requests: Vec<RowRequest<'a>>,
    pub(super) reads: Vec<RankedRead<'a>>,
    /// For each request that is compared with its history, the logarithm of the sum of exponentials of that.
    pub(super) compared: Vec<Option<f64>>,
    pub(super) outcomes: Fetched<Summary>,
    /// The candidate that was chosen for each request of a read that scores decide.
    pub(super) chosen: Fetched<u32>,
    /// States of the reads: how far each got.
    pub(super) states: Fetched<ReadState>,
}

impl<'a> Pending<'a> {
    /// The requests that were read, and their beliefs, now that everything is here.
    pub(super) fn collect(
        self,
        landing: &Landing,
        history: &mut LogitHistory,
    ) -> impl Iterator<Item = (RowRequest<'a>, Result<Belief>)> {
        let Self { mut requests, reads, compared, outcomes, chosen, states } = self;
        let mut is_read = vec![true; requests.len()];
        let chosen = landing.get(&chosen);
        for (read, state) in reads.iter().zip(landing.get(&states)) {
            let (known, unread) = read.requests.split_at(read.end(state.rounds));
            unread.iter().for_each(|&request| is_read[request as usize] = false);
            for &request in known.iter().filter(|_| read.scores.is_some()) {
                requests[request as usize] = read.candidates[chosen[request as usize] as usize];
            }
        }
        let outcomes = landing.get(&outcomes);
        let all = requests.into_iter().zip(outcomes).zip(compared).zip(is_read).filter(|(_, is_read)| *is_read);
        all.map(|(((request, outcome), before), _)| {
            let Row { target, scored_token, .. } = request.asked;
            if let Some(key) = request.history {
                history.replaced(key, log_total(outcome));
            }
            (request, belief_of(outcome, target.position(), scored_token.is_some(), before))
        })
    }
}

/// The belief that a row's summary holds; as [`lacuna::Row::belief`] to about a millionth.
///
/// `before` is the logarithm of the sum of exponentials that the row is compared with, if any.
fn belief_of(found: &Summary, position: usize, scored: bool, before: Option<f64>) -> Result<Belief> {
    let log_total = log_total(found);
    if !log_total.is_finite() {
        return Err(Error::NotFinite { position });
    }
    let &Summary { total, weighted, divergence, .. } = found;
    let probability = |logit: f32| (f64::from(logit) - log_total).exp();
    Ok(Belief {
        token: found.drawn as Token,
        probability: probability(found.drawn_logit),
        first: probability(found.first),
        second: probability(found.second),
        entropy: (total.ln() - weighted / total).max(0.0),
        // KLASS's code adds 1e-12 to both probabilities. So do the kernels, to the one before; what it makes of the one now is
        // at most as much for each token.
        divergence: before.map(|before| divergence / total + before - log_total),
        scored: scored.then(|| probability(found.scored)),
        vote: None,
        alternatives: Vec::new(),
    })
}

/// The logarithm of the sum of all exponentials.
fn log_total(found: &Summary) -> f64 {
    f64::from(found.first) + found.total.ln()
}
