//! A thread that owns a replica of the model.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lacuna::Run;
use lacuna_models::Model;

use super::job::{Failure, Job};
use super::queue::Shared;
use super::share::Share;
use crate::metrics::Metrics;
use crate::watch::Watcher;

/// The pause before looking again whether a lagging client has read.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// The weight that older measurements of the decoding speed keep at each step.
const SPEED_DECAY: f64 = 0.95;

/// The thread's own.
pub(super) struct Worker {
    /// Its number among the threads.
    number: usize,
    model: Box<dyn Model>,
    active: Vec<Job>,
    share: Share,
    /// Tokens decided and seconds taken, the latest counting most.
    speed: (f64, f64),
    shared: Arc<Shared>,
}

/// The figures of a step.
struct Outcome {
    positions: usize,
    runs: usize,
    seconds: f64,
    nfe: usize,
    rows: usize,
    committed: usize,
}

impl Outcome {
    fn count(&self, metrics: &Metrics) {
        metrics.forwards.add(1);
        metrics.steps.add(self.runs);
        metrics.nfe.add(self.nfe);
        metrics.rows_read.add(self.rows);
        metrics.committed.add(self.committed);
        metrics.batch_runs.add(self.runs as f64);
        metrics.batch_positions.add(self.positions as f64);
        metrics.step_seconds.add(self.seconds);
    }
}

impl Drop for Worker {
    /// If the thread ends by a panic, waiting clients get an error and the queue closes.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut queue = self.shared.lock();
            queue.open = false;
            queue.new.clear();
            queue.questions.clear();
            self.shared.wake();
        }
    }
}

impl Worker {
    pub(super) fn new(number: usize, model: Box<dyn Model>, shared: Arc<Shared>) -> Self {
        Self { number, model, active: Vec::new(), share: Share::default(), speed: (0.0, 0.0), shared }
    }

