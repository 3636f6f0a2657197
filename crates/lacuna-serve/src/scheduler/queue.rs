//! The way to the threads that decode, and what it lets in.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use lacuna::Run;
use lacuna_models::Model;
use tokio::sync::mpsc;

use super::job::{Job, Task, Update};
use super::worker::Worker;
use crate::Limits;
use crate::metrics::Metrics;

/// Steps that a client may lag behind before its runs wait for it.
const CHANNEL_CAPACITY: usize = 64;
/// After this many failing steps in a row, it is the model that is broken, not a request.
const MAX_FAILURES: usize = 3;

/// The reason for not taking a request on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no room; there may be after so many seconds.
    Full {
        retry_after: u64,
    },
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

/// The way to the threads that decode, one for each replica of the model.
pub(crate) struct Scheduler {
    shared: Arc<Shared>,
}

/// State shared by the threads and those who submit to them.
pub(super) struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    pub(super) limits: Limits,
    pub(super) metrics: Arc<Metrics>,
}

/// Runs that no thread has begun, and how the threads stand with those that they have.
pub(super) struct Queue {
    pub(super) new: Vec<Job>,
    /// Questions that wait to be answered between two steps.
    pub(super) questions: VecDeque<Question>,
    pub(super) threads: Vec<ThreadState>,
    pub(super) open: bool,
}

/// The state of a thread.
#[derive(Clone, Copy, Default)]
pub(super) struct ThreadState {
    /// The number of runs that it holds.
    pub(super) held: usize,
    /// Those of them that share its step.
    pub(super) running: usize,
    /// Tokens that they have yet to decide.
    pub(super) open_tokens: usize,
    /// Tokens that it decides in a second; 0 if that is not known.
    pub(super) tokens_per_second: f64,
    /// Bytes that its model keeps for texts that begin alike.
    pub(super) prompt_bytes: usize,
    /// Failing steps in a row.
    pub(super) failures: usize,
}

impl Scheduler {
    /// Starts the threads.
    pub(crate) fn start(replicas: Vec<Box<dyn Model>>, limits: Limits, metrics: Arc<Metrics>) -> std::io::Result<Self> {
        let threads = vec![ThreadState::default(); replicas.len()];
        let queue = Queue { new: Vec::new(), questions: VecDeque::new(), threads, open: true };
        let shared = Arc::new(Shared { queue: Mutex::new(queue), wake: Condvar::new(), limits, metrics });
        let scheduler = Self { shared: shared.clone() };
        for (number, model) in replicas.into_iter().enumerate() {
            let worker = Worker::new(number, model, shared.clone());
            std::thread::Builder::new().name(format!("replica {number}")).spawn(move || worker.work())?;
        }
        Ok(scheduler)
    }

    /// Takes in a request's runs: all of them, or none.
    pub(crate) fn submit(&self, runs: Vec<(Task, Run)>, request: &Arc<str>) -> Result<Ticket, Refusal> {
        let (sender, updates) = mpsc::channel(CHANNEL_CAPACITY.max(2 * runs.len()));
        let job = |(index, (task, run))| Job::new(index, task, run, request.clone(), sender.clone());
        let jobs: Vec<Job> = runs.into_iter().enumerate().map(job).collect();
        let cancelled = jobs.iter().map(Job::cancellation).collect();
        let mut queue = self.shared.lock();
        if !queue.open {
            return Err(Refusal::Stopped);
        }
        queue.drop_the_gone(&self.shared.metrics);
        let capacity = self.shared.limits.capacity(queue.threads.len());
        let excess = (queue.runs() + jobs.len()).saturating_sub(capacity);
        if excess > 0 {
            let longest = self.shared.limits.timeout.as_secs().max(1);
            return Err(Refusal::Full { retry_after: queue.seconds_until_free(excess).clamp(1, longest) });
        }
        queue.new.extend(jobs);
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
            return Err(Refusal::Full { retry_after: 1 });
        }
        queue.questions.push_back(question);
        self.shared.wake.notify_one();
        Ok(())
    }

    /// True as long as every replica answers.
    pub(crate) fn is_healthy(&self) -> bool {
        let queue = self.shared.lock();
        queue.open && queue.threads.iter().all(|thread| thread.failures < MAX_FAILURES)
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.shared.lock().open = false;
        self.shared.wake.notify_all();
    }
}

impl Shared {
    /// Wakes the threads that wait.
    pub(super) fn wake(&self) {
        self.wake.notify_all();
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something has come, or nothing will.
    pub(super) fn wait<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Drops runs whose clients have gone.
    pub(super) fn drop_the_gone(&mut self, metrics: &Metrics) {
        let before = self.new.len();
        self.new.retain(|job| !job.is_gone());
        metrics.cancelled.add(before - self.new.len());
    }

    /// The number of runs, begun or not.
    fn runs(&self) -> usize {
        self.new.len() + self.sum(|thread| thread.held)
    }

    /// Runs for a thread that holds so many, up to its share of all: what it can take on.
    pub(super) fn take(&mut self, number: usize, held: usize) -> Vec<Job> {
        self.threads[number].held = held;
        let share = self.runs().div_ceil(self.threads.len());
        let count = share.saturating_sub(held).min(self.new.len());
        self.new.drain(..count).collect()
    }

    /// Takes back runs that a thread has not begun: another may have room for them sooner.
    pub(super) fn take_back(&mut self, jobs: impl IntoIterator<Item = Job>) {
        self.new.extend(jobs);
        self.new.sort_by_key(|job| job.submitted);
    }

    /// Shows how the threads stand.
    pub(super) fn show(&self, metrics: &Metrics) {
        let running = self.sum(|thread| thread.running);
        metrics.running.set(running);
        metrics.waiting.set(self.runs() - running);
        metrics.prompt_bytes.set(self.sum(|thread| thread.prompt_bytes));
    }

    fn sum(&self, number: impl Fn(&ThreadState) -> usize) -> usize {
        self.threads.iter().map(number).sum()
    }

    /// The seconds until so many runs are done, at the measured speed.
    fn seconds_until_free(&self, runs: usize) -> u64 {
        let (open, held) = (self.sum(|thread| thread.open_tokens), self.sum(|thread| thread.held));
        let speed: f64 = self.threads.iter().map(|thread| thread.tokens_per_second).sum();
        let tokens = open as f64 / held.max(1) as f64 * runs as f64;
        (tokens / speed.max(f64::MIN_POSITIVE)).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_refused_is_told_how_long_the_work_takes() {
        let thread = ThreadState { held: 10, open_tokens: 1000, tokens_per_second: 50.0, ..ThreadState::default() };
        let mut queue = Queue { new: Vec::new(), questions: VecDeque::new(), threads: vec![thread], open: true };
        assert_eq!(queue.seconds_until_free(1), 2);
        assert_eq!(queue.seconds_until_free(5), 10);
        queue.threads.push(thread);
        assert_eq!(queue.seconds_until_free(5), 5);
        queue.threads[0].tokens_per_second = 10_000.0;
        assert_eq!(queue.seconds_until_free(1), 1);
    }
}
