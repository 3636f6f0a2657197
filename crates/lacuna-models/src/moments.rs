//! Captions for the notable steps of a run, made from its trace.

use std::collections::{HashMap, HashSet};

use lacuna::{Canvas, Commit, Delta, Pass, Token};
use serde::{Deserialize, Serialize};

use crate::record::{Kind, RunSummary};
use crate::{Specials, Text};

/// Most tokens that a caption names.
const NAMED: usize = 5;
/// Share of the positions that must be end tokens before the first word for a caption to say so.
const MANY_ENDS: f64 = 0.25;

/// A notable step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Number of the step, from 1.
    pub step: usize,
    /// The caption, a sentence or two.
    pub text: String,
}

impl RunSummary<'_> {
    /// Its moments: the first decision, the first of several at once, the first that goes ahead, is taken back, is replaced, the first
    /// block border, the first change of length, and the last step.
    pub fn moments(&self, text: &Text) -> Vec<Moment> {
        let mut writer = MomentWriter::new(self, text);
        let deltas = &self.trace.deltas;
        let told = deltas.iter().enumerate().filter_map(|(index, delta)| {
            let mut clauses = writer.clauses(index, delta);
            delta.apply(&mut writer.canvas);
            if index + 1 == deltas.len() {
                clauses.push(writer.closing(self));
            }
            let step = index + 1;
            let (first, others) = clauses.split_first()?;
            let others: String = others.iter().map(|clause| format!(" It {clause}.")).collect();
            Some(Moment { step, text: format!("Step {step} {first}.{others}") })
        });
        told.collect()
    }
}

/// The first of something.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum First {
    Decision,
    Parallel,
    Ahead,
    Word,
    Border,
    TakenBack,
    Anew,
    Replaced,
    Beyond,
    Resized,
    Stored,
}

/// Follows a run and knows what was told.
struct MomentWriter<'a> {
    text: &'a Text,
    ends: &'a [Token],
    from: usize,
    /// The canvas before the step.
    canvas: Canvas,
    told: HashSet<First>,
    block: usize,
    /// Tokens that were taken back, by position.
    taken: HashMap<usize, Token>,
    taken_count: usize,
    /// Places that were open at the start.
    opened: usize,
    /// Positions declared to be end of text before there was a word.
    empty: usize,
    /// The step that decides the most positions, if it is notable.
    widest: Option<usize>,
}

impl<'a> MomentWriter<'a> {
    fn new(summary: &RunSummary<'a>, text: &'a Text) -> Self {
        let counts: Vec<usize> = summary.trace.deltas.iter().map(|delta| delta.committed.len()).collect();
        let first = counts.iter().find(|count| **count > 1).copied().unwrap_or(1);
        let most = counts.iter().max().copied().unwrap_or(0);
        let widest = counts.iter().position(|&count| count == most).filter(|_| most > first + 1);
        let block = summary.plan.params.integer("block_length");
        Self {
            text,
            ends: &summary.plan.ends,
            from: summary.from,
            canvas: summary.trace.start.clone(),
            told: HashSet::new(),
            block: 0,
            taken: HashMap::new(),
            taken_count: 0,
            opened: block.filter(|_| summary.kind == Kind::Answer).unwrap_or(usize::MAX),
            empty: 0,
            widest,
        }
    }

    /// True once for each.
    fn is(&mut self, first: First) -> bool {
        self.told.insert(first)
    }

    /// True if many of the places were declared end of text before there was a word.
    fn empties(&self, places: usize) -> bool {
        self.empty as f64 >= MANY_ENDS * places as f64
    }

    /// Number of a position as a person counts it.
    fn place(&self, position: usize) -> usize {
        position - self.from + 1
    }

    /// The caption of a step, without its subject.
    fn clauses(&mut self, index: usize, delta: &Delta) -> Vec<String> {
        let mut said = Vec::new();
        if !delta.kind.denoises() && self.is(First::Stored) {
            let what = if delta.kind == Pass::Prefill { "the prompt" } else { "a finished block" };
            said.push(format!("decides nothing: it stores the keys and values of {what}"));
        }
        if delta.block > self.block {
            self.block = delta.block;
            let first = self.canvas.masked().next();
            if let Some(first) = first.filter(|_| self.is(First::Border)) {
                let place = self.place(first);
                said.push(format!("begins block {} at place {place}: all before it is decided", self.block + 1));
            }
        }
        if !delta.committed.is_empty() {
            said.extend(self.decisions(index, &delta.committed));
        }
        let again = delta.committed.iter().find_map(|commit| Some((commit, *self.taken.get(&commit.position)?)));
        if let Some((commit, before)) = again
            && self.is(First::Anew)
        {
            let (place, token) = (self.place(commit.position), self.quoted(commit.token));
            said.push(match before == commit.token {
                true => format!("decides place {place} anew, as before: {token}"),
                false => format!("decides place {place} anew: {token} instead of {}", self.quoted(before)),
            });
        }
        if let Some(edit) = delta.edited.first()
            && self.is(First::Replaced)
        {
            let [before, after] = [self.canvas.tokens()[edit.position], edit.token].map(|token| self.quoted(token));
            said.push(format!("replaces {before} at place {} by {after}", self.place(edit.position)));
        }
        said.extend(self.taking_back(delta));
        if let Some(resize) = delta.resized.as_ref().filter(|_| self.is(First::Resized)) {
            let (before, after) = (self.canvas.len() - self.from, resize.length - self.from);
            said.push(match after > before {
                true => format!("finds {before} places too few: the canvas has {after} now"),
                false => format!("cuts the canvas to {after} places"),
            });
        }
        said
    }

