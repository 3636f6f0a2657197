//! One thread owns the model and steps all runs together, whatever their age, length and strategy.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lacuna::{Canvas, Delta, Description, Observation, Run, Token};
use lacuna_models::{Model, Plan};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::Limits;
use crate::metrics::Metrics;
use crate::watch::{Slot, Watch, Watcher};

/// How many steps a client may lag behind before its runs wait for it.
const LAG: usize = 64;
/// A client that has read nothing for this long is taken for gone.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait before looking again whether a lagging client has read.
const GLANCE: Duration = Duration::from_millis(2);
/// After this many failing steps in a row, it is the model that is broken, not a request.
const BROKEN: usize = 3;

/// What is to be decoded. A run is made from it, and made again after a failure.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) plan: Plan,
    pub(crate) start: Start,
    /// What of the forward passes is to be sent.
    pub(crate) watch: Watch,
}

/// What a run starts from.
#[derive(Clone, Debug)]
pub(crate) enum Start {
    Prompt(Vec<Token>),
    Gaps(Canvas),
}

impl Task {
    pub(crate) fn run(&self, model: &Description) -> lacuna::Result<Run> {
        match &self.start {
            Start::Prompt(prompt) => self.plan.answer(prompt, model),
            Start::Gaps(canvas) => self.plan.fill(canvas.clone(), model),
        }
    }
}

/// What is told of a run.
#[derive(Debug)]
pub(crate) struct Update {
    /// Which of the request's runs.
    pub(crate) index: usize,
    pub(crate) outcome: Result<Progress, Failure>,
}

/// One step of a run.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) delta: Delta,
    /// What the forward pass showed, if the run is watched.
    pub(crate) seen: Option<Observation>,
    /// The belief at every slot that was open before the step, if that is watched.
    pub(crate) slots: Vec<Slot>,
    /// How many positions from the start are decided for good.
    pub(crate) settled: usize,
    pub(crate) finished: bool,
    /// Forward passes so far.
    pub(crate) nfe: usize,
    /// Rows read so far.
    pub(crate) rows_read: usize,
    /// Time since the run was begun.
    pub(crate) seconds: f64,
    /// Time of computing: of each step the share of its positions, without what watching took.
    pub(crate) computed: f64,
}

/// Why a run cannot go on.
#[derive(Debug)]
pub(crate) enum Failure {
    Step(lacuna::Error),
    Panic,
}

/// Why a request is not taken on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Full,
    Stopped,
}

/// Something to ask the model between two steps.
pub(crate) type Question = Box<dyn FnOnce(&mut dyn Model) + Send>;

/// A request's end of its runs. Dropping it cancels them.
pub(crate) struct Ticket {
    pub(crate) updates: mpsc::Receiver<Update>,
    cancelled: Vec<Arc<AtomicBool>>,
}

impl Ticket {
    /// Gives up one of the runs.
    pub(crate) fn cancel(&self, index: usize) {
        self.cancelled[index].store(true, Ordering::Relaxed);
    }
}

/// The way to the thread that decodes.
pub(crate) struct Scheduler {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    limits: Limits,
    metrics: Arc<Metrics>,
    failures: AtomicUsize,
}

/// The requests that wait, the oldest first.
struct Queue {
    requests: VecDeque<VecDeque<Job>>,
    questions: VecDeque<Question>,
    open: bool,
}

/// A run on its way, and whoever waits for it.
struct Job {
    index: usize,
    task: Task,
    run: Run,
    updates: mpsc::Sender<Update>,
    /// Room for what the next step will tell: a run is only stepped when there is some.
    room: Option<mpsc::OwnedPermit<Update>>,
    cancelled: Arc<AtomicBool>,
    submitted: Instant,
    begun: Instant,
    /// Since when its client has not read.
    unread_since: Option<Instant>,
    /// Steps that were told already.
    told: usize,
    /// It steps alone until it has taken this many steps, because a step it shared has failed.
    alone_until: usize,
    /// Positions computed for it, and its head start.
    spent: usize,
    /// Seconds of computing that are its own.
    computed: f64,
    /// What the last step showed of its open slots.
    slots: Vec<Slot>,
    finished: bool,
}

