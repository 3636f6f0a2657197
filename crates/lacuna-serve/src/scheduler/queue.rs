//! The way to the thread that decodes, and what it lets in.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
const BROKEN_AFTER: usize = 3;

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

/// The way to the thread that decodes.
pub(crate) struct Scheduler {
    shared: Arc<Shared>,
}

/// State shared by the thread and those who submit to it.
pub(super) struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    pub(super) limits: Limits,
    pub(super) metrics: Arc<Metrics>,
    /// Failing steps in a row.
    pub(super) failures: AtomicUsize,
}

/// Runs that the thread has not fetched yet, and how it stands with those that it has.
pub(super) struct Queue {
    pub(super) new: Vec<Job>,
    /// Questions that wait to be answered between two steps.
    pub(super) questions: VecDeque<Question>,
    /// The number of runs that the thread holds.
    pub(super) held: usize,
    /// Tokens that they have yet to decide.
    pub(super) open_tokens: usize,
    /// Tokens that it decides in a second; 0 if that is not known.
    pub(super) tokens_per_second: f64,
    pub(super) open: bool,
}

impl Scheduler {
    /// Starts the thread.
    pub(crate) fn start(model: Box<dyn Model>, limits: Limits, metrics: Arc<Metrics>) -> std::io::Result<Self> {
        let queue = Queue {
            new: Vec::new(),
            questions: VecDeque::new(),
            held: 0,
            open_tokens: 0,
            tokens_per_second: 0.0,
            open: true,
        };
        let (queue, wake, failures) = (Mutex::new(queue), Condvar::new(), AtomicUsize::new(0));
        let shared = Arc::new(Shared { queue, wake, limits, metrics, failures });
        let worker = Worker::new(model, shared.clone());
        std::thread::Builder::new().name("scheduler".into()).spawn(move || worker.work())?;
        Ok(Self { shared })
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
        let excess = (queue.new.len() + queue.held + jobs.len()).saturating_sub(self.shared.limits.capacity());
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

    /// True as long as the model answers.
    pub(crate) fn is_sound(&self) -> bool {
        self.shared.failures.load(Ordering::Relaxed) < BROKEN_AFTER && self.shared.lock().open
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.shared.lock().open = false;
        self.shared.wake.notify_one();
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something has come, or nothing will.
    pub(super) fn wait<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Forgets runs that nobody waits for any more.
    pub(super) fn drop_the_gone(&mut self, metrics: &Metrics) {
        let before = self.new.len();
        self.new.retain(|job| !job.is_gone());
        metrics.cancelled.add(before - self.new.len());
    }

    /// The seconds until so many runs are done, at the measured speed.
    fn seconds_until_free(&self, runs: usize) -> u64 {
        let tokens = self.open_tokens as f64 / self.held.max(1) as f64 * runs as f64;
        (tokens / self.tokens_per_second.max(f64::MIN_POSITIVE)).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_refused_is_told_how_long_the_work_takes() {
        let (new, questions) = (Vec::new(), VecDeque::new());
        let mut queue = Queue { new, questions, held: 10, open_tokens: 1000, tokens_per_second: 50.0, open: true };
        assert_eq!(queue.seconds_until_free(1), 2);
        assert_eq!(queue.seconds_until_free(5), 10);
        queue.tokens_per_second = 10_000.0;
        assert_eq!(queue.seconds_until_free(1), 1);
    }
}
