//! Answers, and when two of them mean the same.

use std::collections::{BTreeMap, BTreeSet};

use num_traits::{Signed, ToPrimitive};

use super::expression::Expression;
use super::numeric::{Complex, evaluate};
use super::parser::hundredth;

/// A parsed answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    Expression(Expression),
    Percent(Expression),
    /// Digits in a base: `52_8`.
    Based {
        digits: String,
        base: String,
    },
    /// `1, 2`: several values, in any order.
    List(Vec<Answer>),
    Set(Vec<Answer>),
    /// A tuple or an interval.
    Bracketed {
        open: char,
        close: char,
        items: Vec<Answer>,
    },
    Union(Vec<Answer>),
    Matrix(Vec<Vec<Answer>>),
    Equation(Expression, Expression),
    /// An inequality that is no interval.
    Inequality(Vec<(Expression, Relation, Expression)>),
    Text(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

impl Relation {
    fn flipped(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::Greater => Self::Less,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::GreaterOrEqual => Self::LessOrEqual,
            other => other,
        }
    }
}

/// Number of points at which two expressions are compared.
const POINTS: usize = 8;
/// Relative tolerance between two values.
const TOLERANCE: f64 = 1e-9;
/// A decimal with so many digits may be rounded.
const ROUNDED: usize = 6;

impl Answer {
    pub(super) fn expression(self) -> Option<Expression> {
        match self {
            Self::Expression(expression) => Some(expression),
            Self::Percent(expression) => Some(Expression::Product(vec![expression, hundredth()])),
            _ => None,
        }
    }

    /// The items of a list, or the answer itself.
    pub(super) fn items(self) -> Vec<Self> {
        match self {
            Self::List(items) => items,
            other => vec![other],
        }
    }

    /// Both values of a `±`, or the answer itself.
    pub(super) fn alternatives(self) -> Vec<Self> {
        self.items()
    }

    /// True if it is a number.
    pub(super) fn is_value(&self) -> bool {
        matches!(self, Self::Expression(value) | Self::Percent(value) if !value.has_symbols())
    }

    /// `(a, b) \setminus \{c\}`: intervals without the points, or the interval, that lie inside one of them.
    pub(super) fn without(mut intervals: Vec<Self>, removed: Self) -> Option<Vec<Self>> {
        let gaps = match removed {
            Self::Set(points) => points.into_iter().map(|point| ('[', ']', [point.clone(), point])).collect(),
            gap => vec![gap.interval()?],
        };
        for (open, close, [from, to]) in gaps {
            let around = |interval: &Self| {
                let (_, _, [low, high]) = interval.clone().interval()?;
                Some(low.bound()? < from.bound()? && to.bound()? < high.bound()?)
            };
            let place = intervals.iter().position(|interval| around(interval) == Some(true))?;
            let (first, last, [low, high]) = intervals.swap_remove(place).interval()?;
            let (end, start) = (if open == '[' { ')' } else { ']' }, if close == ']' { '(' } else { '[' });
            intervals.push(Self::Bracketed { open: first, close: end, items: vec![low, from] });
            intervals.push(Self::Bracketed { open: start, close: last, items: vec![to, high] });
        }
        Some(intervals)
    }

    /// The brackets and the ends of an interval.
    fn interval(self) -> Option<(char, char, [Self; 2])> {
        match self {
            Self::Bracketed { open, close, items } => Some((open, close, items.try_into().ok()?)),
            _ => None,
        }
    }

    /// Value of an interval's end on the real line.
    fn bound(&self) -> Option<f64> {
        let Self::Expression(end) = self else { return None };
        match end.infinite() {
            Some(sign) => Some(f64::from(sign) * f64::INFINITY),
            None => evaluate(end, &BTreeMap::new()).map(|value| value.re),
        }
    }

