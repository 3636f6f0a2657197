//! How a set of rows is read: what the GPU must know, and where it lies there.

use lacuna::Sampling;

use super::ask::{Ask, Line, Scores, look};
use super::kernel::{self, Candidate, Choice, Look, NOBODY};

/// What a plan is made of, before it is on the GPU.
#[derive(Default)]
pub(crate) struct Lists<'a> {
    /// For each row that is projected, which of the finished ones it is, and how it is looked at.
    pub(crate) sources: Vec<u32>,
    pub(crate) looks: Vec<Look>,
    /// Suppressed tokens and deferred ones, and how the last sampling was looked through.
    pub(crate) tokens: Vec<u32>,
    pub(crate) last: Option<(&'a Sampling, Look)>,
    /// For each ask that is compared with what was remembered, the logarithm of the sum of exponentials of that.
    pub(crate) compared: Vec<Option<f64>>,
    /// Lines, the numbers of their asks, and for those that go by scores what to choose from.
    pub(crate) lines: Vec<kernel::Line>,
    pub(crate) line_asks: Vec<u32>,
    pub(crate) choices: Vec<Choice>,
    pub(crate) candidates: Vec<Candidate>,
}

impl<'a> Lists<'a> {
    /// Lists the lines; `slots` tells where among the selected rows each row is.
    pub(crate) fn tell(&mut self, lines: &[Line<'_>], slots: &[u32]) {
        for (number, line) in lines.iter().enumerate() {
            self.lines.push(line.told(self.line_asks.len()));
            self.line_asks.extend(&line.asks);
            let Some(Scores { begin, tokens, sources, temperature }) = line.scores else { continue };
            let Ask { row, guide, .. } = line.candidates[0];
            self.choices.push(Choice {
                temperature,
                scores: begin as u32,
                tokens: tokens as u32,
                sources: sources as u32,
                candidates: self.candidates.len() as u32,
                count: line.candidates.len() as u32,
                take: line.asks.len() as u32,
                slots: slots[row],
                guide_slots: guide.map_or(NOBODY, |row| slots[row]),
                line: number as u32,
            });
            self.candidates.extend(line.told_candidates());
        }
    }

    /// How the GPU is to look through a sampling.
    pub(crate) fn look(&mut self, sampling: &'a Sampling) -> Look {
        if let Some((_, look)) = self.last.filter(|(last, _)| std::ptr::eq(*last, sampling)) {
            return look;
        }
        let suppressed = self.tokens.len();
        self.tokens.extend(sampling.suppressed.iter().chain(&sampling.deferred));
        let look = Look {
            suppressed: suppressed as u32,
            suppressed_count: sampling.suppressed.len() as u32,
            deferred: (suppressed + sampling.suppressed.len()) as u32,
            deferred_count: sampling.deferred.len() as u32,
            ..look(sampling)
        };
        self.last = Some((sampling, look));
        look
    }
}

/// How a set of asks is read: where what the GPU must know lies there.
pub(crate) struct Plan {
    /// The selected rows and how many, filled up.
    pub(crate) rows: (u64, usize),
    pub(crate) tiles: (u64, usize),
    /// Where the random numbers of each ask come from.
    pub(crate) draws: u64,
    /// Suppressed and deferred tokens.
    pub(crate) tokens: u64,
    /// Lines, and the numbers of their asks.
    pub(crate) lines: u64,
    pub(crate) line_asks: u64,
    pub(crate) choices: u64,
    pub(crate) candidates: u64,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) compared: Vec<Option<f64>>,
}

/// Asks that are projected together.
pub(crate) struct Chunk {
    pub(crate) cut: Cut,
    /// Which of the finished rows are projected.
    pub(crate) sources: (u64, usize),
    pub(crate) looks: u64,
}

/// A chunk, before it is on the GPU.
#[derive(Default)]
pub(crate) struct Cut {
    /// The round in which it is read, from 1.
    pub(crate) round: u32,
    /// The first ask, and how many.
    pub(crate) first: usize,
    pub(crate) asks: usize,
    /// The first row in the lists, and how many.
    pub(crate) start: usize,
    pub(crate) rows: usize,
    pub(crate) guided: bool,
    /// Whether some take a second look.
    pub(crate) again: bool,
}
