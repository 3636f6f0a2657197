//! A run on its way, and the client that waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lacuna::{Delta, Description, Observation, Run, Token};
use lacuna_models::{Model, Plan, Template};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::share::Candidate;
use crate::watch::{Slot, Watch};

/// A client that has read nothing for this long is taken for gone.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);

/// A text to decode. A run is made from it, and made again after a failure.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) plan: Plan,
    pub(crate) start: Start,
    /// Parts of the forward passes that are to be sent.
    pub(crate) watch: Watch,
    /// True if gaps may end the text.
    pub(crate) allow_eos: bool,
}

/// The start of a run.
#[derive(Clone, Debug)]
pub(crate) enum Start {
    Prompt(Vec<Token>),
    Gaps(Template),
}

impl Task {
    pub(crate) fn run(&self, model: &Description) -> lacuna::Result<Run> {
        match &self.start {
            Start::Prompt(prompt) => self.plan.answer(prompt, model),
            Start::Gaps(template) => self.plan.fill(template, self.allow_eos, model),
        }
    }
}

/// Progress of a run, for its client.
#[derive(Debug)]
pub(crate) struct Update {
    /// Index of the run in its request.
    pub(crate) index: usize,
    pub(crate) outcome: Result<Progress, Failure>,
}

/// One step of a run.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) delta: Delta,
    /// The forward pass's observation, if the run is watched.
    pub(crate) seen: Option<Observation>,
    /// The belief at every slot that was open before the step, if that is watched.
    pub(crate) slots: Vec<Slot>,
    /// Every candidate of the step and the score by which the order ranked it, if that is watched.
    pub(crate) scores: Vec<(usize, f64)>,
    /// The number of positions from the start that are decided for good.
    pub(crate) settled: usize,
    pub(crate) finished: bool,
    /// Forward passes so far.
    pub(crate) nfe: usize,
    /// Rows read so far.
    pub(crate) rows_read: usize,
    /// Positions computed so far.
    pub(crate) rows_computed: usize,
    /// Time since the run's first step began.
    pub(crate) seconds: f64,
    /// Time of computing: of each step the share of its positions, without what watching took.
    pub(crate) computed: f64,
}

/// The reason for ending a run early.
#[derive(Debug)]
pub(crate) enum Failure {
    Step(lacuna::Error),
    Panic,
}

/// A run and the channel to its client.
pub(super) struct Job {
    pub(super) run: Run,
    index: usize,
    task: Task,
    /// The id of the request that it belongs to, for the log.
    pub(super) request: Arc<str>,
    updates: mpsc::Sender<Update>,
    /// Room for what the next step will tell: a run is only stepped when there is some.
    room: Option<mpsc::OwnedPermit<Update>>,
    cancelled: Arc<AtomicBool>,
    pub(super) submitted: Instant,
    /// Time at which its first step began.
    begun: Option<Instant>,
    /// Time at which its last step ended, or at which it was submitted.
    pub(super) last_step: Instant,
    /// Since when its client has not read.
    unread_since: Option<Instant>,
    /// Steps that were told already.
    sent: usize,
    /// It steps alone until it has taken this many steps, because a step it shared has failed.
    alone_until: usize,
    /// Positions computed for it.
    spent: usize,
    /// Seconds of computing that are its own.
    pub(super) computed: f64,
    /// Beliefs at the slots that were open before the last step, if they are watched.
    pub(super) slots: Vec<Slot>,
    pub(super) finished: bool,
}

impl Job {
    pub(super) fn new(index: usize, task: Task, run: Run, request: Arc<str>, updates: mpsc::Sender<Update>) -> Self {
        let now = Instant::now();
        Self {
            run,
            index,
            task,
            request,
            updates,
            room: None,
            cancelled: Arc::default(),
            submitted: now,
            begun: None,
            last_step: now,
            unread_since: None,
            sent: 0,
            alone_until: 0,
            spent: 0,
            computed: 0.0,
            slots: Vec::new(),
            finished: false,
        }
    }

    /// Setting it gives the run up.
    pub(super) fn cancellation(&self) -> Arc<AtomicBool> {
        self.cancelled.clone()
    }