impl Scheduler {
    /// Starts the thread.
    pub(crate) fn start(model: Box<dyn Model>, limits: Limits, metrics: Arc<Metrics>) -> std::io::Result<Self> {
        let queue = Mutex::new(Queue { requests: VecDeque::new(), questions: VecDeque::new(), open: true });
        let shared = Arc::new(Shared { queue, wake: Condvar::new(), limits, metrics, failures: AtomicUsize::new(0) });
        let worker = Worker { model, active: Vec::new(), shared: shared.clone() };
        std::thread::Builder::new().name("scheduler".into()).spawn(move || worker.work())?;
        Ok(Self { shared })
    }

    /// Puts a request's runs into the queue: all of them, or none.
    pub(crate) fn submit(&self, runs: Vec<(Task, Run)>) -> Result<Ticket, Refusal> {
        let (sender, updates) = mpsc::channel(LAG.max(2 * runs.len()));
        let now = Instant::now();
        let job = |(index, (task, run))| Job {
            index,
            task,
            run,
            updates: sender.clone(),
            room: None,
            cancelled: Arc::default(),
            submitted: now,
            begun: now,
            unread_since: None,
            told: 0,
            alone_until: 0,
            spent: 0,
            computed: 0.0,
            slots: Vec::new(),
            finished: false,
        };
        let jobs: VecDeque<Job> = runs.into_iter().enumerate().map(job).collect();
        let cancelled = jobs.iter().map(|job| job.cancelled.clone()).collect();
        let mut queue = self.shared.lock();
        if !queue.open {
            return Err(Refusal::Stopped);
        }
        queue.drop_the_gone(&self.shared.metrics);
        if queue.len() + jobs.len() > self.shared.limits.queue {
            return Err(Refusal::Full);
        }
        queue.requests.push_back(jobs);
        self.shared.metrics.waiting.set(queue.len());
        self.shared.wake.notify_one();
        Ok(Ticket { updates, cancelled })
    }

