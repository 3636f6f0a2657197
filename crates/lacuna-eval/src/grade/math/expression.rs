//! Expressions, and their exact value where it is rational.

use std::collections::BTreeSet;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

/// A mathematical expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Number(BigRational),
    /// A number written with this many decimals.
    Decimal(BigRational, usize),
    Pi,
    Euler,
    Imaginary,
    Infinity,
    Symbol(String),
    Sum(Vec<Expression>),
    Product(Vec<Expression>),
    Power(Box<Expression>, Box<Expression>),
    /// A function by name with its arguments.
    Call(&'static str, Vec<Expression>),
}

/// The bits of a number that is still computed with exactly: beyond it an answer is compared numerically.
const MAX_BITS: u64 = 1 << 15;

impl Expression {
    pub(super) fn integer(value: i64) -> Self {
        Self::Number(BigRational::from_integer(value.into()))
    }

    pub(super) fn negated(self) -> Self {
        match self {
            Self::Number(value) => Self::Number(-value),
            Self::Decimal(value, digits) => Self::Decimal(-value, digits),
            other => Self::Product(vec![Self::integer(-1), other]),
        }
    }

    pub(super) fn inverted(self) -> Self {
        Self::Power(Box::new(self), Box::new(Self::integer(-1)))
    }

    pub(super) fn over(self, other: Self) -> Self {
        Self::Product(vec![self, other.inverted()])
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self::Sum(vec![self, other.negated()])
    }

    /// A number from its digits, with an optional decimal point and an optional exponent.
    pub(super) fn literal(digits: &str) -> Option<Self> {
        let (digits, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let joined: BigInt = format!("0{whole}{fraction}").parse().ok()?;
        let ten = BigRational::from_integer(10.into());
        let exponent = exponent.parse::<i32>().ok()?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
        let value = power(&ten, &BigRational::from_integer(exponent.into()))? * joined;
        Some(if fraction.is_empty() { Self::Number(value) } else { Self::Decimal(value, fraction.len()) })
    }

    /// The exact value, if it is a rational number that can be found without effort.
    pub(super) fn exact(&self) -> Option<BigRational> {
        match self {
            Self::Number(value) | Self::Decimal(value, _) => Some(value.clone()),
            Self::Sum(terms) => terms.iter().try_fold(BigRational::zero(), |sum, term| small(sum + term.exact()?)),
            Self::Product(factors) => {
                factors.iter().try_fold(BigRational::one(), |product, factor| small(product * factor.exact()?))
            }
            Self::Power(base, exponent) => power(&base.exact()?, &exponent.exact()?),
            Self::Call(name, arguments) => {
                let values: Option<Vec<BigRational>> = arguments.iter().map(Self::exact).collect();
                call(name, &values?)
            }
            _ => None,
        }
    }

    /// The fewest decimals that a number in it was written with; none if there are no decimals.
    pub(super) fn decimals(&self) -> Option<usize> {
        match self {
            Self::Decimal(_, digits) => Some(*digits),
            Self::Sum(parts) | Self::Product(parts) | Self::Call(_, parts) => {
                parts.iter().filter_map(Self::decimals).min()
            }
            Self::Power(base, exponent) => base.decimals().into_iter().chain(exponent.decimals()).min(),
            _ => None,
        }
    }

    /// The variables in it.
    pub(super) fn symbols(&self, found: &mut BTreeSet<String>) {
        match self {
            Self::Symbol(name) => drop(found.insert(name.clone())),
            Self::Sum(parts) | Self::Product(parts) | Self::Call(_, parts) => {
                parts.iter().for_each(|part| part.symbols(found));
            }
            Self::Power(base, exponent) => {
                base.symbols(found);
                exponent.symbols(found);
            }
            _ => {}
        }
    }

    pub(super) fn has_symbols(&self) -> bool {
        let mut found = BTreeSet::new();
        self.symbols(&mut found);
        !found.is_empty()
    }

    /// 1 or −1 if it is an infinity.
    pub(super) fn infinite(&self) -> Option<i32> {
        match self {
            Self::Infinity => Some(1),
            Self::Product(parts) => match parts.as_slice() {
                [Self::Number(sign), Self::Infinity] if sign.abs().is_one() => {
                    Some(if sign.is_positive() { 1 } else { -1 })
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// The value, if it has not outgrown what can be computed in no time.
fn small(value: BigRational) -> Option<BigRational> {
    (value.numer().bits().max(value.denom().bits()) <= MAX_BITS).then_some(value)
}

fn power(base: &BigRational, exponent: &BigRational) -> Option<BigRational> {
    let root = exponent.denom().to_u32()?;
    let times = exponent.numer().to_i32()?;
    let bits = base.numer().bits().max(base.denom().bits());
    if bits * u64::from(times.unsigned_abs()) > MAX_BITS || (times < 0 && base.is_zero()) {
        return None;
    }
    let base = if root == 1 { base.clone() } else { exact_root(base, root)? };
    Some(num_traits::pow::Pow::pow(&base, times))
}

/// The root, if it is rational.
fn exact_root(base: &BigRational, degree: u32) -> Option<BigRational> {
    if base.is_negative() || degree > 64 {
        return None;
    }
    let (top, bottom) = (base.numer().nth_root(degree), base.denom().nth_root(degree));
    let root = BigRational::new(top, bottom);
    (num_traits::pow::Pow::pow(&root, degree as i32) == *base).then_some(root)
}

fn call(name: &str, arguments: &[BigRational]) -> Option<BigRational> {
    let whole = |value: &BigRational| value.is_integer().then(|| value.to_integer());
    match (name, arguments) {
        ("abs", [value]) => Some(value.abs()),
        ("floor", [value]) => Some(value.floor()),
        ("ceil", [value]) => Some(value.ceil()),
        ("min", values) => values.iter().min().cloned(),
        ("max", values) => values.iter().max().cloned(),
        ("factorial", [value]) => {
            let count = whole(value)?.to_u32().filter(|&count| count <= 500)?;
            Some(BigRational::from_integer((1..=count).map(BigInt::from).product()))
        }
        ("binom", [top, bottom]) => {
            let (top, bottom) = (whole(top)?.to_u32()?, whole(bottom)?.to_u32()?);
            if bottom > top {
                return Some(BigRational::zero());
            }
            let chosen = bottom.min(top - bottom);
            if chosen > 500 {
                return None;
            }
            let ratio = |taken: u32| BigRational::new((top - taken).into(), (taken + 1).into());
            Some((0..chosen).map(ratio).product())
        }
        _ => None,
    }
}
