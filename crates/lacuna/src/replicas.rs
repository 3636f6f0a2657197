//! Many runs on one or several replicas of a model.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Description, Error, Predictor, Run, step};

/// One of several predictors that hold the same model.
pub type Replica<'a> = &'a mut (dyn Predictor + Send);

/// The use of runs that [`decode_all`] decodes. Replicas call it one at a time.
pub trait Work: Send {
    /// Anything that a run is made from.
    type Question: Send;
    /// A run and what belongs to it.
    type Job: AsMut<Run> + Send;
    /// The reason for stopping.
    type Error: From<Error> + Send;

    /// Makes a run.
    fn begin(&mut self, question: Self::Question, model: &Description) -> Result<Self::Job, Self::Error>;

    /// Sees all runs of a replica after a step that they have shared.
    fn stepped(&mut self, jobs: &mut [Self::Job], took: Duration) -> Result<(), Self::Error>;

    /// Takes those that the step has finished.
    fn finished(&mut self, jobs: Vec<Self::Job>) -> Result<(), Self::Error>;
}

/// Decodes all `questions`. Each replica steps up to `batch` runs together and takes the next question from one queue when a run is
/// finished; no replica takes more than its share of what is left. The first error stops all of them.
///
/// The answers do not depend on the number of replicas, since a run's steps do not depend on what shares them.
pub fn decode_all<W: Work>(
    replicas: &mut [Replica<'_>],
    batch: usize,
    questions: impl IntoIterator<Item = W::Question>,
    work: &mut W,
) -> Result<(), W::Error> {
    let queue = Queue { waiting: questions.into_iter().collect(), held: 0, work };
    let shared = Shared {
        replicas: replicas.len(),
        batch: batch.max(1),
        queue: Mutex::new(queue),
        stop: AtomicBool::new(false),
    };
    let Some((first, others)) = replicas.split_first_mut() else { return Ok(()) };
    thread::scope(|scope| {
        let shared = &shared;
        let threads: Vec<_> = others.iter_mut().map(|replica| scope.spawn(move || shared.drive(*replica))).collect();
        let mut outcome = shared.drive(*first);
        for thread in threads {
            let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            outcome = outcome.and(ended);
        }
        outcome
    })
}

/// State that all replicas share.
struct Shared<'a, W: Work> {
    replicas: usize,
    batch: usize,
    queue: Mutex<Queue<'a, W>>,
    stop: AtomicBool,
}

struct Queue<'a, W: Work> {
    waiting: VecDeque<W::Question>,
    /// Runs that replicas hold.
    held: usize,
    work: &'a mut W,
}

/// Stops the other replicas unless it is disarmed: by an error, and by a panic too.
struct Stop<'a>(Option<&'a AtomicBool>);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        if let Some(stop) = self.0 {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

impl<'a, W: Work> Shared<'a, W> {
    fn drive(&self, predictor: &mut dyn Predictor) -> Result<(), W::Error> {
        let mut stop = Stop(Some(&self.stop));
        let mut jobs: Vec<W::Job> = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            self.fill(&mut jobs, predictor.description())?;
            if jobs.is_empty() {
                break;
            }
            let begun = Instant::now();
            let mut runs: Vec<&mut Run> = jobs.iter_mut().map(AsMut::as_mut).collect();
            step(&mut runs, predictor)?;
            let took = begun.elapsed();
            let mut queue = self.lock();
            queue.work.stepped(&mut jobs, took)?;
            let finished: Vec<W::Job> = jobs.extract_if(.., |job| job.as_mut().is_finished()).collect();
            queue.held -= finished.len();
            if !finished.is_empty() {
                queue.work.finished(finished)?;
            }
        }
        stop.0 = None;
        Ok(())
    }

    /// Takes questions up to the share of one replica.
    fn fill(&self, jobs: &mut Vec<W::Job>, model: &Description) -> Result<(), W::Error> {
        let mut queue = self.lock();
        let share = (queue.waiting.len() + queue.held).div_ceil(self.replicas).min(self.batch);
        while jobs.len() < share
            && let Some(question) = queue.waiting.pop_front()
        {
            jobs.push(queue.work.begin(question, model)?);
            queue.held += 1;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Queue<'a, W>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