    /// Has a question answered between two steps.
    pub(crate) fn ask(&self, question: Question) -> Result<(), Refusal> {
        let mut queue = self.shared.lock();
        if !queue.open {
            return Err(Refusal::Stopped);
        }
        if queue.questions.len() >= self.shared.limits.queue {
            return Err(Refusal::Full);
        }
        queue.questions.push_back(question);
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Whether the model still answers.
    pub(crate) fn is_sound(&self) -> bool {
        self.shared.failures.load(Ordering::Relaxed) < BROKEN && self.shared.lock().open
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.shared.lock().open = false;
        self.shared.wake.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn len(&self) -> usize {
        self.requests.iter().map(VecDeque::len).sum()
    }

    fn drop_the_gone(&mut self, metrics: &Metrics) {
        let before = self.len();
        self.requests.iter_mut().for_each(|jobs| jobs.retain(|job| !job.is_gone()));
        self.requests.retain(|jobs| !jobs.is_empty());
        metrics.cancelled.add(before - self.len());
    }

    /// The oldest request's next run. A request with more of them then queues up again, so that one with many prompts does
    /// not keep the others out.
    fn next(&mut self) -> Option<Job> {
        let mut jobs = self.requests.pop_front()?;
        let job = jobs.pop_front();
        if !jobs.is_empty() {
            self.requests.push_back(jobs);
        }
        job
    }
}

impl Job {
    /// Whether nobody waits for it any more.
    fn is_gone(&self) -> bool {
        let deaf = self.unread_since.is_some_and(|since| since.elapsed() > PATIENCE);
        self.updates.is_closed() || self.cancelled.load(Ordering::Relaxed) || deaf
    }

    fn steps(&self) -> usize {
        self.run.trace().deltas.len()
    }

    /// How many positions a step of it takes.
    fn cost(&self) -> usize {
        let passes = if self.task.plan.options.guidance > 0.0 { 2 } else { 1 };
        self.run.canvas().len() * passes
    }

    /// Tells about the step just taken, unless that was told before the run was made again.
    fn tell(&mut self) {
        let (room, steps) = (self.room.take(), self.steps());
        self.finished = self.run.is_finished();
        if steps <= self.told {
            return;
        }
        self.told = steps;
        let delta = self.run.trace().deltas.last().cloned().expect("a step was taken");
        let progress = Progress {
            delta,
            seen: self.task.watch.attention.then(|| self.run.seen().clone()),
            slots: std::mem::take(&mut self.slots),
            settled: self.run.settled(),
            finished: self.finished,
            nfe: self.run.forwards(),
            rows_read: self.run.rows_read(),
            seconds: self.begun.elapsed().as_secs_f64(),
            computed: self.computed,
        };
        self.send(room, Ok(progress));
    }

    fn send(&self, room: Option<mpsc::OwnedPermit<Update>>, outcome: Result<Progress, Failure>) {
        room.expect("a run is stepped only when there is room").send(Update { index: self.index, outcome });
    }
}

/// The thread's own.
struct Worker {
    model: Box<dyn Model>,
    active: Vec<Job>,
    shared: Arc<Shared>,
}

impl Drop for Worker {
    /// Should the thread ever end by a panic, whoever waits is told, and nobody is taken on.
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.open = false;
        queue.requests.clear();
        queue.questions.clear();
    }
}

impl Worker {
    fn work(mut self) {
        while self.admit() {
            self.answer();
            match self.choose() {
                0 if self.active.is_empty() => {}
                0 => std::thread::sleep(GLANCE),
                runs => self.step(runs),
            }
        }
    }

