//! LaTeX as answers are written in, cut into lexemes.

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Lexeme {
    /// Digits, perhaps with a decimal point and an exponent, as in `3e5`.
    Number(String),
    /// A variable, or a known function written without a backslash.
    Name(String),
    /// A command without its backslash, such as `frac`.
    Command(String),
    /// Any other single character that means something.
    Sign(char),
    /// Words: `\text{...}`, or plain words that are no product of variables.
    Text(String),
}

/// Commands that only space or size what follows.
const SILENT: [&str; 33] = [
    "left",
    "right",
    "middle",
    "big",
    "Big",
    "bigg",
    "Bigg",
    "bigl",
    "bigr",
    "Bigl",
    "Bigr",
    "biggl",
    "biggr",
    "displaystyle",
    "textstyle",
    "limits",
    "quad",
    "qquad",
    "mathstrut",
    "boldsymbol",
    "mathbf",
    "bm",
    "bold",
    "bf",
    "rm",
    "large",
    "Large",
    "LARGE",
    "boxed",
    "fbox",
    "underline",
    "angle",
    "triangle",
];
/// Commands whose argument is words.
const TEXTUAL: [&str; 9] =
    ["text", "textbf", "textit", "textrm", "textnormal", "mbox", "mathrm", "operatorname", "mathit"];
/// Functions that people write without a backslash.
pub(super) const FUNCTIONS: [&str; 18] = [
    "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "log", "ln", "exp",
    "lg", "min", "max",
];
/// Commands over digits that repeat for ever.
pub(super) const PERIODS: [&str; 3] = ["overline", "bar", "dot"];
/// Units without a vowel.
const UNITS: [&str; 13] = ["cm", "mm", "km", "ft", "kg", "lb", "lbs", "mph", "hr", "hrs", "mg", "ml", "sq"];

/// True if a text is a number, perhaps with a unit, as in `\text{12 cm}`; `10 a.m.` is more than that.
fn counts(text: &str) -> bool {
    text.trim_start_matches([' ', '-', '$', '.']).starts_with(|c: char| c.is_ascii_digit()) && !text.ends_with('.')
}

/// Cuts `text` into lexemes. With `thousands`, a comma between digits that stand as in `1,234` belongs to the number.
pub(super) fn lex(text: &str, thousands: bool) -> Vec<Lexeme> {
    let characters: Vec<char> = plain(text).chars().collect();
    Lexer { characters, at: 0, thousands, lexemes: Vec::new() }.run()
}

/// The text with typographic variants replaced by their plain spelling.
fn plain(text: &str) -> String {
    const REPLACED: [(&str, &str); 45] = [
        ("\\!", ""),
        ("{}", ""),
        ("{,}", ","),
        ("\u{2212}", "-"),
        ("\u{2013}", "-"),
        ("π", "\\pi "),
        ("√", "\\sqrt "),
        ("∞", "\\infty "),
        ("×", "\\cdot "),
        ("·", "\\cdot "),
        ("÷", "/"),
        ("≤", "\\le "),
        ("≥", "\\ge "),
        ("≠", "\\ne "),
        ("≈", "\\approx "),
        ("∪", "\\cup "),
        ("\\bigcup", "\\cup "),
        ("\\mathbb{R}", "(-\\infty,\\infty)"),
        ("\\mathbb R", "(-\\infty,\\infty)"),
        ("ℝ", "(-\\infty,\\infty)"),
        ("∩", "\\cap "),
        ("∈", "\\in "),
        ("±", "\\pm "),
        ("²", "^2"),
        ("³", "^3"),
        ("½", "\\frac12 "),
        ("⅓", "\\frac13 "),
        ("¼", "\\frac14 "),
        ("¾", "\\frac34 "),
        ("⅔", "\\frac23 "),
        ("°", ""),
        ("^{\\circ}", ""),
        ("^\\circ", ""),
        ("^{\\prime}", "'"),
        ("\\degree", ""),
        ("\\dfrac", "\\frac"),
        ("\\tfrac", "\\frac"),
        ("\\cfrac", "\\frac"),
        ("\\lbrace", "\\{"),
        ("\\rbrace", "\\}"),
        ("\\lvert", "|"),
        ("\\rvert", "|"),
        ("\\vert", "|"),
        ("\\mathrm{i}", "i"),
        ("**", "^"),
    ];
    // A tight comma, as in `11,\! 111`, only groups digits.
    let mut text = text.replace(",\\! ", ",\\!").replace(",\\!", "\u{1}");
    for (from, to) in REPLACED {
        if text.contains(from) {
            text = text.replace(from, to);
        }
    }
    text.replace('\u{1}', ",")
}

struct Lexer {
    characters: Vec<char>,
    at: usize,
    thousands: bool,
    lexemes: Vec<Lexeme>,
}

impl Lexer {
    fn run(mut self) -> Vec<Lexeme> {
        while let Some(character) = self.peek(0) {
            match character {
                '\\' => self.command(),
                '0'..='9' => self.number(),
                '.' if self.peek(1).is_some_and(|next| next.is_ascii_digit()) => self.number(),
                _ if character.is_alphabetic() => self.word(),
                '$' | '€' | '£' | '¢' | '~' | '.' | '?' | '`' | '"' => self.at += 1,
                _ if character.is_whitespace() => self.at += 1,
                _ => {
                    self.lexemes.push(Lexeme::Sign(character));
                    self.at += 1;
                }
            }
        }
        self.lexemes
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.peek(0).is_some_and(&belongs) {
            self.at += 1;
        }
        self.characters[start..self.at].iter().collect()
    }

