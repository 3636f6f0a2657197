//! From lexemes to an answer.

use num_rational::BigRational;

use super::answer::{Answer, Relation};
use super::atoms::greek;
use super::expression::Expression;
use super::lexer::{FUNCTIONS, Lexeme, lex};

/// Deeper nesting is no answer but an accident.
const MAX_DEPTH: usize = 48;

/// Reads an answer; `None` if it is nothing that could be computed with.
pub(super) fn parse(text: &str, thousands: bool) -> Option<Answer> {
    let mut parser = Parser { lexemes: lex(text, thousands), at: 0, depth: 0, bars: 0 };
    let answer = parser.list(&[])?;
    (parser.at == parser.lexemes.len()).then_some(answer)
}

pub(super) struct Parser {
    pub(super) lexemes: Vec<Lexeme>,
    pub(super) at: usize,
    depth: usize,
    /// Number of open absolute values, whose bars therefore close.
    pub(super) bars: usize,
}

impl Parser {
    pub(super) fn peek(&self) -> Option<&Lexeme> {
        self.lexemes.get(self.at)
    }

    pub(super) fn sign(&self, sign: char) -> bool {
        self.peek() == Some(&Lexeme::Sign(sign))
    }

    pub(super) fn command(&self) -> Option<&str> {
        match self.peek() {
            Some(Lexeme::Command(name)) => Some(name),
            _ => None,
        }
    }

    pub(super) fn accept(&mut self, lexeme: &Lexeme) -> bool {
        let found = self.peek() == Some(lexeme);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, sign: char) -> Option<()> {
        self.accept(&Lexeme::Sign(sign)).then_some(())
    }

