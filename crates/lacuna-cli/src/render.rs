//! Drawing a canvas on a terminal: each token in its place, coloured by when it was decided.

use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};

use lacuna::{Token, Trace};
use lacuna_models::{Specials, Text};
use unicode_width::UnicodeWidthChar;

/// A stretch of text and when it was decided.
struct Piece {
    text: String,
    when: When,
}

#[derive(Clone, Copy, PartialEq)]
enum When {
    /// It was there from the start.
    Given,
    /// At this step.
    At(usize),
    /// Not yet.
    Open,
}

const OPEN: &str = "░";
const END: &str = "·";

/// Part of a canvas to draw, and its style.
pub(crate) struct View {
    /// The first position that is drawn.
    pub(crate) from: usize,
    /// The position behind the last that is drawn.
    pub(crate) to: usize,
    /// Columns of a line.
    pub(crate) width: usize,
    /// True if tokens are coloured by when they were decided.
    pub(crate) colour: bool,
    /// True if the picture ends where the text ends.
    pub(crate) end: bool,
}

impl View {
    /// The lines that show the canvas of `trace` after `steps` steps.
    pub(crate) fn lines(&self, trace: &Trace, steps: usize, text: &Text, ends: &[Token]) -> Vec<String> {
        let canvas = trace.canvases().nth(steps).expect("there are so many steps");
        let when = |(position, step): (usize, Option<usize>)| match step {
            Some(step) => When::At(step),
            None if canvas.is_masked(position) => When::Open,
            None => When::Given,
        };
        let when: Vec<When> = trace.decided(steps).into_iter().enumerate().map(when).collect();
        let mut tokens = &canvas.tokens()[self.from..self.to.min(canvas.len())];
        if let Some(end) = tokens.iter().position(|token| self.end && ends.contains(token)) {
            tokens = &tokens[..end];
        }
        wrap(&pieces(tokens, &when[self.from..], text, ends), steps, self.width, self.colour)
    }
}

/// One piece for each token. Tokens that are parts of one character only make sense together and become one piece.
fn pieces(tokens: &[Token], when: &[When], text: &Text, ends: &[Token]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut start = 0;
    while start < tokens.len() {
        let piece = |text: &str, end: usize| (Piece { text: text.into(), when: when[start] }, end);
        let (piece, end) = if when[start] == When::Open {
            piece(OPEN, start + 1)
        } else if ends.contains(&tokens[start]) {
            piece(END, start + 1)
        } else {
            let decoded = |end: usize| text.decode(&tokens[start..end], Specials::Skip).unwrap_or_default();
            let decided = |end: &usize| when[*end - 1] != When::Open && !ends.contains(&tokens[*end - 1]);
            let longest = (start + 4).min(tokens.len());
            let whole = (start + 1..=longest).take_while(decided).find(|&end| !decoded(end).contains('\u{FFFD}'));
            let end = whole.unwrap_or(start + 1);
            piece(&decoded(end), end)
        };
        pieces.push(piece);
        start = end;
    }
    pieces
}

fn wrap(pieces: &[Piece], steps: usize, width: usize, colour: bool) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut column = 0;
    for piece in pieces {
        let paint = if colour { style(piece.when, steps) } else { String::new() };
        let reset = if paint.is_empty() { "" } else { "\x1b[0m" };
        let line = |lines: &mut Vec<String>| lines.last_mut().map(|line| line.push_str(reset));
        lines.last_mut().expect("there is a line").push_str(&paint);
        for character in piece.text.chars() {
            let columns = if character == '\t' { 4 } else { character.width().unwrap_or(0) };
            if character == '\n' || column + columns > width {
                line(&mut lines);
                lines.push(paint.clone());
                column = 0;
            }
            match character {
                '\n' => {}
                '\t' => lines.last_mut().expect("there is a line").push_str("    "),
                character if character.is_control() => {}
                character => lines.last_mut().expect("there is a line").push(character),
            }
            column += columns;
        }
        line(&mut lines);
    }
    lines
}

/// Early steps are blue, later ones go through green to orange; what was decided last is bold.
fn style(when: When, steps: usize) -> String {
    let step = match when {
        When::Given => return "\x1b[2m".into(),
        When::Open => return "\x1b[90m".into(),
        When::At(step) => step,
    };
    const RAMP: [[f64; 3]; 3] = [[70.0, 120.0, 240.0], [40.0, 175.0, 110.0], [235.0, 135.0, 30.0]];
    let age = 2.0 * step as f64 / (steps.max(2) - 1) as f64;
    let segment = (age as usize).min(1);
    let blend = |channel: usize| {
        let (low, high) = (RAMP[segment][channel], RAMP[segment + 1][channel]);
        (low + (high - low) * (age - segment as f64)).clamp(0.0, 255.0) as u8
    };
    let bold = if step + 1 == steps { "1;" } else { "" };
    format!("\x1b[{bold}38;2;{};{};{}m", blend(0), blend(1), blend(2))
}

/// A part of the terminal that is drawn over and over.
pub(crate) struct Screen {
    drawn: usize,
    last: Option<Instant>,
    pub(crate) colour: bool,
}

impl Screen {
    const FRAME: Duration = Duration::from_millis(33);

    pub(crate) fn new() -> Self {
        Self { drawn: 0, last: None, colour: wants_colour() }
    }

    /// True if enough time has passed for another frame.
    pub(crate) fn is_due(&self) -> bool {
        self.last.is_none_or(|last| last.elapsed() >= Self::FRAME)
    }

    /// Draws `lines` where the last ones were. What does not fit on the terminal is left out at the top.
    pub(crate) fn draw(&mut self, lines: &[String]) -> std::io::Result<()> {
        let (_, height) = size();
        let shown = &lines[lines.len().saturating_sub(height - 1)..];
        let mut frame = String::new();
        if self.drawn > 0 {
            frame.push_str(&format!("\x1b[{}A\r", self.drawn));
        }
        frame.push_str("\x1b[J");
        shown.iter().for_each(|line| frame.push_str(&format!("{line}\n")));
        let mut out = stdout().lock();
        out.write_all(frame.as_bytes())?;
        out.flush()?;
        self.drawn = shown.len();
        self.last = Some(Instant::now());
        Ok(())
    }
}

/// Columns and rows of the terminal.
pub(crate) fn size() -> (usize, usize) {
    match terminal_size::terminal_size() {
        Some((width, height)) => (usize::from(width.0).max(20), usize::from(height.0).max(4)),
        None => (80, 24),
    }
}

/// True if colours are welcome (https://no-color.org).
pub(crate) fn wants_colour() -> bool {
    stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Tokens per second, for people to read.
pub(crate) fn speed(tokens_per_second: f64) -> String {
    let digits = usize::from(tokens_per_second < 10.0);
    format!("{tokens_per_second:.digits$} tokens/s")
}

/// Display width of a text, without escape sequences.
pub(crate) fn columns(line: &str) -> usize {
    let mut columns = 0;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\x1b' {
            characters.by_ref().find(|&end| end == 'm');
        } else {
            columns += character.width().unwrap_or(0);
        }
    }
    columns
}