    fn decisions(&mut self, index: usize, committed: &[Commit]) -> Vec<String> {
        let mut said = Vec::new();
        let count = committed.len();
        let begins = self.is(First::Decision);
        if count > 1 && self.is(First::Parallel) {
            said.push(format!("decides {count} places at once: {}", self.listed(committed)));
        } else if self.widest == Some(index) {
            said.push(format!("decides the most at once, {count} places: {}", self.listed(committed)));
        } else if begins {
            let (place, token) = (self.place(committed[0].position), self.quoted(committed[0].token));
            said.push(format!("decides the first of {} places, place {place}: {token}", self.canvas.gaps().count()));
        }
        let open = self.canvas.masked().find(|open| committed.iter().all(|commit| commit.position != *open));
        let ahead = committed.iter().find(|commit| open.is_some_and(|open| open < commit.position));
        if let (Some(commit), Some(open)) = (ahead, open)
            && self.is(First::Ahead)
            && !(begins && count == 1)
        {
            let (place, open, token) = (self.place(commit.position), self.place(open), self.quoted(commit.token));
            said.push(format!("goes ahead: place {place} is {token} while place {open} is open"));
        }
        // Blocks are told by their borders, so this is a window that slides.
        let beyond = committed.iter().find(|commit| self.place(commit.position) > self.opened && self.block == 0);
        if let Some(commit) = beyond
            && self.is(First::Beyond)
        {
            let (place, opened) = (self.place(commit.position), self.opened);
            said.push(format!("decides place {place}, where only the first {opened} were open at the start"));
        }
        let word = committed.iter().find(|commit| !self.ends.contains(&commit.token));
        match word {
            Some(commit) if self.is(First::Word) => {
                let places = self.canvas.gaps().count();
                if self.empties(places) {
                    let token = self.quoted(commit.token);
                    said.push(format!(
                        "begins the text, with {token}, after {} of {places} places were declared end of text",
                        self.empty
                    ));
                }
            }
            None if !self.told.contains(&First::Word) => self.empty += count,
            _ => {}
        }
        said
    }

    fn taking_back(&mut self, delta: &Delta) -> Option<String> {
        let token = |position: usize| {
            let now = delta.committed.iter().find(|commit| commit.position == position).map(|commit| commit.token);
            now.unwrap_or(self.canvas.tokens()[position])
        };
        let taken: Vec<(usize, Token)> = delta.reopened.iter().map(|&position| (position, token(position))).collect();
        self.taken.extend(taken.iter().copied());
        self.taken_count += taken.len();
        if taken.is_empty() || !self.is(First::TakenBack) {
            return None;
        }
        let named =
            taken.iter().take(NAMED).map(|&(at, token)| format!("{} at place {}", self.quoted(token), self.place(at)));
        let named = named.collect::<Vec<_>>().join(", ");
        Some(match taken.len() {
            1 => format!("takes back {named}"),
            count if count <= NAMED => format!("takes back {count} places: {named}"),
            count => format!("takes back {count} places: {named} and others"),
        })
    }

    /// The outcome of the last step; the canvas is as it left it.
    fn closing(&self, summary: &RunSummary<'_>) -> String {
        let written = summary.kind.written(summary.canvas, summary.from..summary.to, self.ends);
        let mut said = format!(
            "is the last: {}, {}",
            count(written, "token of text", "tokens of text"),
            count(summary.nfe, "pass", "passes")
        );
        let open = self.canvas.masked().count();
        if open > 0 {
            said += &format!(", and {} behind the end that need no decision", count(open, "place", "places"));
        }
        let places = self.canvas.gaps().count();
        if self.empties(places) {
            said += &format!("; {} of {places} places were declared end of text before the first word", self.empty);
        }
        if self.taken_count > 0 {
            said += &format!("; {} taken back in all", self.taken_count);
        }
        let whole = summary.nfe * summary.trace.start.len();
        if (1..whole).contains(&summary.rows_computed) {
            said += &format!("; the passes computed {} positions instead of {whole}", summary.rows_computed);
        }
        said
    }

    /// Decided tokens in a few words.
    fn listed(&self, committed: &[Commit]) -> String {
        let (ends, words): (Vec<&Commit>, Vec<&Commit>) =
            committed.iter().partition(|commit| self.ends.contains(&commit.token));
        let mut named: Vec<String> = words.iter().take(NAMED).map(|commit| self.quoted(commit.token)).collect();
        if words.len() > NAMED {
            named.push(format!("{} more", words.len() - NAMED));
        }
        match ends.len() {
            0 => {}
            1 => named.push("end of text".into()),
            count => named.push(format!("{count} times end of text")),
        }
        named.join(", ")
    }

    /// A token as one can speak of it.
    fn quoted(&self, token: Token) -> String {
        if self.ends.contains(&token) {
            return "end of text".into();
        }
        let written = self.text.decode(&[token], Specials::Keep).unwrap_or_default();
        match written.trim() {
            "" => format!("“{}”", written.replace(' ', "␣").replace('\n', "⏎")),
            part if part.contains('\u{fffd}') => "a part of a character".into(),
            shown => format!("“{shown}”"),
        }
    }
}

/// A number of things.
fn count(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}
