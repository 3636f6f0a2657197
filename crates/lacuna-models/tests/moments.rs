//! Captions of a run agree with its trace.

use lacuna::{Canvas, Commit, Delta, Resize, Token, Trace};
use lacuna_models::{Checkpoint, Kind, Request, RunSummary};

const PROMPT: usize = 2;

struct Told {
    checkpoint: Checkpoint,
    trace: Trace,
}

impl Told {
    fn new(places: usize) -> Self {
        let checkpoint = Checkpoint::embedded().unwrap();
        let mask = checkpoint.mask_token().unwrap();
        let start = Canvas::with_tail(&[0; PROMPT], places, mask).unwrap();
        Self { checkpoint, trace: Trace { start, deltas: Vec::new() } }
    }

    fn token(&self, text: &str) -> Token {
        *self.checkpoint.text().unwrap().encode(text).unwrap().last().unwrap()
    }

    /// Tokens at places, counted from 1.
    fn commits(&self, pairs: &[(usize, &str)]) -> Vec<Commit> {
        let token = |text: &str| if text == "end" { self.checkpoint.ends()[0] } else { self.token(text) };
        let commit = |&(place, text): &(usize, &str)| Commit {
            position: PROMPT + place - 1,
            token: token(text),
            probability: 0.5,
            entropy: 1.0,
            score: 0.5,
            alternatives: Vec::new(),
        };
        pairs.iter().map(commit).collect()
    }

    fn step(&mut self, block: usize, committed: &[(usize, &str)]) -> &mut Delta {
        let delta = Delta { block, committed: self.commits(committed), ..Delta::default() };
        self.trace.deltas.push(delta);
        self.trace.deltas.last_mut().unwrap()
    }

    fn moments(&self, rows_computed: usize) -> Vec<(usize, String)> {
        let plan = Request::default().plan(&self.checkpoint).unwrap();
        let canvas = self.trace.replay();
        let summary = RunSummary {
            trace: &self.trace,
            canvas: &canvas,
            plan: &plan,
            from: PROMPT,
            to: canvas.len(),
            kind: Kind::Answer,
            nfe: self.trace.deltas.len(),
            rows_read: 0,
            rows_computed,
            seconds: 1.0,
        };
        let moments = summary.moments(self.checkpoint.text().unwrap());
        moments.into_iter().map(|moment| (moment.step, moment.text)).collect()
    }
}

#[test]
fn decisions_borders_and_the_end_are_told_once() {
    let mut told = Told::new(6);
    told.step(0, &[(1, "4")]);
    told.step(0, &[(3, "9")]);
    told.step(0, &[(2, "-")]);
    told.step(1, &[(4, "="), (5, "5")]);
    told.step(1, &[(6, "end")]);
    let expected = [
        (1, "Step 1 decides the first of 6 places, place 1: “4”."),
        (2, "Step 2 goes ahead: place 3 is “9” while place 2 is open."),
        (4, "Step 4 begins block 2 at place 4: all before it is decided. It decides 2 places at once: “=”, “5”."),
        (5, "Step 5 is the last: 5 tokens of text, 5 passes; the passes computed 30 positions instead of 40."),
    ];
    assert_eq!(told.moments(30), expected.map(|(step, text)| (step, text.to_string())));
}

#[test]
fn what_is_taken_back_replaced_and_inserted_is_told() {
    let mut told = Told::new(4);
    told.step(0, &[(1, "4"), (2, "5")]).reopened = vec![PROMPT + 1];
    let edited = told.commits(&[(1, "6")]);
    let mask = told.trace.start.mask();
    let delta = told.step(0, &[(2, "7")]);
    delta.edited = edited;
    delta.resized = Some(Resize { at: PROMPT + 4, tokens: vec![mask; 2], length: PROMPT + 6 });
    told.step(0, &[(3, "end")]);
    let expected = [
        (1, "Step 1 decides 2 places at once: “4”, “5”. It takes back “5” at place 2."),
        (
            2,
            "Step 2 decides place 2 anew: “7” instead of “5”. It replaces “4” at place 1 by “6”. It finds 4 places too few: the \
             canvas has 6 now.",
        ),
        (
            3,
            "Step 3 is the last: 2 tokens of text, 3 passes, and 3 places behind the end that need no decision; 1 taken back in all.",
        ),
    ];
    assert_eq!(told.moments(0), expected.map(|(step, text)| (step, text.to_string())));
}

#[test]
fn ends_before_the_first_word_are_told() {
    let mut told = Told::new(8);
    told.step(0, &[(8, "end")]);
    told.step(0, &[(6, "end"), (7, "end")]);
    told.step(0, &[(1, "4")]);
    told.step(0, &[(2, "end")]);
    let moments = told.moments(0);
    assert_eq!(moments[0].1, "Step 1 decides the first of 8 places, place 8: end of text.");
    assert_eq!(moments[1].1, "Step 2 decides 2 places at once: 2 times end of text.");
    assert_eq!(moments[2].1, "Step 3 begins the text, with “4”, after 3 of 8 places were declared end of text.");
    assert!(
        moments[3].1.contains("; 3 of 8 places were declared end of text before the first word."),
        "{}",
        moments[3].1
    );
}