    /// Items between commas, semicolons, "and" and "or", until one of `closers`.
    pub(super) fn list(&mut self, closers: &[Lexeme]) -> Option<Answer> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut items = Vec::new();
        loop {
            while self.separator() {}
            match self.peek() {
                None => break,
                Some(lexeme) if closers.contains(lexeme) => break,
                Some(_) => {}
            }
            items.extend(self.relation()?.alternatives());
            if !(self.peek().is_none_or(|lexeme| closers.contains(lexeme)) || self.separator()) {
                return None;
            }
        }
        self.depth -= 1;
        match items.len() {
            0 => None,
            1 => items.pop(),
            _ => Some(Answer::List(items)),
        }
    }

    fn separator(&mut self) -> bool {
        let found = self.at_separator();
        self.at += usize::from(found);
        found
    }

    fn at_separator(&self) -> bool {
        match self.peek() {
            Some(Lexeme::Sign(',' | ';')) => true,
            Some(Lexeme::Text(text)) => {
                matches!(text.trim().trim_matches(',').trim().to_lowercase().as_str(), "and" | "or" | "")
            }
            Some(Lexeme::Command(name)) => matches!(name.as_str(), "lor" | "vee" | "land" | "wedge"),
            _ => false,
        }
    }

    /// `a`, `a = b`, `a < b ≤ c`, `x ∈ S`.
    fn relation(&mut self) -> Option<Answer> {
        // `= 7` says no more than `7`.
        if self.sign('=') || self.command() == Some("approx") {
            self.at += 1;
        }
        let mut left = self.union()?;
        let mut chain = Vec::new();
        loop {
            let rounds = self.command() == Some("approx") && left.is_value();
            let Some(relation) = self.relation_sign() else { break };
            let right = self.union()?;
            if relation == Relation::In {
                return Some(right);
            }
            // In `\sqrt{51} \approx 7.14` the left side is the answer.
            if !rounds {
                chain.push((left, relation, right.clone()));
                left = right;
            }
        }
        if chain.is_empty() { Some(left) } else { Answer::related(chain) }
    }

    fn relation_sign(&mut self) -> Option<Relation> {
        let relation = match self.peek()? {
            Lexeme::Sign('=') => Relation::Equal,
            Lexeme::Sign('<') => Relation::Less,
            Lexeme::Sign('>') => Relation::Greater,
            Lexeme::Command(name) => match name.as_str() {
                "le" | "leq" | "leqslant" => Relation::LessOrEqual,
                "ge" | "geq" | "geqslant" => Relation::GreaterOrEqual,
                "lt" => Relation::Less,
                "gt" => Relation::Greater,
                "ne" | "neq" => Relation::NotEqual,
                "in" => Relation::In,
                "approx" | "equiv" => Relation::Equal,
                _ => return None,
            },
            _ => return None,
        };
        self.at += 1;
        let or_equal = self.sign('=');
        Some(match relation {
            Relation::Less if or_equal => self.skip(Relation::LessOrEqual),
            Relation::Greater if or_equal => self.skip(Relation::GreaterOrEqual),
            other => other,
        })
    }

    fn skip<T>(&mut self, value: T) -> T {
        self.at += 1;
        value
    }

    fn union(&mut self) -> Option<Answer> {
        let mut parts = vec![self.sum()?];
        loop {
            match self.command() {
                Some("cup") => {
                    self.at += 1;
                    parts.push(self.sum()?);
                }
                Some("setminus" | "backslash") => {
                    self.at += 1;
                    parts = Answer::without(parts, self.sum()?)?;
                }
                _ => break,
            }
        }
        if parts.len() == 1 { parts.pop() } else { Some(Answer::Union(parts)) }
    }

    fn sum(&mut self) -> Option<Answer> {
        let mut terms: Vec<(i8, Answer)> = Vec::new();
        loop {
            let sign = match self.peek() {
                Some(Lexeme::Sign('+')) => self.skip(Some(1)),
                Some(Lexeme::Sign('-')) => self.skip(Some(-1)),
                Some(Lexeme::Command(name)) if name == "pm" || name == "mp" => self.skip(Some(0)),
                _ => None,
            };
            match sign {
                None if !terms.is_empty() => break,
                _ => terms.push((sign.unwrap_or(1), self.product()?)),
            }
        }
        match terms.as_slice() {
            [(1, _)] => return terms.pop().map(|(_, term)| term),
            [(-1, Answer::Matrix(_))] => {
                return terms.pop().map(|(_, matrix)| Answer::scaled(vec![Expression::integer(-1)], matrix));
            }
            _ => {}
        }
        let mut branches = vec![Vec::new()];
        let mut text = None;
        for (sign, term) in terms {
            let term = match term {
                Answer::Expression(term) => term,
                Answer::Text(words) => {
                    text = Some(words);
                    continue;
                }
                Answer::Percent(term) => Expression::Product(vec![term, hundredth()]),
                _ => return None,
            };
            let doubled = sign == 0;
            let mut negative = branches.clone();
            branches
                .iter_mut()
                .for_each(|branch| branch.push(if sign < 0 { term.clone().negated() } else { term.clone() }));
            if doubled {
                negative.iter_mut().for_each(|branch| branch.push(term.clone().negated()));
                branches.extend(negative);
            }
            if branches.len() > 16 {
                return None;
            }
        }
        let single = |mut terms: Vec<Expression>| {
            Answer::Expression(if terms.len() == 1 { terms.remove(0) } else { Expression::Sum(terms) })
        };
        match (branches.len(), text) {
            (_, Some(words)) if branches[0].is_empty() => Some(Answer::Text(words)),
            (1, _) => branches.pop().map(single),
            _ => Some(Answer::List(branches.into_iter().map(single).collect())),
        }
    }

    fn product(&mut self) -> Option<Answer> {
        let start = self.at;
        let first = self.power()?;
        let mut factors = Vec::new();
        let mut percent = false;
        match first {
            Answer::Expression(first) => factors.push(first),
            Answer::Text(words) => {
                // Words that stand alone are the answer; in front of a number they say what it counts.
                if !self.starts_factor() {
                    return Some(Answer::Text(words));
                }
            }
            other => {
                self.units();
                return Some(other);
            }
        }
        loop {
            self.units();
            if self.accept(&Lexeme::Sign('%')) {
                percent = true;
                continue;
            }
            let whole = matches!(factors.as_slice(), [Expression::Number(whole)] if whole.is_integer());
            let mut mixed = false;
            let divides = match self.peek() {
                Some(Lexeme::Sign('*')) => self.skip(false),
                Some(Lexeme::Sign('/')) => self.skip(true),
                Some(Lexeme::Sign(':')) => self.skip(true),
                Some(Lexeme::Command(name)) if matches!(name.as_str(), "cdot" | "times" | "ast") => self.skip(false),
                Some(Lexeme::Command(name)) if name == "div" => self.skip(true),
                _ if self.starts_factor() => {
                    mixed = whole && self.command() == Some("frac");
                    // Digits beside digits are no product.
                    if self.digits_on_both_sides() {
                        let fraction = self.fraction_of_digits().filter(|_| whole)?;
                        factors.push(fraction);
                        factors = vec![Expression::Sum(factors)];
                        continue;
                    }
                    false
                }
                _ => break,
            };
            let negative = self.accept(&Lexeme::Sign('-'));
            let factor = match self.power()? {
                Answer::Expression(factor) => factor,
                Answer::Text(_) => continue,
                matrix @ Answer::Matrix(_) => return Some(Answer::scaled(factors, matrix)),
                _ => return None,
            };
            // A whole number directly before a fraction of whole numbers is a mixed number.
            if mixed && matches!(factor, Expression::Product(_)) && factor.exact().is_some() {
                factors.push(factor);
                factors = vec![Expression::Sum(factors)];
                continue;
            }
            let factor = if negative { factor.negated() } else { factor };
            factors.push(if divides { factor.inverted() } else { factor });
        }
        if factors.is_empty() {
            let words = self.lexemes[start..self.at].iter().filter_map(|lexeme| match lexeme {
                Lexeme::Text(words) => Some(words.as_str()),
                _ => None,
            });
            return Some(Answer::Text(words.collect()));
        }
        let expression = if factors.len() == 1 { factors.pop()? } else { Expression::Product(factors) };
        Some(if percent { Answer::Percent(expression) } else { Answer::Expression(expression) })
    }

    /// Skips units: words, with an exponent.
    fn units(&mut self) {
        while matches!(self.peek(), Some(Lexeme::Text(_))) && !self.at_separator() {
            self.at += 1;
            if self.accept(&Lexeme::Sign('^')) {
                let _ = self.argument();
            }
        }
    }

    fn digits_on_both_sides(&self) -> bool {
        matches!(self.lexemes.get(self.at.wrapping_sub(1)..=self.at), Some([Lexeme::Number(_), Lexeme::Number(_)]))
    }

    /// The fraction behind the whole number of a mixed number such as `5 1/2`.
    fn fraction_of_digits(&mut self) -> Option<Expression> {
        let [Lexeme::Number(top), Lexeme::Sign('/'), Lexeme::Number(bottom), ..] = &self.lexemes[self.at..] else {
            return None;
        };
        let fraction = Expression::literal(top)?.over(Expression::literal(bottom)?);
        self.at += 3;
        Some(fraction)
    }

    pub(super) fn starts_factor(&self) -> bool {
        match self.peek() {
            Some(Lexeme::Number(_) | Lexeme::Name(_)) => true,
            Some(Lexeme::Text(_)) => !self.at_separator(),
            Some(Lexeme::Sign('(' | '[' | '{')) => true,
            Some(Lexeme::Sign('|')) => self.bars == 0,
            Some(Lexeme::Command(name)) => {
                FUNCTIONS.contains(&name.as_str())
                    || matches!(
                        name.as_str(),
                        "frac"
                            | "sqrt"
                            | "pi"
                            | "infty"
                            | "binom"
                            | "lfloor"
                            | "lceil"
                            | "begin"
                            | "overline"
                            | "bar"
                            | "{"
                            | "langle"
                            | "vec"
                    )
                    || greek(name).is_some()
            }
            _ => false,
        }
    }

    pub(super) fn power(&mut self) -> Option<Answer> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut base = self.atom()?;
        loop {
            if self.accept(&Lexeme::Sign('!')) {
                let Answer::Expression(value) = base else { return None };
                base = Answer::Expression(Expression::Call("factorial", vec![value]));
            } else if self.accept(&Lexeme::Sign('^')) {
                let exponent = self.argument()?;
                base = match (base, exponent) {
                    (Answer::Expression(base), exponent) => {
                        Answer::Expression(Expression::Power(Box::new(base), Box::new(exponent)))
                    }
                    (Answer::Text(words), _) => Answer::Text(words),
                    _ => return None,
                };
            } else if self.accept(&Lexeme::Sign('\'')) {
                let Answer::Expression(Expression::Symbol(name)) = base else { return None };
                base = Answer::Expression(Expression::Symbol(name + "'"));
            } else {
                self.depth -= 1;
                return Some(base);
            }
        }
    }
}

pub(super) fn hundredth() -> Expression {
    Expression::Number(BigRational::new(1.into(), 100.into()))
}