    /// A chain of relations: an equation, an interval, or an inequality.
    pub(super) fn related(chain: Vec<(Self, Relation, Self)>) -> Option<Self> {
        if let [(left, Relation::Equal, right)] = chain.as_slice() {
            return Some(match (left.clone(), right.clone()) {
                (Self::Expression(left), Self::Expression(right)) => Self::Equation(left, right),
                // `A = \begin{pmatrix}…`, `(x, y) = (1, 2)`: the right side is the answer.
                (_, right) => right,
            });
        }
        if chain.iter().all(|(_, relation, _)| *relation == Relation::Equal) {
            return chain.into_iter().next_back().map(|(_, _, right)| right);
        }
        let chain: Vec<_> = chain
            .into_iter()
            .map(|(left, relation, right)| Some((left.expression()?, relation, right.expression()?)))
            .collect::<Option<_>>()?;
        Some(interval(&chain).unwrap_or(Self::Inequality(chain)))
    }

    /// A matrix times numbers.
    pub(super) fn scaled(factors: Vec<Expression>, matrix: Self) -> Self {
        let Self::Matrix(rows) = matrix else { return matrix };
        let scale = |cell: Self| match cell {
            Self::Expression(value) => {
                Self::Expression(Expression::Product(factors.iter().cloned().chain([value]).collect()))
            }
            other => other,
        };
        Self::Matrix(rows.into_iter().map(|row| row.into_iter().map(scale).collect()).collect())
    }

    /// The right side of an equation that says what its left side comes to, as in `m + n = 17`, `f(2) = 3` or `5! = 120`.
    /// One that is still to be solved, as `2x = 6` or `x + 1 = 3`, says nothing of that kind.
    pub(super) fn stated(&self) -> Option<Self> {
        let Self::Equation(left, right) = self else { return None };
        let named = match left {
            Expression::Product(factors) => factors.first().is_some_and(Expression::has_symbols),
            Expression::Sum(terms) => terms.iter().all(Expression::has_symbols),
            other => other.has_symbols(),
        };
        (named || same(left, right)).then(|| Self::Expression(right.clone()))
    }

    /// True if both mean the same.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Expression(a), Self::Expression(b)) => same(a, b),
            (Self::Percent(a), Self::Percent(b)) => same(a, b),
            (Self::Percent(a), Self::Expression(b)) | (Self::Expression(b), Self::Percent(a)) => {
                same(a, b) || same(&Expression::Product(vec![a.clone(), hundredth()]), b)
            }
            (Self::Based { digits: a, base: x }, Self::Based { digits: b, base: y }) => a == b && x == y,
            (Self::Based { digits, .. }, Self::Expression(value))
            | (Self::Expression(value), Self::Based { digits, .. }) => {
                Expression::literal(digits).is_some_and(|digits| same(&digits, value))
            }
            (Self::Text(a), Self::Text(b)) => words(a) == words(b),
            (Self::Text(a), Self::Expression(Expression::Symbol(b)))
            | (Self::Expression(Expression::Symbol(b)), Self::Text(a)) => words(a) == words(b),
            (Self::Equation(a, b), Self::Equation(c, d)) => equation(a, b, c, d),
            (Self::Equation(a, b), Self::Expression(value)) | (Self::Expression(value), Self::Equation(a, b)) => {
                solved(a, b).is_some_and(|solution| same(solution, value))
            }
            (Self::Equation(a, b), other) | (other, Self::Equation(a, b)) => {
                solved(a, b).is_some_and(|solution| Self::Expression(solution.clone()).equals(other))
            }
            (Self::Inequality(a), Self::Inequality(b)) => inequality(a, b) || inequality(&turned(a), b),
            (Self::Set(a) | Self::List(a), Self::Set(b) | Self::List(b)) => matched(a, b) || values_match(a, b),
            // `x < 1 or x > 2` is a list of intervals.
            (Self::Union(a), Self::Union(b) | Self::List(b)) | (Self::List(a), Self::Union(b)) => matched(a, b),
            (
                Self::Bracketed { open, close, items },
                Self::Bracketed { open: other_open, close: other_close, items: others },
            ) => open == other_open && close == other_close && in_order(items, others),
            (Self::Bracketed { open: '(', close: ')', items }, Self::List(others))
            | (Self::List(others), Self::Bracketed { open: '(', close: ')', items }) => in_order(items, others),
            (Self::Set(items), single) | (single, Self::Set(items)) if items.len() == 1 => items[0].equals(single),
            (Self::Matrix(a), Self::Matrix(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| in_order(a, b)),
            (Self::Matrix(rows), Self::Bracketed { items, .. })
            | (Self::Bracketed { items, .. }, Self::Matrix(rows)) => {
                let column: Vec<Self> = rows.iter().filter(|row| row.len() == 1).flatten().cloned().collect();
                column.len() == rows.len() && in_order(&column, items)
            }
            // `\frac{9}{5} \text{ or } 1.8`
            (Self::List(items), single) | (single, Self::List(items)) => items.iter().all(|item| item.equals(single)),
            _ => false,
        }
    }
}

