//! Extras of a watched run: the model's belief at every open slot, taken from the step's own forward pass.

use std::time::{Duration, Instant};

use lacuna::{
    Belief, Compute, Draw, Guide, Observation, Predictor, Result, Row, Run, Sampling, Target, Token, TokenRule,
    TokenSet, View, Wrapper,
};
use lacuna_models::Plan;

/// Extras that a run sends with every step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watch {
    /// Dependency scores, also if the order does not need them.
    pub(crate) attention: bool,
    /// The belief at every open slot.
    pub(crate) beliefs: bool,
    /// The order's score of every candidate.
    pub(crate) scores: bool,
}

/// The belief at an open slot before a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slot {
    pub(crate) position: usize,
    /// The most probable token.
    pub(crate) token: Token,
    /// Its probability.
    pub(crate) first: f64,
    /// The probability of the second.
    pub(crate) second: f64,
    /// In nats.
    pub(crate) entropy: f64,
}

/// A canvas whose slots are to be read in the next forward pass.
struct Watched {
    tokens: Vec<Token>,
    /// Its open slots, with the tokens that may stand there.
    open: Vec<(usize, TokenSet)>,
    sampling: Sampling,
    guidance: f32,
}

/// A model that also reads all slots of the watched canvases. The step it is used for does not notice.
pub(crate) struct Watcher<'a> {
    model: &'a mut dyn Predictor,
    watched: Vec<Watched>,
    seen: Vec<Vec<Slot>>,
    /// The time that reading the slots took.
    pub(crate) spent: Duration,
}

impl<'a> Watcher<'a> {
    pub(crate) fn new(model: &'a mut dyn Predictor) -> Self {
        Self { model, watched: Vec::new(), seen: Vec::new(), spent: Duration::ZERO }
    }

    /// Watches a run as it stands.
    pub(crate) fn add(&mut self, run: &Run, plan: &Plan) {
        let tokens = run.canvas().tokens().to_vec();
        self.watched.push(Watched {
            tokens,
            open: run.canvas().masked().map(|position| (position, run.allowed(position).clone())).collect(),
            sampling: greedy(&plan.options.sampling),
            guidance: plan.options.guidance,
        });
    }

    /// The slots of each run, in the order in which they were added.
    pub(crate) fn seen(self) -> Vec<Vec<Slot>> {
        self.seen
    }

    fn read(&mut self, views: &[View<'_>]) -> Result<()> {
        let Self { model, watched, seen, .. } = self;
        let description = model.description().clone();
        seen.clear();
        for Watched { tokens, open, sampling, guidance } in watched {
            let Some(view) = views.iter().position(|view| view.tokens == *tokens) else {
                seen.push(Vec::new());
                continue;
            };
            let computed = |position: &usize| match views[view].compute {
                Compute::All | Compute::AllAndCache | Compute::Refresh(_) => true,
                Compute::Only(positions) => positions.binary_search(&description.row_of(*position)).is_ok(),
            };
            let open = open.iter().filter(|(position, _)| computed(position));
            let guide = (*guidance > 0.0).then_some(Guide { view: view + 1, scale: *guidance });
            let row = |position, allowed| Row {
                guide,
                ..Row::new(view, Target::Position(position), sampling, allowed, Draw::new(0, 0, position))
            };
            let rows: Vec<Row<'_>> = open.map(|(position, allowed)| row(*position, allowed)).collect();
            let beliefs = model.read(&rows)?;
            let slot = |(row, Belief { token, first, second, entropy, .. }): (&Row<'_>, Belief)| Slot {
                position: row.target.position(),
                token,
                first,
                second,
                entropy,
            };
            seen.push(rows.iter().zip(beliefs).map(slot).collect());
        }
        Ok(())
    }
}

/// The same way to look at logits, but the most probable token is always chosen.
fn greedy(sampling: &Sampling) -> Sampling {
    let mut sampling = sampling.clone();
    sampling.rule = match sampling.rule {
        TokenRule::Gumbel { .. } => TokenRule::Greedy,
        rule => rule,
    };
    sampling
}

impl Wrapper for Watcher<'_> {
    fn inner(&self) -> &dyn Predictor {
        self.model
    }

    fn inner_mut(&mut self) -> &mut dyn Predictor {
        self.model
    }

    fn observe(&mut self, views: &[View<'_>]) -> Result<Vec<Observation>> {
        let observed = self.model.observe(views)?;
        if !self.watched.is_empty() {
            let begun = Instant::now();
            self.read(views)?;
            self.spent += begun.elapsed();
        }
        Ok(observed)
    }
}