    /// Takes in what there is room for, and waits if there is nothing to do. False if nothing will come any more.
    fn admit(&mut self) -> bool {
        let Self { model, active, shared } = &mut *self;
        let metrics = &shared.metrics;
        for job in active.extract_if(.., |job| job.is_gone()) {
            job.run.abandon(model.as_mut());
            metrics.cancelled.add(1);
        }
        let mut queue = shared.lock();
        loop {
            queue.drop_the_gone(metrics);
            // Runs that wait for their client take nobody's place.
            let mut going = active.iter().filter(|job| job.unread_since.is_none()).count();
            while going < shared.limits.batch {
                let Some(mut job) = queue.next() else { break };
                // Whoever comes later is not served before those who have waited, nor after them.
                job.spent = active.iter().map(|job| job.spent).min().unwrap_or(0);
                job.begun = Instant::now();
                metrics.queue_seconds.add((job.begun - job.submitted).as_secs_f64());
                active.push(job);
                going += 1;
            }
            metrics.waiting.set(queue.len());
            metrics.running.set(active.len());
            if !active.is_empty() || !queue.questions.is_empty() {
                return true;
            }
            if !queue.open {
                return false;
            }
            queue = shared.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Answers the oldest question, if there is one.
    fn answer(&mut self) {
        let question = self.shared.lock().questions.pop_front();
        let Some(question) = question else { return };
        if catch_unwind(AssertUnwindSafe(|| question(self.model.as_mut()))).is_err() {
            tracing::error!("a question panicked");
        }
    }

    /// Chooses the runs of the next forward pass and tells how many there are. Those that have had least of the model's time
    /// come first, so a long run cannot starve short ones, nor they it.
    fn choose(&mut self) -> usize {
        self.active.sort_by_key(|job| job.spent);
        let (mut runs, mut positions) = (0, 0);
        for job in &mut self.active {
            if runs == self.shared.limits.batch {
                break;
            }
            let alone = job.steps() < job.alone_until;
            if runs > 0 && (alone || positions + job.cost() > self.shared.limits.positions) {
                continue;
            }
            match job.updates.clone().try_reserve_owned() {
                Ok(room) => job.room = Some(room),
                Err(TrySendError::Full(_)) => {
                    job.unread_since.get_or_insert_with(Instant::now);
                    continue;
                }
                Err(TrySendError::Closed(_)) => continue,
            }
            job.unread_since = None;
            runs += 1;
            positions += job.cost();
            if alone {
                break;
            }
        }
        runs
    }

    /// Steps the chosen runs together.
    fn step(&mut self, runs: usize) {
        let Self { model, active, shared } = self;
        let metrics = &shared.metrics;
        let mut chosen: Vec<&mut Job> = active.iter_mut().filter(|job| job.room.is_some()).collect();
        let (nfe, rows) = totals(&chosen);
        let begun = Instant::now();
        let mut watcher = Watcher::new(model.as_mut());
        for job in chosen.iter().filter(|job| job.task.watch.beliefs) {
            watcher.add(&job.run, &job.task.plan);
        }
        let result = {
            let mut runs: Vec<&mut Run> = chosen.iter_mut().map(|job| &mut job.run).collect();
            catch_unwind(AssertUnwindSafe(|| lacuna::step(&mut runs, &mut watcher)))
        };
        let computing = begun.elapsed().saturating_sub(watcher.spent).as_secs_f64();
        let watching = chosen.iter_mut().filter(|job| job.task.watch.beliefs);
        watching.zip(watcher.seen()).for_each(|(job, slots)| job.slots = slots);
        let failure = match result {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Failure::Step(error)),
            Err(_) => Some(Failure::Panic),
        };
        let Some(failure) = failure else {
            shared.failures.store(0, Ordering::Relaxed);
            let (nfe_now, rows_now) = totals(&chosen);
            metrics.nfe.add(nfe_now - nfe);
            metrics.rows_read.add(rows_now - rows);
            metrics.forwards.add(1);
            metrics.steps.add(runs);
            metrics.batch_runs.add(runs as f64);
            let positions = chosen.iter().map(|job| job.cost()).sum::<usize>() as f64;
            metrics.batch_positions.add(positions);
            metrics.step_seconds.add(begun.elapsed().as_secs_f64());
            for job in chosen {
                metrics.committed.add(job.run.trace().deltas.last().map_or(0, |delta| delta.committed.len()));
                job.spent += job.cost();
                job.computed += computing * job.cost() as f64 / positions;
                job.tell();
            }
            active.retain(|job| !job.finished);
            return;
        };
        match chosen.as_mut_slice() {
            [job] => {
                tracing::error!(steps = job.steps(), ?failure, "a run failed");
                // A request can make the model's numbers overflow; that says nothing about the model.
                if !matches!(failure, Failure::Step(lacuna::Error::NotFinite { .. })) {
                    shared.failures.fetch_add(1, Ordering::Relaxed);
                }
                metrics.failed.add(1);
                let room = job.room.take();
                job.send(room, Err(failure));
                job.finished = true;
            }
            // Whose fault it is nobody knows, nor how far each run got. So all are made again and step alone until they are
            // past this step; they come to the same tokens, and what was told is not told again.
            _ => chosen.into_iter().for_each(|job| job.begin_again(model.as_mut())),
        }
        for job in active.extract_if(.., |job| job.finished) {
            job.run.abandon(model.as_mut());
        }
    }
}

impl Job {
    fn begin_again(&mut self, model: &mut dyn Model) {
        let room = self.room.take();
        self.alone_until = self.told + 1;
        match self.task.run(model.description()) {
            Ok(run) => std::mem::replace(&mut self.run, run).abandon(model),
            Err(error) => {
                self.send(room, Err(Failure::Step(error)));
                self.finished = true;
            }
        }
    }
}

/// Forward passes and rows of all these runs.
fn totals(jobs: &[&mut Job]) -> (usize, usize) {
    jobs.iter().fold((0, 0), |(nfe, rows), job| (nfe + job.run.forwards(), rows + job.run.rows_read()))
}
