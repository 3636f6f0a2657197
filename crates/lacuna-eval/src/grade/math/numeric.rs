//! The numeric value of an expression at chosen values of its variables.

use std::collections::BTreeMap;
use std::f64::consts::{E, PI};
use std::ops::{Add, Div, Mul, Neg, Sub};

use num_traits::ToPrimitive;

use super::expression::Expression;

/// A complex number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Complex {
    pub(super) re: f64,
    pub(super) im: f64,
}

impl Complex {
    pub(super) fn real(re: f64) -> Self {
        Self { re, im: 0.0 }
    }

    pub(super) fn magnitude(self) -> f64 {
        self.re.hypot(self.im)
    }

    pub(super) fn is_finite(self) -> bool {
        self.re.is_finite() && self.im.is_finite()
    }

    fn exp(self) -> Self {
        Self { re: self.re.exp() * self.im.cos(), im: self.re.exp() * self.im.sin() }
    }

    fn ln(self) -> Self {
        Self { re: self.magnitude().ln(), im: self.im.atan2(self.re) }
    }

    fn power(self, exponent: Self) -> Self {
        if exponent.im == 0.0 && exponent.re.fract() == 0.0 && exponent.re.abs() <= 1024.0 {
            return self.whole_power(exponent.re as i32);
        }
        if self.im == 0.0 && self.re >= 0.0 && exponent.im == 0.0 {
            return Self::real(self.re.powf(exponent.re));
        }
        (exponent * self.ln()).exp()
    }

    fn whole_power(self, exponent: i32) -> Self {
        if self.im == 0.0 {
            return Self::real(self.re.powi(exponent));
        }
        let (mut result, mut square, mut left) = (Self::real(1.0), self, exponent.unsigned_abs());
        while left > 0 {
            if left % 2 == 1 {
                result = result * square;
            }
            square = square * square;
            left /= 2;
        }
        if exponent < 0 { Self::real(1.0) / result } else { result }
    }

    fn sin(self) -> Self {
        Self { re: self.re.sin() * self.im.cosh(), im: self.re.cos() * self.im.sinh() }
    }

    fn cos(self) -> Self {
        Self { re: self.re.cos() * self.im.cosh(), im: -self.re.sin() * self.im.sinh() }
    }
}

impl Add for Complex {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Sub for Complex {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }
}

impl Mul for Complex {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }
}

impl Div for Complex {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        let scale = other.re * other.re + other.im * other.im;
        let product = self * Self { re: other.re, im: -other.im };
        Self { re: product.re / scale, im: product.im / scale }
    }
}

impl Neg for Complex {
    type Output = Self;
    fn neg(self) -> Self {
        Self { re: -self.re, im: -self.im }
    }
}

/// The value of `expression` where each variable has the value `point` gives it.
pub(super) fn evaluate(expression: &Expression, point: &BTreeMap<String, f64>) -> Option<Complex> {
    let value = match expression {
        Expression::Number(value) | Expression::Decimal(value, _) => Complex::real(value.to_f64()?),
        Expression::Pi => Complex::real(PI),
        Expression::Euler => Complex::real(E),
        Expression::Imaginary => Complex { re: 0.0, im: 1.0 },
        Expression::Infinity => return None,
        Expression::Symbol(name) => Complex::real(*point.get(name)?),
        Expression::Sum(terms) => {
            terms.iter().try_fold(Complex::real(0.0), |sum, term| Some(sum + evaluate(term, point)?))?
        }
        Expression::Product(factors) => {
            factors.iter().try_fold(Complex::real(1.0), |product, factor| Some(product * evaluate(factor, point)?))?
        }
        Expression::Power(base, exponent) => evaluate(base, point)?.power(evaluate(exponent, point)?),
        Expression::Call(name, arguments) => {
            let values: Option<Vec<Complex>> = arguments.iter().map(|argument| evaluate(argument, point)).collect();
            call(name, &values?)?
        }
    };
    value.is_finite().then_some(value)
}

fn call(name: &str, arguments: &[Complex]) -> Option<Complex> {
    let one = Complex::real(1.0);
    let real = |function: fn(f64) -> f64| match arguments {
        [value] if value.im.abs() < 1e-12 => Some(Complex::real(function(value.re))),
        _ => None,
    };
    match (name, arguments) {
        ("sin", [x]) => Some(x.sin()),
        ("cos", [x]) => Some(x.cos()),
        ("tan", [x]) => Some(x.sin() / x.cos()),
        ("cot", [x]) => Some(x.cos() / x.sin()),
        ("sec", [x]) => Some(one / x.cos()),
        ("csc", [x]) => Some(one / x.sin()),
        ("exp", [x]) => Some(x.exp()),
        ("ln" | "log" | "lg", [x]) => Some(if name == "lg" { x.ln() / Complex::real(10f64.ln()) } else { x.ln() }),
        ("log", [base, x]) => Some(x.ln() / base.ln()),
        ("abs", [x]) => Some(Complex::real(x.magnitude())),
        ("conjugate", [x]) => Some(Complex { re: x.re, im: -x.im }),
        ("arcsin", _) => real(f64::asin),
        ("arccos", _) => real(f64::acos),
        ("arctan", _) => real(f64::atan),
        ("sinh", _) => real(f64::sinh),
        ("cosh", _) => real(f64::cosh),
        ("tanh", _) => real(f64::tanh),
        ("floor", _) => real(f64::floor),
        ("ceil", _) => real(f64::ceil),
        ("factorial", _) => real(|x| (1..=x as u32).take(200).map(f64::from).product()),
        ("min", values) => values.iter().map(|x| x.re).reduce(f64::min).map(Complex::real),
        ("max", values) => values.iter().map(|x| x.re).reduce(f64::max).map(Complex::real),
        _ => None,
    }
}