    /// True if its client has gone.
    pub(super) fn is_gone(&self) -> bool {
        let deaf = self.unread_since.is_some_and(|since| since.elapsed() > CLIENT_TIMEOUT);
        self.updates.is_closed() || self.cancelled.load(Ordering::Relaxed) || deaf
    }

    /// The task, if the beliefs of all open slots are watched.
    pub(super) fn watched(&self) -> Option<&Task> {
        Some(&self.task).filter(|task| task.watch.beliefs)
    }

    /// The number of steps it has taken.
    pub(super) fn steps(&self) -> usize {
        self.run.trace().deltas.len()
    }

    /// The positions that a step of it takes.
    pub(super) fn cost(&self) -> usize {
        self.run.next_positions().max(1)
    }

    /// Its claim on the next step; none if its client has no room for more updates.
    pub(super) fn candidate(&mut self) -> Option<Candidate> {
        match self.updates.clone().try_reserve_owned() {
            Ok(room) => self.room = Some(room),
            Err(TrySendError::Full(_)) => {
                self.unread_since.get_or_insert_with(Instant::now);
                return None;
            }
            Err(TrySendError::Closed(_)) => return None,
        }
        self.unread_since = None;
        Some(Candidate {
            spent: self.spent,
            cost: self.cost(),
            last_step: self.last_step,
            alone: self.steps() < self.alone_until,
            begun: self.begun.is_some(),
            keeps_state: self.run.keeps_state(),
        })
    }

    /// Lets go of the room, since the step is not for this run.
    pub(super) fn pass(&mut self) {
        self.room = None;
    }

    /// True if a step of it has begun: the model may keep something for it.
    pub(super) fn is_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// True if the next step is for this run, too.
    pub(super) fn is_chosen(&self) -> bool {
        self.room.is_some()
    }

    /// Begins a step. Returns how long the run has waited, if it is its first.
    pub(super) fn begin_step(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let first = self.begun.is_none();
        let begun = *self.begun.get_or_insert(now);
        first.then(|| begun - self.submitted)
    }

    /// Tells about the step just taken, unless that was told before the run was made again.
    pub(super) fn report(&mut self) {
        let (room, steps) = (self.room.take(), self.steps());
        self.spent += self.cost();
        self.last_step = Instant::now();
        self.finished = self.run.is_finished();
        if steps <= self.sent {
            return;
        }
        self.sent = steps;
        let delta = self.run.trace().deltas.last().cloned().expect("a step was taken");
        let progress = Progress {
            delta,
            seen: self.task.watch.attention.then(|| self.run.seen().clone()),
            slots: std::mem::take(&mut self.slots),
            scores: self.scores(),
            settled: self.run.settled(),
            finished: self.finished,
            nfe: self.run.forwards(),
            rows_read: self.run.rows_read(),
            rows_computed: self.run.rows_computed(),
            seconds: self.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64()),
            computed: self.computed,
        };
        send(room, self.index, Ok(progress));
    }

    /// The last step's candidates and their scores, if they are watched.
    fn scores(&self) -> Vec<(usize, f64)> {
        let ranking = self.run.ranking().filter(|_| self.task.watch.scores);
        let pairs = ranking.into_iter().flat_map(|ranking| ranking.positions().iter().zip(ranking.scores()));
        pairs.map(|(&position, &score)| (position, score)).filter(|(_, score)| score.is_finite()).collect()
    }

    /// Ends the run with a failure.
    pub(super) fn fail(&mut self, failure: Failure) {
        let room = self.room.take();
        self.finished = true;
        send(room, self.index, Err(failure));
    }

    /// Makes the run anew after a step that it shared has failed. It steps alone until it is past that step.
    pub(super) fn begin_again(&mut self, model: &mut dyn Model) {
        self.alone_until = self.sent + 1;
        match self.task.run(model.description()) {
            Ok(run) => {
                self.room = None;
                std::mem::replace(&mut self.run, run).abandon(model);
            }
            Err(error) => self.fail(Failure::Step(error)),
        }
    }
}

fn send(room: Option<mpsc::OwnedPermit<Update>>, index: usize, outcome: Result<Progress, Failure>) {
    room.expect("a run is stepped only when there is room").send(Update { index, outcome });
}