    fn number(&mut self) {
        let mut digits = self.take_while(|c| c.is_ascii_digit());
        while let Some(skip) = self.group(digits.len()) {
            self.at += skip;
            digits += &self.take_while(|c| c.is_ascii_digit());
        }
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|next| next.is_ascii_digit()) {
            self.at += 1;
            digits += ".";
            digits += &self.take_while(|c| c.is_ascii_digit());
        } else if PERIODS.iter().any(|command| self.starts_with(&format!(".\\{command}"))) {
            self.at += 1;
            digits += ".";
        }
        digits += &self.exponent();
        self.lexemes.push(Lexeme::Number(digits));
    }

    /// The `e5` of `3e5`; nothing where `e` is Euler's number, as in `3e^5`.
    fn exponent(&mut self) -> String {
        let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
        if !matches!(self.peek(0), Some('e' | 'E')) || !self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit()) {
            return String::new();
        }
        let start = self.at;
        self.at += 1 + sign;
        self.take_while(|c| c.is_ascii_digit());
        self.characters[start..self.at].iter().collect()
    }

    /// Length of the separator before a following group of exactly three digits, if one follows.
    fn group(&self, digits: usize) -> Option<usize> {
        if digits == 0 {
            return None;
        }
        let separator = match self.peek(0)? {
            ',' if self.thousands => 1,
            '\\' if matches!(self.peek(1), Some(',' | ' ')) => 2,
            _ => return None,
        };
        let digit = |ahead: usize| self.peek(separator + ahead).is_some_and(|c| c.is_ascii_digit());
        let begun = digits <= 3 || self.lexemes.is_empty() || digits.is_multiple_of(3);
        (begun && digit(0) && digit(1) && digit(2) && !digit(3)).then_some(separator)
    }

    fn starts_with(&self, prefix: &str) -> bool {
        prefix.chars().enumerate().all(|(ahead, character)| self.peek(ahead) == Some(character))
    }

    fn word(&mut self) {
        let word = self.take_while(char::is_alphabetic);
        let vowels = word.chars().any(|c| "aeiouAEIOU".contains(c) || !c.is_ascii());
        let alphabetical = "abcdefgh".contains(&word) || "xyz".contains(&word);
        if self.calls(&word) || matches!(word.as_str(), "sqrt" | "pi" | "infty" | "oo") {
            let name = if word == "oo" { "infty".to_string() } else { word };
            self.lexemes.push(Lexeme::Command(name));
        } else if (word.chars().count() >= 3 && vowels && !alphabetical)
            || UNITS.contains(&word.as_str())
            || matches!(word.as_str(), "or" | "and" | "in" | "no")
        {
            self.lexemes.push(Lexeme::Text(word));
        } else {
            self.lexemes.extend(word.chars().map(|letter| Lexeme::Name(letter.to_string())));
        }
    }

    fn command(&mut self) {
        self.at += 1;
        let Some(first) = self.peek(0) else { return };
        if !first.is_ascii_alphabetic() {
            self.at += 1;
            match first {
                '{' => self.lexemes.push(Lexeme::Command("{".into())),
                '}' => self.lexemes.push(Lexeme::Command("}".into())),
                '\\' => {
                    self.spacing();
                    self.lexemes.push(Lexeme::Command("\\".into()));
                }
                '%' => self.lexemes.push(Lexeme::Sign('%')),
                '|' => self.lexemes.push(Lexeme::Sign('|')),
                _ => {}
            }
            return;
        }
        let name = self.take_while(|c| c.is_ascii_alphabetic());
        if TEXTUAL.contains(&name.as_str()) {
            let argument = self.braced();
            let begins = matches!(self.lexemes.last(), None | Some(Lexeme::Sign('=')));
            if self.calls(argument.trim()) {
                self.lexemes.push(Lexeme::Command(argument.trim().into()));
            } else if begins && counts(&argument) {
                let inside = Self { characters: argument.chars().collect(), at: 0, lexemes: Vec::new(), ..*self };
                self.lexemes.extend(inside.run());
            } else {
                self.lexemes.push(Lexeme::Text(argument));
            }
        } else if matches!(name.as_str(), "color" | "textcolor" | "hspace" | "phantom") {
            self.braced();
        } else if !SILENT.contains(&name.as_str()) {
            self.lexemes.push(Lexeme::Command(name));
        }
    }

    /// Skips the `[6pt]` that may follow the end of a row.
    fn spacing(&mut self) {
        let start = self.at;
        if self.peek(0) != Some('[') {
            return;
        }
        self.at += 1;
        self.take_while(|c| c.is_ascii_digit() || c == '.');
        let unit = self.take_while(|c| c.is_ascii_lowercase());
        self.at = if unit.len() == 2 && self.peek(0) == Some(']') { self.at + 1 } else { start };
    }

    /// True if this is a function and not a unit: minutes and seconds are written `min` and `sec`.
    fn calls(&self, word: &str) -> bool {
        let applied = self.characters[self.at..].iter().find(|c| !c.is_whitespace());
        FUNCTIONS.contains(&word) && applied.is_some_and(|c| c.is_alphanumeric() || "({\\^_|".contains(*c))
    }

    /// The text between the braces that follow, or the next character.
    fn braced(&mut self) -> String {
        self.take_while(|c| c == ' ');
        if self.peek(0) != Some('{') {
            return self.take_while(char::is_alphabetic);
        }
        let (start, mut depth) = (self.at + 1, 0);
        while let Some(character) = self.peek(0) {
            self.at += 1;
            match character {
                '{' => depth += 1,
                '}' if depth == 1 => return self.characters[start..self.at - 1].iter().collect(),
                '}' => depth -= 1,
                _ => {}
            }
        }
        self.characters[start..].iter().collect()
    }
}