    pub(super) fn work(mut self) {
        while self.admit() {
            self.answer();
            if self.active.is_empty() {
                continue;
            }
            if self.choose() {
                self.step();
            } else {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }

    /// Admits queued runs, and waits if there are none. False once the queue is closed.
    fn admit(&mut self) -> bool {
        let Self { number, model, active, shared, speed, .. } = &mut *self;
        let (number, metrics) = (*number, &shared.metrics);
        for job in active.extract_if(.., |job| job.is_gone()) {
            job.run.abandon(model.as_mut());
            metrics.cancelled.add(1);
        }
        let mut queue = shared.lock();
        loop {
            queue.drop_the_gone(metrics);
            active.extend(queue.take(number, active.len()));
            let standing = &mut queue.threads[number];
            standing.held = active.len();
            standing.running = 0;
            standing.open_tokens = active.iter().map(|job| job.run.canvas().masked().count()).sum();
            standing.tokens_per_second = if speed.1 > 0.0 { speed.0 / speed.1 } else { 0.0 };
            if !active.is_empty() || !queue.questions.is_empty() {
                return true;
            }
            queue.show(metrics);
            if !queue.open {
                return false;
            }
            queue = shared.wait(queue);
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

    /// Chooses the runs of the next forward pass. Others that have not begun go back to the queue, where a replica with room finds
    /// them. True if any are chosen.
    fn choose(&mut self) -> bool {
        let numbered = self.active.iter_mut().enumerate();
        let candidates: Vec<_> = numbered.filter_map(|(number, job)| Some((number, job.candidate()?))).collect();
        let runs: Vec<_> = candidates.iter().map(|(_, candidate)| *candidate).collect();
        let chosen: Vec<usize> =
            self.share.choose(&runs, &self.shared.limits).into_iter().map(|run| candidates[run].0).collect();
        let left_out = self.active.iter_mut().enumerate().filter(|(number, _)| !chosen.contains(number));
        left_out.for_each(|(_, job)| job.pass());
        let mut queue = self.shared.lock();
        queue.take_back(self.active.extract_if(.., |job| !job.is_begun() && !job.is_chosen()));
        let standing = &mut queue.threads[self.number];
        (standing.held, standing.running) = (self.active.len(), chosen.len());
        queue.show(&self.shared.metrics);
        if !queue.new.is_empty() {
            self.shared.wake();
        }
        !chosen.is_empty()
    }

    /// Steps the chosen runs together.
    fn step(&mut self) {
        let Self { number, model, active, share, speed, shared } = self;
        let mut jobs: Vec<&mut Job> = active.iter_mut().filter(|job| job.is_chosen()).collect();
        for waited in jobs.iter_mut().filter_map(|job| job.begin_step()) {
            shared.metrics.queue_seconds.add(waited.as_secs_f64());
        }
        let costs: Vec<usize> = jobs.iter().map(|job| job.cost()).collect();
        let positions: usize = costs.iter().sum();
        let (nfe, rows) = totals(&jobs);
        let begins: Vec<bool> = jobs.iter().map(|job| job.run.forwards() == 0).collect();
        let begun = Instant::now();
        let mut watcher = Watcher::new(model.as_mut());
        for (job, task) in jobs.iter().filter_map(|job| Some((job, job.watched()?))) {
            watcher.add(&job.run, &task.plan);
        }
        let result = {
            let mut runs: Vec<&mut Run> = jobs.iter_mut().map(|job| &mut job.run).collect();
            catch_unwind(AssertUnwindSafe(|| lacuna::step(&mut runs, &mut watcher)))
        };
        let seconds = begun.elapsed().as_secs_f64();
        let computing = begun.elapsed().saturating_sub(watcher.spent).as_secs_f64();
        let watching = jobs.iter_mut().filter(|job| job.watched().is_some());
        watching.zip(watcher.seen()).for_each(|(job, slots)| job.slots = slots);
        let failure = match result {
            Ok(Ok(())) => {
                let (nfe_now, rows_now) = totals(&jobs);
                let last = |job: &&mut Job| job.run.trace().deltas.last().map_or(0, |delta| delta.committed.len());
                let committed = jobs.iter().map(last).sum();
                let (nfe, rows) = (nfe_now - nfe, rows_now - rows);
                let outcome = Outcome { positions, runs: jobs.len(), seconds, nfe, rows, committed };
                let begun = jobs.iter().zip(begins).filter(|(_, begins)| *begins);
                shared.metrics.reused.add(begun.map(|(job, _)| job.run.reused()).sum());
                {
                    let standing = &mut shared.lock().threads[*number];
                    (standing.prompt_bytes, standing.failures) = (model.prompt_bytes(), 0);
                }
                share.record(positions, seconds);
                *speed = (speed.0 * SPEED_DECAY + committed as f64, speed.1 * SPEED_DECAY + seconds);
                // Counted before it is told: a client that has its answer finds it in the metrics.
                outcome.count(&shared.metrics);
                for (job, cost) in jobs.into_iter().zip(costs) {
                    job.computed += computing * cost as f64 / positions as f64;
                    job.report();
                }
                active.retain(|job| !job.finished);
                return;
            }
            Ok(Err(error)) => Failure::Step(error),
            Err(_) => Failure::Panic,
        };
        match jobs.as_mut_slice() {
            [job] => {
                tracing::error!(request_id = &*job.request, steps = job.steps(), ?failure, "a run failed");
                // A request can make the model's numbers overflow; that says nothing about the model.
                if !matches!(failure, Failure::Step(lacuna::Error::NotFinite { .. })) {
                    shared.lock().threads[*number].failures += 1;
                }
                shared.metrics.failed.add(1);
                job.fail(failure);
            }
            // Whose fault it is nobody knows, nor how far each run got. So all are made again and step alone until they are
            // past this step; they come to the same tokens, and what was told is not told again.
            _ => jobs.into_iter().for_each(|job| job.begin_again(model.as_mut())),
        }
        for job in active.extract_if(.., |job| job.finished) {
            job.run.abandon(model.as_mut());
        }
    }
}

/// Forward passes and rows of all these runs.
fn totals(jobs: &[&mut Job]) -> (usize, usize) {
    jobs.iter().fold((0, 0), |(nfe, rows), job| (nfe + job.run.forwards(), rows + job.run.rows_read()))
}
