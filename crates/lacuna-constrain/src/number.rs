//! Numbers in JSON: integers and decimals within bounds.

use crate::{
    Refused,
    automaton::{Budget, Dfa, DfaBuilder, Expr, intersect},
};

/// Decimals within bounds have at most this many digits behind the point.
const FRACTION: usize = 8;
/// Bounds lie within ± this.
const MAX_NUMBER: f64 = 1e15;
/// The largest factor whose multiples are counted out.
const FACTOR: u32 = 4096;

/// Bounds of a number, both included, in units of 10^-FRACTION for decimals and of 1 for integers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) least: Option<i128>,
    pub(crate) most: Option<i128>,
}

/// One bound of a schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) value: f64,
    pub(crate) exclusive: bool,
}

impl Bounds {
    /// The bounds of integers, in units of 1.
    pub(crate) fn integers(least: &[Bound], most: &[Bound]) -> Result<Self, Refused> {
        let lowest = |bound: &Bound| {
            let whole = in_range(bound.value)?.ceil();
            Ok(whole as i128 + i128::from(bound.exclusive && whole == bound.value))
        };
        let highest = |bound: &Bound| {
            let whole = in_range(bound.value)?.floor();
            Ok(whole as i128 - i128::from(bound.exclusive && whole == bound.value))
        };
        Self::tightest(least, lowest, most, highest)
    }

    /// The bounds of decimals, in units of 10^-FRACTION, rounded inwards. What lies within them does so when it is read as
    /// a 64-bit float, too.
    pub(crate) fn decimals(least: &[Bound], most: &[Bound]) -> Result<Self, Refused> {
        let nearest = |value: f64| {
            let text = format!("{value:.FRACTION$}");
            let units = text.replace('.', "").parse::<i128>().ok();
            units
                .zip(text.parse::<f64>().ok())
                .ok_or_else(|| Refused::new(format!("the bound {value} is not a number")))
        };
        let lowest = |bound: &Bound| {
            let value = in_range(bound.value)?;
            let value = if bound.exclusive { value.next_up() } else { value };
            nearest(value).map(|(units, rounded)| units + i128::from(rounded < value))
        };
        let highest = |bound: &Bound| {
            let value = in_range(bound.value)?;
            let value = if bound.exclusive { value.next_down() } else { value };
            nearest(value).map(|(units, rounded)| units - i128::from(rounded > value))
        };
        Self::tightest(least, lowest, most, highest)
    }

    fn tightest(
        least: &[Bound],
        lowest: impl Fn(&Bound) -> Result<i128, Refused>,
        most: &[Bound],
        highest: impl Fn(&Bound) -> Result<i128, Refused>,
    ) -> Result<Self, Refused> {
        let least = least.iter().map(lowest).collect::<Result<Vec<_>, _>>()?.into_iter().max();
        let most = most.iter().map(highest).collect::<Result<Vec<_>, _>>()?.into_iter().min();
        Ok(Self { least, most })
    }

    fn none(self) -> bool {
        self.least.is_none() && self.most.is_none()
    }

    /// The non-negative part, and the negative part with its sign turned.
    fn halves(self) -> [Option<(u128, Option<u128>)>; 2] {
        let half = |least: Option<i128>, most: Option<i128>, from: i128| {
            let least = least.unwrap_or(from).max(from);
            most.is_none_or(|most| most >= least).then(|| (least as u128, most.map(|most| most as u128)))
        };
        [half(self.least, self.most, 0), half(self.most.map(|most| -most), self.least.map(|least| -least), 1)]
    }
}

fn in_range(value: f64) -> Result<f64, Refused> {
    if value.abs() <= MAX_NUMBER {
        Ok(value)
    } else {
        Err(Refused::new(format!("the bound {value} is beyond {MAX_NUMBER}; leave it out")))
    }
}

fn digits(least: u32, most: Option<u32>) -> Expr {
    Expr::Class(vec![(b'0', b'9')]).repeat(least, most)
}

fn digit(low: u8, high: u8) -> Expr {
    Expr::Class(vec![(b'0' + low, b'0' + high)])
}

/// Any number.
pub(crate) fn any(budget: &Budget) -> Result<Expr, Refused> {
    let fraction = Expr::Seq(vec![Expr::text("."), digits(1, None)]);
    let sign = Expr::Class(vec![(b'+', b'+'), (b'-', b'-')]).optional();
    let exponent = Expr::Seq(vec![Expr::Class(vec![(b'E', b'E'), (b'e', b'e')]), sign, digits(1, Some(2))]);
    Expr::Seq(vec![Expr::text("-").optional(), natural(0, None), fraction.optional(), exponent.optional()]).leaf(budget)
}

/// Integers within bounds that are multiples of a factor.
pub(crate) fn integer(bounds: Bounds, factor: Option<u32>, budget: &Budget) -> Result<Expr, Refused> {
    let [positive, negative] = bounds.halves();
    let minus = |(least, most)| Expr::Seq(vec![Expr::text("-"), natural(least, most)]);
    let ways = positive.map(|(least, most)| natural(least, most)).into_iter().chain(negative.map(minus));
    let all = Expr::Alt(ways.collect());
    match factor {
        None | Some(1) => all.leaf(budget),
        Some(factor) if factor == 0 || factor > FACTOR => {
            Err(Refused::new(format!("multipleOf {factor} is not supported: integers from 1 to {FACTOR} are")))
        }
        Some(factor) => Ok(Expr::Dfa(intersect(&all.compile(budget)?, &multiples(factor, budget)?, budget)?.into())),
    }
}

