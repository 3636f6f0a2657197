//! The smallest parts of an answer: numbers, names, groups, roots, functions, matrices.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Signed;

use super::answer::Answer;
use super::expression::Expression;
use super::lexer::{FUNCTIONS, Lexeme, PERIODS};
use super::parser::Parser;

impl Parser {
    /// Argument of a command or of `^`: a group in braces, or one character, of which digits stand alone.
    pub(super) fn argument(&mut self) -> Option<Expression> {
        if self.accept(&Lexeme::Sign('{')) {
            let Answer::Expression(value) = self.list(&[Lexeme::Sign('}')])? else { return None };
            self.expect('}')?;
            return Some(value);
        }
        if self.accept(&Lexeme::Sign('-')) {
            return Some(self.argument()?.negated());
        }
        if let Some(Lexeme::Number(digits)) = self.peek().cloned()
            && digits.len() > 1
            && digits.chars().all(|c| c.is_ascii_digit())
        {
            self.lexemes[self.at] = Lexeme::Number(digits[1..].into());
            return Expression::literal(&digits[..1]);
        }
        match self.atom()? {
            Answer::Expression(value) => Some(value),
            _ => None,
        }
    }

    /// The argument of a command, or several where there is a `±` in it.
    fn branches(&mut self) -> Option<Vec<Expression>> {
        if !self.accept(&Lexeme::Sign('{')) {
            return Some(vec![self.argument()?]);
        }
        let values = self.list(&[Lexeme::Sign('}')])?.items().into_iter().map(Answer::expression).collect();
        self.expect('}')?;
        values
    }

    /// The `x \mid` or `x \in \mathbb{R} :` of a set that is given by a condition.
    fn bound_variable(&mut self) -> Option<()> {
        let Some(Lexeme::Name(_)) = self.peek() else { return None };
        self.at += 1;
        if self.command() == Some("in") {
            self.at += 1;
            let Answer::Bracketed { items, .. } = self.atom()? else { return None };
            let infinite = |end: &Answer| matches!(end, Answer::Expression(end) if end.infinite().is_some());
            if !items.iter().all(infinite) {
                return None;
            }
        }
        let bar = [Lexeme::Sign('|'), Lexeme::Sign(':'), Lexeme::Command("mid".into())];
        bar.iter().any(|bar| self.accept(bar)).then_some(())
    }

    /// `_8` or `_{10}`, as text.
    fn subscript(&mut self) -> Option<String> {
        if !self.accept(&Lexeme::Sign('_')) {
            return None;
        }
        let braced = self.accept(&Lexeme::Sign('{'));
        let mut name = String::new();
        loop {
            match self.peek()? {
                Lexeme::Sign('}') if braced => break,
                Lexeme::Number(text) | Lexeme::Name(text) | Lexeme::Command(text) | Lexeme::Text(text) => {
                    name += text.trim();
                }
                Lexeme::Sign(sign) => name.push(*sign),
            }
            self.at += 1;
            if !braced {
                return Some(name);
            }
        }
        self.at += 1;
        Some(name)
    }

    pub(super) fn atom(&mut self) -> Option<Answer> {
        let lexeme = self.peek()?.clone();
        self.at += 1;
        Some(match lexeme {
            Lexeme::Number(digits) => self.number(&digits)?,
            Lexeme::Name(name) => self.name(name),
            Lexeme::Text(words) => Answer::Text(words),
            Lexeme::Command(name) => self.after_command(&name)?,
            Lexeme::Sign('(') => match self.lexemes[self.at..].first_chunk().cloned() {
                // `(52)_8`
                Some([Lexeme::Number(digits), Lexeme::Sign(')'), Lexeme::Sign('_')]) => {
                    self.at += 2;
                    self.number(&digits)?
                }
                _ => self.bracketed('(')?,
            },
            Lexeme::Sign('[') => self.bracketed('[')?,
            Lexeme::Sign('{') => {
                let inner = self.list(&[Lexeme::Sign('}')])?;
                self.expect('}')?;
                inner
            }
            Lexeme::Sign('|') => {
                self.bars += 1;
                let inner = self.list(&[Lexeme::Sign('|')]);
                self.bars -= 1;
                self.expect('|')?;
                Answer::Expression(Expression::Call("abs", vec![inner?.expression()?]))
            }
            Lexeme::Sign(_) => return None,
        })
    }