/// The text of an answer in words, without what does not matter.
fn words(text: &str) -> String {
    text.chars().filter(|character| character.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn in_order(a: &[Answer], b: &[Answer]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b))
}

/// True if the items pair up, in any order.
fn matched(a: &[Answer], b: &[Answer]) -> bool {
    let mut left: Vec<&Answer> = b.iter().collect();
    let pairs = |item: &Answer| match left.iter().position(|other| item.equals(other)) {
        Some(found) => {
            left.swap_remove(found);
            true
        }
        None => false,
    };
    a.len() == b.len() && a.iter().all(pairs)
}

/// `x = 1, x = 2` against `1, 2` with one variable on both sides.
fn values_match(a: &[Answer], b: &[Answer]) -> bool {
    let values = |items: &[Answer]| -> Option<Vec<Answer>> {
        let value = |item: &Answer| match item {
            Answer::Equation(left, right) => solved(left, right).cloned().map(Answer::Expression),
            other => Some(other.clone()),
        };
        items.iter().map(value).collect()
    };
    let equations = |items: &[Answer]| items.iter().filter(|item| matches!(item, Answer::Equation(..))).count();
    let one_sided = equations(a) == 0 || equations(b) == 0;
    one_sided && matches!((values(a), values(b)), (Some(a), Some(b)) if matched(&a, &b))
}

/// The value of the variable in `x = value` or `value = x`, or of `f(x) = value`.
fn solved<'a>(left: &'a Expression, right: &'a Expression) -> Option<&'a Expression> {
    let named = |side: &Expression| match side {
        Expression::Symbol(_) => true,
        Expression::Product(parts) => {
            parts.len() == 2 && parts.iter().all(|part| matches!(part, Expression::Symbol(_)))
        }
        _ => false,
    };
    if named(left) { Some(right) } else { matches!(right, Expression::Symbol(_)).then_some(left) }
}

/// `a < x ≤ b` or `x > a` as an interval.
fn interval(chain: &[(Expression, Relation, Expression)]) -> Option<Answer> {
    use Relation::{Greater, GreaterOrEqual, Less, LessOrEqual};
    let bracket = |low: Expression, closed: bool, high: Expression, closed_high: bool| Answer::Bracketed {
        open: if closed { '[' } else { '(' },
        close: if closed_high { ']' } else { ')' },
        items: vec![Answer::Expression(low), Answer::Expression(high)],
    };
    let (infinity, negative) = (Expression::Infinity, Expression::Infinity.negated());
    match chain {
        [(Expression::Symbol(_), relation, bound)] | [(bound, relation, Expression::Symbol(_))] => {
            let relation = if matches!(chain[0].0, Expression::Symbol(_)) { *relation } else { relation.flipped() };
            match relation {
                Less | LessOrEqual => Some(bracket(negative, false, bound.clone(), relation == LessOrEqual)),
                Greater | GreaterOrEqual => Some(bracket(bound.clone(), relation == GreaterOrEqual, infinity, false)),
                _ => None,
            }
        }
        [(low, first @ (Less | LessOrEqual), Expression::Symbol(_)), (_, second @ (Less | LessOrEqual), high)] => {
            Some(bracket(low.clone(), *first == LessOrEqual, high.clone(), *second == LessOrEqual))
        }
        [
            (high, first @ (Greater | GreaterOrEqual), Expression::Symbol(_)),
            (_, second @ (Greater | GreaterOrEqual), low),
        ] => Some(bracket(low.clone(), *second == GreaterOrEqual, high.clone(), *first == GreaterOrEqual)),
        _ => None,
    }
}