/// Decimals within bounds. Without bounds: any number.
pub(crate) fn decimal(bounds: Bounds, budget: &Budget) -> Result<Expr, Refused> {
    if bounds.none() {
        return any(budget);
    }
    let [positive, negative] = bounds.halves();
    let minus = |(least, most)| Expr::Seq(vec![Expr::text("-"), fixed(least, most)]);
    let ways = positive.map(|(least, most)| fixed(least, most)).into_iter().chain(negative.map(minus));
    Expr::Alt(ways.collect()).leaf(budget)
}

/// Integers from `least` to `most` without a sign.
fn natural(least: u128, most: Option<u128>) -> Expr {
    let mut ways = Vec::new();
    let longest = most.map_or(least.to_string().len(), |most| most.to_string().len());
    for length in least.to_string().len()..=longest {
        let first = if length == 1 { 0 } else { 10u128.pow(length as u32 - 1) };
        let last = 10u128.pow(length as u32) - 1;
        let (low, high) = (least.max(first), most.map_or(last, |most| most.min(last)));
        if low <= high {
            ways.push(between(low.to_string().as_bytes(), high.to_string().as_bytes()));
        }
    }
    if most.is_none() {
        ways.push(Expr::Seq(vec![digit(1, 9), digits(longest as u32, None)]));
    }
    Expr::Alt(ways)
}

/// Strings of digits from `low` to `high`, all of one length.
fn between(low: &[u8], high: &[u8]) -> Expr {
    let ([a, low @ ..], [b, high @ ..]) = (low, high) else { return Expr::empty() };
    let (a, b) = (a - b'0', b - b'0');
    if a == b {
        return Expr::Seq(vec![digit(a, a), between(low, high)]);
    }
    let rest = low.len();
    let mut ways = vec![
        Expr::Seq(vec![digit(a, a), between(low, &vec![b'9'; rest])]),
        Expr::Seq(vec![digit(b, b), between(&vec![b'0'; rest], high)]),
    ];
    if a + 1 < b {
        ways.push(Expr::Seq(vec![digit(a + 1, b - 1), digits(rest as u32, Some(rest as u32))]));
    }
    Expr::Alt(ways)
}

/// Decimals without a sign from `least` to `most`, which count units of 10^-FRACTION.
fn fixed(least: u128, most: Option<u128>) -> Expr {
    let unit = 10u128.pow(FRACTION as u32);
    let (whole, last) = (least / unit, most.map(|most| most / unit));
    let low = format!("{:0FRACTION$}", least % unit);
    let high = most.map_or("9".repeat(FRACTION), |most| format!("{:0FRACTION$}", most % unit));
    let (zeros, nines) = ("0".repeat(FRACTION), "9".repeat(FRACTION));
    let of = |whole: u128, low: &str, high: &str| {
        Expr::Seq(vec![Expr::text(whole.to_string()), fraction(low.as_bytes(), high.as_bytes())])
    };
    if last == Some(whole) {
        return of(whole, &low, &high);
    }
    let mut ways = vec![of(whole, &low, &nines)];
    let inner = last.map(|last| last - 1);
    if inner.is_none_or(|inner| inner > whole) {
        ways.push(Expr::Seq(vec![natural(whole + 1, inner), fraction(zeros.as_bytes(), nines.as_bytes())]));
    }
    ways.extend(last.map(|last| of(last, &zeros, &high)));
    Expr::Alt(ways)
}

/// A point and digits, or nothing, from `low` to `high` when zeros are added behind up to their length.
fn fraction(low: &[u8], high: &[u8]) -> Expr {
    let mut ways = vec![Expr::Seq(vec![Expr::text("."), behind_point(low, high)])];
    if low.iter().all(|&digit| digit == b'0') {
        ways.push(Expr::empty());
    }
    Expr::Alt(ways)
}

/// At least one digit.
fn behind_point(low: &[u8], high: &[u8]) -> Expr {
    let ([a, low @ ..], [b, high @ ..]) = (low, high) else { return Expr::never() };
    let (a, b) = (a - b'0', b - b'0');
    let rest = low.len() as u32;
    let more = |low: &[u8], high: &[u8]| {
        let mut ways = vec![behind_point(low, high)];
        if low.iter().all(|&digit| digit == b'0') {
            ways.push(Expr::empty());
        }
        Expr::Alt(ways)
    };
    if a == b {
        return Expr::Seq(vec![digit(a, a), more(low, high)]);
    }
    let (zeros, nines) = (vec![b'0'; low.len()], vec![b'9'; low.len()]);
    let mut ways =
        vec![Expr::Seq(vec![digit(a, a), more(low, &nines)]), Expr::Seq(vec![digit(b, b), more(&zeros, high)])];
    if a + 1 < b {
        ways.push(Expr::Seq(vec![digit(a + 1, b - 1), digits(0, Some(rest))]));
    }
    Expr::Alt(ways)
}

/// Integers that a factor divides: a state for each remainder.
fn multiples(factor: u32, budget: &Budget) -> Result<Dfa, Refused> {
    let classes = (0..=255u8).map(|byte| match byte {
        b'0'..=b'9' => byte - b'0',
        b'-' => 10,
        _ => 11,
    });
    // The remainder of the digits so far; `None` before the first.
    DfaBuilder::new(classes.collect(), None).build(budget, |&remainder: &Option<u32>, successors| {
        successors.extend((0..10).map(|digit| Some(Some((remainder.unwrap_or(0) * 10 + digit) % factor))));
        successors.extend([remainder.is_none().then_some(None), None]);
        Ok(remainder == Some(0))
    })
}