    fn number(&mut self, digits: &str) -> Option<Answer> {
        if digits.contains('.') && self.command().is_some_and(|command| PERIODS.contains(&command)) {
            self.at += 1;
            return self.repeating(digits);
        }
        match self.subscript() {
            Some(name) => Some(Answer::Based { digits: digits.trim_start_matches('0').into(), base: base(&name) }),
            None => Expression::literal(digits).map(Answer::Expression),
        }
    }

    /// `0.1\overline{6}`.
    fn repeating(&mut self, digits: &str) -> Option<Answer> {
        let braced = self.accept(&Lexeme::Sign('{'));
        let Some(Lexeme::Number(period)) = self.peek().cloned() else { return None };
        self.at += 1;
        if braced {
            self.expect('}')?;
        } else if period.len() > 1 {
            return None;
        }
        let (whole, fraction) = digits.split_once('.')?;
        let (count, length) = (u32::try_from(fraction.len()).ok()?, u32::try_from(period.len()).ok()?);
        let all: BigInt = format!("0{whole}{fraction}{period}").parse().ok()?;
        let head: BigInt = format!("0{whole}{fraction}").parse().ok()?;
        let denominator = BigInt::from(10).pow(count) * (BigInt::from(10).pow(length) - 1);
        Some(Answer::Expression(Expression::Number(BigRational::new(all - head, denominator))))
    }

    fn name(&mut self, mut name: String) -> Answer {
        if let Some(subscript) = self.subscript() {
            name = format!("{name}_{subscript}");
        }
        Answer::Expression(match name.as_str() {
            "i" => Expression::Imaginary,
            "e" => Expression::Euler,
            _ => Expression::Symbol(name),
        })
    }

    fn after_command(&mut self, name: &str) -> Option<Answer> {
        Some(Answer::Expression(match name {
            "pi" => Expression::Pi,
            "infty" => Expression::Infinity,
            "frac" => {
                let tops = self.branches()?;
                let bottom = self.argument()?;
                let mut quotients = tops.into_iter().map(|top| Answer::Expression(top.over(bottom.clone())));
                return if quotients.len() == 1 { quotients.next() } else { Some(Answer::List(quotients.collect())) };
            }
            "binom" | "dbinom" | "tbinom" => {
                let top = self.argument()?;
                Expression::Call("binom", vec![top, self.argument()?])
            }
            "sqrt" => self.root()?,
            "lfloor" | "lceil" => {
                let (closer, function) = if name == "lfloor" { ("rfloor", "floor") } else { ("rceil", "ceil") };
                let closer = Lexeme::Command(closer.into());
                let inner = self.list(std::slice::from_ref(&closer))?.expression()?;
                if !self.accept(&closer) {
                    return None;
                }
                Expression::Call(function, vec![inner])
            }
            "{" => {
                let closer = Lexeme::Command("}".into());
                let start = self.at;
                if self.bound_variable().is_some() {
                    let condition = self.list(std::slice::from_ref(&closer))?;
                    return self.accept(&closer).then_some(condition);
                }
                self.at = start;
                let inner = self.list(std::slice::from_ref(&closer)).unwrap_or(Answer::List(Vec::new()));
                return self.accept(&closer).then(|| Answer::Set(inner.items()));
            }
            "langle" => {
                let closer = Lexeme::Command("rangle".into());
                let inner = self.list(std::slice::from_ref(&closer))?;
                return self.accept(&closer).then(|| Answer::Bracketed { open: '(', close: ')', items: inner.items() });
            }
            "begin" => return self.matrix(),
            "emptyset" | "varnothing" => return Some(Answer::Set(Vec::new())),
            "overline" | "bar" | "vec" | "hat" => Expression::Call("conjugate", vec![self.argument()?]),
            _ => match FUNCTIONS.iter().find(|function| **function == name) {
                Some(function) => self.function(function)?,
                None => {
                    let letter = greek(name)?;
                    return Some(self.name(letter.into()));
                }
            },
        }))
    }

    fn root(&mut self) -> Option<Expression> {
        let degree = if self.accept(&Lexeme::Sign('[')) {
            let degree = self.list(&[Lexeme::Sign(']')])?.expression()?;
            self.expect(']')?;
            degree
        } else {
            Expression::integer(2)
        };
        let radicand = if self.accept(&Lexeme::Sign('(')) {
            let inner = self.list(&[Lexeme::Sign(')')])?.expression()?;
            self.expect(')')?;
            inner
        } else {
            self.argument()?
        };
        // An odd root of a negative number is the real one.
        let negative = radicand.exact().is_some_and(|value| value.is_negative());
        let odd = degree.exact().is_some_and(|degree| degree.is_integer() && degree.to_integer().bit(0));
        let root = |radicand: Expression| Expression::Power(Box::new(radicand), Box::new(degree.inverted()));
        Some(if negative && odd { root(radicand.negated()).negated() } else { root(radicand) })
    }