type Chain = [(Expression, Relation, Expression)];

fn inequality(a: &Chain, b: &Chain) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.1 == b.1 && same(&a.0, &b.0) && same(&a.2, &b.2))
}

/// The same chain written from the other end.
fn turned(chain: &Chain) -> Vec<(Expression, Relation, Expression)> {
    chain.iter().rev().map(|(left, relation, right)| (right.clone(), relation.flipped(), left.clone())).collect()
}

/// True if two expressions have the same value wherever both have one.
pub(super) fn same(a: &Expression, b: &Expression) -> bool {
    if a == b {
        return true;
    }
    if let (Some(x), Some(y)) = (a.infinite(), b.infinite()) {
        return x == y;
    }
    // A long decimal may stand for what it rounds, if the other side is no decimal itself.
    let slack = match (a.decimals(), b.decimals()) {
        (Some(digits), None) | (None, Some(digits)) if digits >= ROUNDED => 0.5 * 10f64.powi(-(digits.min(15) as i32)),
        _ => 0.0,
    };
    if let (Some(x), Some(y)) = (a.exact(), b.exact()) {
        return x == y || (x - y).abs().to_f64().is_some_and(|distance| distance <= slack * (1.0 + TOLERANCE));
    }
    let near =
        |x: Complex, y: Complex| (x - y).magnitude() <= slack + TOLERANCE * x.magnitude().max(y.magnitude()).max(1e-3);
    let values: Vec<(Complex, Complex)> =
        points(&[a, b]).filter_map(|point| Some((evaluate(a, &point)?, evaluate(b, &point)?))).collect();
    !values.is_empty() && values.into_iter().all(|(x, y)| near(x, y))
}

/// True if `a = b` says the same as `c = d`: their differences are proportional.
fn equation(a: &Expression, b: &Expression, c: &Expression, d: &Expression) -> bool {
    if same(a, c) && same(b, d) || same(a, d) && same(b, c) {
        return true;
    }
    let (left, right) = (a.clone().minus(b.clone()), c.clone().minus(d.clone()));
    let mut symbols = [BTreeSet::new(), BTreeSet::new()];
    left.symbols(&mut symbols[0]);
    right.symbols(&mut symbols[1]);
    if symbols[0] != symbols[1] || symbols[0].is_empty() {
        return false;
    }
    let ratios: Vec<Complex> = points(&[&left, &right])
        .filter_map(|point| Some(evaluate(&left, &point)? / evaluate(&right, &point)?))
        .filter(|ratio| ratio.is_finite())
        .collect();
    let Some(&first) = ratios.first() else { return false };
    ratios.len() >= 3 && ratios.iter().all(|ratio| (*ratio - first).magnitude() <= 1e-7 * first.magnitude())
}

/// Values for the variables of both, always the same ones.
fn points(expressions: &[&Expression]) -> impl Iterator<Item = BTreeMap<String, f64>> {
    let mut symbols = BTreeSet::new();
    expressions.iter().for_each(|expression| expression.symbols(&mut symbols));
    let count = if symbols.is_empty() { 1 } else { POINTS };
    (0..count).map(move |number| {
        let value = |(index, name): (usize, &String)| {
            let draw = lacuna::Draw::new(0x6d61_7468, number, index).uniform(0);
            // The first points are positive, where roots and logarithms are real.
            let value = 0.3 + 2.4 * draw;
            (name.clone(), if number < POINTS / 2 { value } else { value - 1.5 })
        };
        symbols.iter().enumerate().map(value).collect()
    })
}
