//! Grammars in GBNF, the notation of llama.cpp.

use std::collections::HashMap;

use crate::{
    Refused,
    automaton::{Budget, Expr, Grammar},
    chars::{self, Encoding},
};

/// Groups may be nested this deep.
const NESTING: usize = 200;

/// Reads a grammar. Its root is the rule called `root`.
pub(crate) fn parse(text: &str, budget: &Budget) -> Result<Grammar, Refused> {
    let mut parser =
        Parser { rest: text, text, grammar: Grammar::default(), rules: HashMap::new(), nesting: 0, budget };
    parser.skip();
    while !parser.rest.is_empty() {
        parser.rule()?;
    }
    for (name, &(rule, defined)) in &parser.rules {
        if !defined {
            return Err(Refused::new(format!("the grammar uses the rule {name} and does not define it")));
        }
        if name == "root" {
            parser.grammar.root = rule;
        }
    }
    if parser.rules.contains_key("root") {
        Ok(parser.grammar)
    } else {
        Err(Refused::new("the grammar has no rule called root"))
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    grammar: Grammar,
    /// Each rule's number, and whether it is defined.
    rules: HashMap<String, (usize, bool)>,
    nesting: usize,
    budget: &'a Budget,
}

impl<'a> Parser<'a> {
    fn error<T>(&self, what: &str) -> Result<T, Refused> {
        let read = &self.text[..self.text.len() - self.rest.len()];
        let line = read.matches('\n').count() + 1;
        Err(Refused::new(format!("line {line} of the grammar: {what}")))
    }

    /// Passes spaces, line ends and comments.
    fn skip(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            match self.rest.strip_prefix('#') {
                Some(comment) => self.rest = comment.find('\n').map_or("", |end| &comment[end..]),
                None => return,
            }
        }
    }

    fn eat(&mut self, mark: &str) -> bool {
        match self.rest.strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn name(&mut self) -> &'a str {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
        let (name, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        name
    }

    /// True before a name and `::=`, with which the next rule begins.
    fn at_rule(&self) -> bool {
        let mut ahead = Parser { rules: HashMap::new(), grammar: Grammar::default(), ..*self };
        let name = ahead.name();
        ahead.skip();
        !name.is_empty() && ahead.rest.starts_with("::=")
    }

    fn number_of(&mut self, name: &str) -> usize {
        let grammar = &mut self.grammar;
        self.rules.entry(name.to_owned()).or_insert_with(|| (grammar.reserve(), false)).0
    }

    fn rule(&mut self) -> Result<(), Refused> {
        let name = self.name();
        self.skip();
        if name.is_empty() || !self.eat("::=") {
            return self.error("a rule was expected: name ::= ...");
        }
        self.skip();
        let number = self.number_of(name);
        if self.rules.insert(name.to_owned(), (number, true)) == Some((number, true)) {
            return self.error(&format!("the rule {name} is defined twice"));
        }
        self.grammar.rules[number] = self.alternatives()?;
        if !self.rest.is_empty() && !self.at_rule() {
            return self.error("a literal, a class, a rule's name or a group was expected");
        }
        Ok(())
    }

    fn alternatives(&mut self) -> Result<Expr, Refused> {
        let mut ways = vec![self.sequence()?];
        while self.eat("|") {
            self.skip();
            ways.push(self.sequence()?);
        }
        Ok(Expr::Alt(ways))
    }

    fn sequence(&mut self) -> Result<Expr, Refused> {
        let mut parts = Vec::new();
        loop {
            let part = match self.rest.chars().next() {
                Some('"') => self.literal()?,
                Some('[') => self.class()?,
                Some('.') => {
                    self.rest = &self.rest[1..];
                    chars::any(Encoding::Plain, self.budget)?
                }
                Some('(') => self.group()?,
                Some('<' | '!') => return self.error("tokens by name or number are not supported; write their text"),
                Some(c) if c.is_ascii_alphanumeric() && !self.at_rule() => {
                    let name = self.name();
                    Expr::Call(self.number_of(name))
                }
                _ => return Ok(Expr::Seq(parts)),
            };
            self.skip();
            parts.push(self.repeated(part)?);
        }
    }

    fn group(&mut self) -> Result<Expr, Refused> {
        self.nesting += 1;
        if self.nesting > NESTING {
            return self.error(&format!("groups are nested more than {NESTING} deep"));
        }
        self.eat("(");
        self.skip();
        let inner = self.alternatives()?;
        self.nesting -= 1;
        if self.eat(")") { Ok(inner) } else { self.error("a ) is missing") }
    }

    /// A part repeated by `*`, `+`, `?` or `{...}` behind it.
    fn repeated(&mut self, mut part: Expr) -> Result<Expr, Refused> {
        loop {
            let (least, most) = if self.eat("*") {
                (0, None)
            } else if self.eat("+") {
                (1, None)
            } else if self.eat("?") {
                (0, Some(1))
            } else if self.eat("{") {
                self.counts()?
            } else {
                return Ok(part);
            };
            part = part.repeat(least, most);
            self.skip();
        }
    }

    fn counts(&mut self) -> Result<(u32, Option<u32>), Refused> {
        let Some((inside, rest)) = self.rest.split_once('}') else { return self.error("a } is missing") };
        let number = |text: &str| text.trim().parse::<u32>().ok();
        let counts = match inside.split_once(',') {
            None => number(inside).map(|count| (count, Some(count))),
            Some((least, "")) => number(least).map(|least| (least, None)),
            Some(("", most)) => number(most).map(|most| (0, Some(most))),
            Some((least, most)) => number(least).zip(number(most)).map(|(least, most)| (least, Some(most))),
        };
        match counts.filter(|&(least, most)| most.is_none_or(|most| least <= most)) {
            Some(counts) => {
                self.rest = rest;
                Ok(counts)
            }
            None => self.error("a count was expected: {2}, {2,} or {2,5}"),
        }
    }

    fn literal(&mut self) -> Result<Expr, Refused> {
        self.eat("\"");
        let mut text = String::new();
        while !self.eat("\"") {
            text.push(self.character()?);
        }
        Ok(Expr::text(text))
    }

    fn class(&mut self) -> Result<Expr, Refused> {
        self.eat("[");
        let negated = self.eat("^");
        let mut ranges = Vec::new();
        while !self.eat("]") {
            let low = self.character()?;
            let range = self.rest.starts_with('-') && !self.rest.starts_with("-]");
            let high = if range {
                self.eat("-");
                self.character()?
            } else {
                low
            };
            if low > high {
                return self.error("a range in a class runs backwards");
            }
            ranges.push((low, high));
        }
        if negated {
            chars::class(complement(ranges), Encoding::Plain, self.budget)
        } else {
            chars::class(ranges, Encoding::Plain, self.budget)
        }
    }

    fn character(&mut self) -> Result<char, Refused> {
        let mut characters = self.rest.chars();
        let Some(first) = characters.next() else { return self.error("a literal or a class does not end") };
        if first != '\\' {
            self.rest = characters.as_str();
            return Ok(first);
        }
        let kind = characters.next();
        self.rest = characters.as_str();
        let length = match kind {
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some(c @ ('"' | '\\' | '[' | ']' | '^' | '-')) => return Ok(c),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            _ => {
                return self.error(
                    "unknown escape: use \\n, \\r, \\t, \\xHH, \\uHHHH or a backslash before \", \\, [, ], ^ or -",
                );
            }
        };
        let code = self.rest.get(..length).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match code.and_then(char::from_u32) {
            Some(character) => {
                self.rest = &self.rest[length..];
                Ok(character)
            }
            None => self.error(&format!("{length} hexadecimal digits of a character were expected")),
        }
    }
}

/// All characters but those in the ranges.
fn complement(mut ranges: Vec<(char, char)>) -> Vec<(char, char)> {
    ranges.sort_unstable();
    let mut class = regex_syntax::hir::ClassUnicode::new(
        ranges.into_iter().map(|(low, high)| regex_syntax::hir::ClassUnicodeRange::new(low, high)),
    );
    class.negate();
    class.iter().map(|range| (range.start(), range.end())).collect()
}
