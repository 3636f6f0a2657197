//! Runs on several replicas: each once, as on one, in fair shares, and none after an error.

use std::sync::Mutex;
use std::time::Duration;

use lacuna::catalogue::Params;
use lacuna::scripted::Scripted;
use lacuna::{Canvas, Description, Error, Options, Replica, Result, Run, Strategy, Token, Work, decode_all};

const MASK: Token = 0;

/// A model whose answers depend on all that stands in the canvas.
fn model() -> Scripted {
    Scripted::new(9, MASK, |tokens: &[Token], position| {
        let seed = tokens.iter().enumerate().map(|(at, token)| (at + 3) * *token as usize).sum::<usize>() + position;
        (0..9).map(|token| ((seed * 31 + token * 17) % 23) as f32).collect()
    })
}

struct Job(usize, Run);

impl AsMut<Run> for Job {
    fn as_mut(&mut self) -> &mut Run {
        &mut self.1
    }
}

/// Answers, and how many runs shared a step.
#[derive(Default)]
struct Answers {
    found: Vec<(usize, Vec<Token>)>,
    shared: Vec<usize>,
    fails_at: Option<usize>,
}

impl Work for Answers {
    type Question = usize;
    type Job = Job;
    type Error = Error;

    fn begin(&mut self, number: usize, model: &Description) -> Result<Job> {
        if self.fails_at == Some(number) {
            return Err(Error::Incompatible("this one does not begin".into()));
        }
        let canvas = Canvas::with_tail(&[1 + (number % 7) as Token, 2], 3 + number % 4, MASK)?;
        let strategy = Strategy::parse("confidence", &Params::new())?;
        Ok(Job(number, Run::new(canvas, strategy, Options::default(), model)?))
    }

    fn stepped(&mut self, jobs: &mut [Job], _took: Duration) -> Result<()> {
        self.shared.push(jobs.len());
        Ok(())
    }

    fn finished(&mut self, jobs: Vec<Job>) -> Result<()> {
        self.found.extend(jobs.into_iter().map(|Job(number, run)| (number, run.canvas().tokens().to_vec())));
        Ok(())
    }
}

fn decode(replicas: usize, batch: usize, questions: usize) -> Answers {
    let mut models: Vec<Scripted> = (0..replicas).map(|_| model()).collect();
    let mut replicas: Vec<Replica<'_>> = models.iter_mut().map(|model| model as Replica<'_>).collect();
    let mut answers = Answers::default();
    decode_all(&mut replicas, batch, 0..questions, &mut answers).unwrap();
    answers.found.sort();
    answers
}

#[test]
fn every_question_is_answered_once_and_as_on_one_replica() {
    let expected = decode(1, 1, 40).found;
    assert_eq!(expected.iter().map(|(number, _)| *number).collect::<Vec<_>>(), (0..40).collect::<Vec<_>>());
    for (replicas, batch) in [(1, 8), (2, 1), (3, 4), (4, 100)] {
        assert_eq!(decode(replicas, batch, 40).found, expected, "{replicas} replicas, batches of {batch}");
    }
}

#[test]
fn no_replica_takes_more_than_its_share() {
    assert!(decode(4, 100, 40).shared.iter().all(|jobs| *jobs <= 10));
    assert!(decode(2, 3, 40).shared.iter().all(|jobs| *jobs <= 3));
    assert_eq!(decode(1, 100, 40).shared[0], 40);
    assert_eq!(decode(3, 4, 0).found, []);
}

#[test]
fn an_error_stops_all() {
    let (mut a, mut b) = (model(), model());
    let mut answers = Answers { fails_at: Some(20), ..Answers::default() };
    let error = decode_all(&mut [&mut a, &mut b], 2, 0..10_000, &mut answers).unwrap_err();
    assert_eq!(error.to_string(), "this one does not begin");
    assert!(answers.found.len() < 10_000 - 1);
}

#[test]
fn a_panic_of_one_reaches_the_caller() {
    let seen = Mutex::new(0);
    let mut broken = Scripted::new(9, MASK, |_: &[Token], _| panic!("this model is broken"));
    let mut sound = model();
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = decode_all(&mut [&mut sound, &mut broken], 2, 0..10_000, &mut Answers::default());
        *seen.lock().unwrap() = 1;
    }));
    assert!(ended.is_err() && *seen.lock().unwrap() == 0);
}