    /// `\sin^2 x`, `\log_2 (x+1)`, `\max(1, 2)`.
    fn function(&mut self, name: &'static str) -> Option<Expression> {
        let base = if name == "log" && self.accept(&Lexeme::Sign('_')) { Some(self.argument()?) } else { None };
        let exponent = if self.accept(&Lexeme::Sign('^')) { Some(self.argument()?) } else { None };
        let arguments = if self.sign('(') {
            self.at += 1;
            let inner = self.list(&[Lexeme::Sign(')')])?;
            self.expect(')')?;
            inner.items().into_iter().map(Answer::expression).collect::<Option<Vec<_>>>()?
        } else {
            vec![self.function_argument()?]
        };
        let (name, exponent) = match (name, exponent) {
            ("sin" | "cos" | "tan", Some(exponent)) if exponent == Expression::integer(-1) => (inverse(name), None),
            other => other,
        };
        let call = Expression::Call(name, base.into_iter().chain(arguments).collect());
        Some(match exponent {
            Some(exponent) => Expression::Power(Box::new(call), Box::new(exponent)),
            None => call,
        })
    }

    /// The product that follows a function without parentheses, up to the next function.
    fn function_argument(&mut self) -> Option<Expression> {
        let mut factors = vec![self.power()?.expression()?];
        while self.starts_factor()
            && !matches!(self.peek(), Some(Lexeme::Text(_)))
            && !self.command().is_some_and(|name| FUNCTIONS.contains(&name))
        {
            factors.push(self.power()?.expression()?);
        }
        if factors.len() == 1 { factors.pop() } else { Some(Expression::Product(factors)) }
    }

    fn bracketed(&mut self, open: char) -> Option<Answer> {
        let inner = self.list(&[Lexeme::Sign(')'), Lexeme::Sign(']')]);
        let close = match self.peek()? {
            Lexeme::Sign(close @ (')' | ']')) => *close,
            _ => return None,
        };
        self.at += 1;
        Some(match inner? {
            Answer::List(items) => Answer::Bracketed { open, close, items },
            single if open == '(' && close == ')' => single,
            single if open == '[' && close == ']' => single,
            _ => return None,
        })
    }

    fn matrix(&mut self) -> Option<Answer> {
        self.skip_group()?;
        if self.sign('{') {
            self.skip_group()?;
        }
        let end = Lexeme::Command("end".into());
        let (cell, row) = (Lexeme::Sign('&'), Lexeme::Command("\\".into()));
        let closers = [cell.clone(), row.clone(), end.clone()];
        let mut rows = vec![Vec::new()];
        loop {
            if self.accept(&end) {
                break;
            }
            let entry = self.list(&closers)?;
            rows.last_mut()?.push(entry);
            if self.accept(&row) {
                rows.push(Vec::new());
            } else if !self.accept(&cell) && self.peek() != Some(&end) {
                return None;
            }
        }
        self.skip_group()?;
        rows.retain(|row| !row.is_empty());
        Some(Answer::Matrix(rows))
    }

    /// Skips `{...}`, the name of an environment.
    fn skip_group(&mut self) -> Option<()> {
        self.expect('{')?;
        while !self.sign('}') {
            self.peek()?;
            self.at += 1;
        }
        self.expect('}')
    }
}

/// `\tan^{-1}` is no reciprocal.
fn inverse(name: &str) -> &'static str {
    match name {
        "sin" => "arcsin",
        "cos" => "arccos",
        _ => "arctan",
    }
}

/// The base that a subscript names: `8`, `(8)`, `base 8` or `eight`.
fn base(subscript: &str) -> String {
    const WORDS: [&str; 9] = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    let name: String = subscript.chars().filter(|c| c.is_alphanumeric()).collect();
    let name = name.trim_start_matches("base");
    match WORDS.iter().position(|word| *word == name) {
        Some(place) => (place + 2).to_string(),
        None => name.into(),
    }
}

/// The name of a Greek letter other than π, which is a number here.
pub(super) fn greek(name: &str) -> Option<&str> {
    const LETTERS: [&str; 22] = [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "varepsilon",
        "zeta",
        "eta",
        "theta",
        "iota",
        "kappa",
        "lambda",
        "mu",
        "nu",
        "xi",
        "rho",
        "sigma",
        "tau",
        "phi",
        "varphi",
        "omega",
        "ell",
    ];
    LETTERS.contains(&name).then_some(name)
}
