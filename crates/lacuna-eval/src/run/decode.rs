//! Decoding many problems, several in one forward pass.

use std::time::Duration;

use lacuna::{Canvas, Description, Options, Replica, Run, Strategy, Token, Work, decode_all};

use super::{TextCodec, Trial};
use crate::task::{Benchmark, Dependencies, Respect};
use crate::{Error, Result};

/// A problem to decode.
pub(super) struct Question {
    /// Its place among the problems.
    pub(super) problem: usize,
    pub(super) row: usize,
    pub(super) prompt: Vec<Token>,
}

/// A decoded answer.
pub(super) struct Answer {
    pub(super) problem: usize,
    pub(super) text: String,
    pub(super) nfe: usize,
    pub(super) rows_read: usize,
    pub(super) tokens: usize,
    pub(super) seconds: f64,
    pub(super) order: Vec<i32>,
    pub(super) respect: Option<Respect>,
}

struct Job {
    question: Question,
    run: Run,
    seconds: f64,
}

impl AsMut<Run> for Job {
    fn as_mut(&mut self) -> &mut Run {
        &mut self.run
    }
}

/// Builds the runs of a trial.
pub(super) struct Decoder<'a> {
    pub(super) trial: &'a Trial,
    pub(super) benchmark: &'a Benchmark,
    pub(super) options: &'a Options,
    pub(super) seed: u64,
    pub(super) codec: &'a dyn TextCodec,
}

impl Decoder<'_> {
    /// A run for this prompt. Everything that the model cannot do is refused here.
    pub(super) fn start(&self, question: &Question, model: &Description) -> Result<Run> {
        let Trial { gen_length, early_stop, .. } = *self.trial;
        let (prompt, strategy) = (&question.prompt, self.strategy(question.problem)?);
        let (length, context) = (strategy.window.canvas_length(prompt.len(), gen_length, model), model.context);
        if length > context {
            return Err(lacuna::Error::TooLong { length, context }.into());
        }
        let canvas = Canvas::with_tail(prompt, length.saturating_sub(prompt.len()), model.mask)?;
        let ends = self.codec.ends();
        let mut options = Options {
            stop: if early_stop { ends.to_vec() } else { Vec::new() },
            // Each problem draws its own numbers, whatever is decoded with it.
            seed: self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(question.row as u64),
            length: Some(prompt.len() + gen_length),
            ..self.options.clone()
        };
        if self.trial.defers_ends() {
            options.sampling.deferred = ends.to_vec();
        }
        if self.trial.suppresses_ends() {
            options.suppressed.extend(ends.first());
        }
        Ok(Run::new(canvas, strategy, options, model)?)
    }

    /// The trial's strategy; an order that is to be given and is not is that of the problem's dependencies.
    fn strategy(&self, problem: usize) -> Result<Strategy> {
        if self.trial.order() != "given" || self.trial.settings.get("places").is_some() {
            return self.trial.strategy();
        }
        let Some(dependencies) = self.dependencies(problem) else {
            let task = self.benchmark.task.name();
            return Err(Error::Request(format!(
                "no order is known for {task}: name one with --places, or leave out given"
            )));
        };
        let solution = &self.benchmark.problems[problem].solution;
        let tokens = self.token_of_bytes(&self.codec.encode(solution)?)?;
        let mut places = Vec::new();
        for at in dependencies.oracle(tokens.len()) {
            if let Some(&place) = tokens.get(at).filter(|place| !places.contains(*place)) {
                places.push(place);
            }
        }
        let settings = self.trial.settings.clone().with("places", &places[..])?;
        Trial { settings, ..self.trial.clone() }.strategy()
    }

    fn dependencies(&self, problem: usize) -> Option<Dependencies> {
        self.benchmark.task.dependencies(&self.benchmark.problems[problem])
    }

    /// For each byte of a text the token it belongs to.
    fn token_of_bytes(&self, tokens: &[Token]) -> Result<Vec<usize>> {
        let mut owners = Vec::new();
        for (place, token) in tokens.iter().enumerate() {
            owners.extend(std::iter::repeat_n(place, self.codec.decode(&[*token])?.len()));
        }
        Ok(owners)
    }

    /// Decodes all `questions`, up to `batch` at a time on each replica; `done` gets the answers that a step finished.
    pub(super) fn decode(
        &self,
        questions: Vec<Question>,
        batch: usize,
        replicas: &mut [Replica<'_>],
        done: impl FnMut(Vec<Answer>) -> Result<()> + Send,
    ) -> Result<()> {
        decode_all(replicas, batch, questions, &mut Answering { decoder: self, done })
    }

    fn answer(&self, job: Job) -> Result<Answer> {
        let from = job.question.prompt.len();
        let written = &job.run.canvas().tokens()[from..job.run.text_end()];
        let end = written.iter().position(|token| self.codec.ends().contains(token)).unwrap_or(written.len());
        let trace = job.run.trace();
        let decided = trace.decided(trace.deltas.len()).into_iter().skip(from).take(written.len());
        let order: Vec<i32> = decided.map(|step| step.map_or(-1, |step| step as i32)).collect();
        let respect = match self.dependencies(job.question.problem) {
            Some(dependencies) => {
                let step = |place: usize| usize::try_from(order[place]).ok();
                let steps: Vec<_> = self.token_of_bytes(&written[..end])?.into_iter().map(step).collect();
                Some(dependencies.respect(&steps))
            }
            None => None,
        };
        Ok(Answer {
            problem: job.question.problem,
            text: self.codec.decode(&written[..end])?,
            nfe: job.run.forwards(),
            rows_read: job.run.rows_read(),
            tokens: end,
            seconds: job.seconds,
            order,
            respect,
        })
    }
}

/// Turns questions into answers.
struct Answering<'a, F> {
    decoder: &'a Decoder<'a>,
    done: F,
}

impl<F: FnMut(Vec<Answer>) -> Result<()> + Send> Work for Answering<'_, F> {
    type Question = Question;
    type Job = Job;
    type Error = Error;

    fn begin(&mut self, question: Question, model: &Description) -> Result<Job> {
        let run = self.decoder.start(&question, model)?;
        Ok(Job { question, run, seconds: 0.0 })
    }

    fn stepped(&mut self, jobs: &mut [Job], took: Duration) -> Result<()> {
        let share = took.as_secs_f64() / jobs.len() as f64;
        jobs.iter_mut().for_each(|job| job.seconds += share);
        Ok(())
    }

    fn finished(&mut self, jobs: Vec<Job>) -> Result<()> {
        (self.done)(jobs.into_iter().map(|job| self.decoder.answer(job)).collect::<Result<_>>()?)
    }
}
