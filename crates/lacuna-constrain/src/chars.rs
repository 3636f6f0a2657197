//! Characters as bytes, plain or as they stand inside a JSON string.

use regex_syntax::utf8::Utf8Sequences;

use crate::{
    Refused,
    automaton::{Budget, Expr},
};

/// The way a character is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// As UTF-8.
    Plain,
    /// As UTF-8 inside a JSON string: quotes, backslashes and common control characters with a backslash. Each character
    /// is written in one way only; control characters without a short form are left out.
    Json,
}

const SHORT_ESCAPES: [(char, u8); 7] =
    [('"', b'"'), ('\\', b'\\'), ('\u{8}', b'b'), ('\t', b't'), ('\n', b'n'), ('\u{c}', b'f'), ('\r', b'r')];

/// One character out of ranges, both ends included.
pub(crate) fn class(
    ranges: impl IntoIterator<Item = (char, char)>,
    encoding: Encoding,
    budget: &Budget,
) -> Result<Expr, Refused> {
    let mut ways = Vec::new();
    let mut utf8 = |low: char, high: char| {
        for sequence in Utf8Sequences::new(low, high) {
            let bytes = sequence.as_slice().iter().map(|range| Expr::Class(vec![(range.start, range.end)]));
            ways.push(Expr::Seq(bytes.collect()));
        }
    };
    let mut escapes = Vec::new();
    for (low, high) in ranges {
        match encoding {
            Encoding::Plain => utf8(low, high),
            Encoding::Json => {
                let within = |&&(c, _): &&(char, u8)| (low..=high).contains(&c);
                escapes.extend(SHORT_ESCAPES.iter().filter(within).map(|&(_, letter)| (letter, letter)));
                for (first, last) in [(' ', '!'), ('#', '['), (']', char::MAX)] {
                    let (first, last) = (first.max(low), last.min(high));
                    if first <= last {
                        utf8(first, last);
                    }
                }
            }
        }
    }
    if !escapes.is_empty() {
        ways.push(Expr::Seq(vec![Expr::text("\\"), Expr::Class(escapes)]));
    }
    match ways.len() {
        0..4 => Ok(Expr::Alt(ways)),
        _ => Expr::Alt(ways).leaf(budget),
    }
}

/// Any character.
pub(crate) fn any(encoding: Encoding, budget: &Budget) -> Result<Expr, Refused> {
    class([('\0', char::MAX)], encoding, budget)
}

/// A text, character by character.
pub(crate) fn text(text: &str, encoding: Encoding, budget: &Budget) -> Result<Expr, Refused> {
    match encoding {
        Encoding::Plain => Ok(Expr::text(text)),
        Encoding::Json => {
            text.chars().map(|c| class([(c, c)], encoding, budget)).collect::<Result<_, _>>().map(Expr::Seq)
        }
    }
}
