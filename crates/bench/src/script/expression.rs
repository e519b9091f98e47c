//! The expressions of `\set`: integers, variables, `+ - * / %`, parentheses, and the functions `random(from, to)`,
//! `random_zipfian`, `random_gaussian` and `random_exponential(from, to, parameter)`, with the semantics of pgbench.

use crate::power_law::PowerLaw;
use rand::RngExt;
use rand::rngs::StdRng;
use rand_distr::{Distribution, StandardNormal};

/// Maximum nesting of parentheses and signs.
const DEPTH_MAX: usize = 100;

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    Number(i64),
    /// The integer in this variable.
    Variable(usize),
    Negative(Box<Expression>),
    Pair(Box<Expression>, Operator, Box<Expression>),
    Draw(Draw, Box<Expression>, Box<Expression>),
}

/// A binary operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Plus,
    Minus,
    Times,
    /// Rounds towards zero.
    Over,
    /// The result has the sign of the left operand.
    Rest,
}

/// The distribution of a random number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Draw {
    Evenly,
    /// The exponent.
    Zipfian(f64),
    /// Standard deviations between the middle and each end.
    Gaussian(f64),
    /// Rate at which the probability decreases from the first number.
    Exponential(f64),
}

/// The reason why an expression has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum EvalError {
    #[error("division by zero")]
    DivisionByZero,
    #[error("bigint out of range")]
    OutOfRange,
    #[error("a random number from an empty range")]
    EmptyRange,
}

impl EvalError {
    /// SQLSTATE (PostgreSQL documentation, appendix A).
    pub(super) fn sqlstate(self) -> &'static str {
        match self {
            Self::DivisionByZero => "22012",
            Self::OutOfRange => "22003",
            Self::EmptyRange => "22023",
        }
    }
}

impl Expression {
    /// Evaluates the expression.
    pub(super) fn value(&self, variables: &[i64], rng: &mut StdRng) -> Result<i64, EvalError> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Variable(variable) => Ok(variables.get(*variable).copied().unwrap_or_default()),
            Self::Negative(inner) => {
                let value = inner.value(variables, rng)?;
                value.checked_neg().ok_or(EvalError::OutOfRange)
            }
            Self::Pair(left, operator, right) => {
                let left = left.value(variables, rng)?;
                operator.apply(left, right.value(variables, rng)?)
            }
            Self::Draw(draw, from, to) => {
                let from = from.value(variables, rng)?;
                draw.draw(from, to.value(variables, rng)?, rng)
            }
        }
    }
}

impl Operator {
    fn apply(self, left: i64, right: i64) -> Result<i64, EvalError> {
        let value = match self {
            Self::Plus => left.checked_add(right),
            Self::Minus => left.checked_sub(right),
            Self::Times => left.checked_mul(right),
            Self::Over | Self::Rest if right == 0 => return Err(EvalError::DivisionByZero),
            Self::Over => left.checked_div(right),
            // Only the division that overflows wraps; its remainder is 0.
            Self::Rest => Some(left.wrapping_rem(right)),
        };
        value.ok_or(EvalError::OutOfRange)
    }
}

impl Draw {
    fn draw(self, from: i64, to: i64, rng: &mut StdRng) -> Result<i64, EvalError> {
        if from > to {
            return Err(EvalError::EmptyRange);
        }
        let numbers = to.checked_sub(from).and_then(|last| last.checked_add(1));
        let numbers = numbers.ok_or(EvalError::OutOfRange)?;
        let share = match self {
            Self::Evenly => return Ok(rng.random_range(from..=to)),
            Self::Zipfian(exponent) => {
                let law = PowerLaw::new(numbers.unsigned_abs(), exponent);
                return Ok(from + law.draw(rng) - 1);
            }
            Self::Gaussian(deviations) => gaussian(deviations, rng),
            Self::Exponential(parameter) => exponential(parameter, rng),
        };
        Ok(from + place(share, numbers))
    }
}

/// The index, out of `numbers`, at this fraction of the range.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a share of a number of numbers lies among them; what rounding adds is cut off"
)]
fn place(share: f64, numbers: i64) -> i64 {
    ((numbers as f64 * share) as i64).clamp(0, numbers - 1)
}

/// A fraction of the range with a normal distribution around its middle; repeats the draw if the value is outside.
fn gaussian(deviations: f64, rng: &mut StdRng) -> f64 {
    loop {
        let normal: f64 = StandardNormal.sample(rng);
        if (-deviations..deviations).contains(&normal) {
            return (normal + deviations) / (2.0 * deviations);
        }
    }
}

/// A fraction of the range; the first numbers are most frequent.
fn exponential(parameter: f64, rng: &mut StdRng) -> f64 {
    let cut = (-parameter).exp();
    let uniform = 1.0 - rng.random::<f64>();
    -(cut + (1.0 - cut) * uniform).ln() / parameter
}

/// Resolves the name of a variable to its number.
pub(super) type Names<'a> = dyn Fn(&str) -> Result<usize, String> + 'a;

/// Parses an expression.
pub(super) fn parse(text: &str, names: &Names<'_>) -> Result<Expression, String> {
    let mut parser = Parser {
        rest: text.trim(),
        names,
        depth: 0,
    };
    let expression = parser.sum()?;
    match parser.rest {
        "" => Ok(expression),
        rest => Err(format!("{rest:?} is not understood")),
    }
}

/// The binary operators, those that bind most tightly last.
const OPERATORS: [&[(char, Operator)]; 2] = [
    &[('+', Operator::Plus), ('-', Operator::Minus)],
    &[
        ('*', Operator::Times),
        ('/', Operator::Over),
        ('%', Operator::Rest),
    ],
];

/// A function: its name, the minimum of its third value if it has one, and its distribution.
type Function = (&'static str, Option<f64>, fn(f64) -> Draw);

const FUNCTIONS: [Function; 4] = [
    ("random", None, |_| Draw::Evenly),
    ("random_zipfian", Some(1.001), Draw::Zipfian),
    ("random_gaussian", Some(2.0), Draw::Gaussian),
    (
        "random_exponential",
        Some(f64::MIN_POSITIVE),
        Draw::Exponential,
    ),
];

struct Parser<'a> {
    rest: &'a str,
    names: &'a Names<'a>,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn sum(&mut self) -> Result<Expression, String> {
        self.pairs(&OPERATORS)
    }

    /// Parses operands between operators of the first level, left-associative.
    fn pairs(&mut self, levels: &[&[(char, Operator)]]) -> Result<Expression, String> {
        let Some((operators, levels)) = levels.split_first() else {
            return self.factor();
        };
        let mut left = self.pairs(levels)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.eats(*sign)) {
            let right = self.pairs(levels)?;
            left = Expression::Pair(Box::new(left), *operator, Box::new(right));
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!(
                "more than {DEPTH_MAX} parentheses within one another"
            ));
        }
        let factor = self.signed();
        self.depth -= 1;
        factor
    }

    fn signed(&mut self) -> Result<Expression, String> {
        if self.eats('-') {
            return Ok(Expression::Negative(Box::new(self.factor()?)));
        }
        if self.eats('+') {
            return self.factor();
        }
        if self.eats('(') {
            let inner = self.sum()?;
            return self.must_eat(')').map(|()| inner);
        }
        if self.eats(':') {
            let name = self.word();
            return (self.names)(name).map(Expression::Variable);
        }
        match self.word() {
            "" => Err(match self.rest {
                "" => "a number is missing at the end".to_owned(),
                rest => format!("a number is missing before {rest:?}"),
            }),
            digits if digits.starts_with(|c: char| c.is_ascii_digit()) => digits
                .parse()
                .map(Expression::Number)
                .map_err(|_| format!("{digits:?} is no whole number of 64 bits")),
            function => self.draw(function),
        }
    }

    /// Parses the arguments of a function.
    fn draw(&mut self, function: &str) -> Result<Expression, String> {
        let known = FUNCTIONS.iter().find(|(name, ..)| *name == function);
        let (_, least, draw) = known.ok_or_else(|| {
            format!(
                "there is no function {function:?}; there is random, random_zipfian, random_gaussian and random_exponential"
            )
        })?;
        self.must_eat('(')?;
        let from = Box::new(self.sum()?);
        self.must_eat(',')?;
        let to = Box::new(self.sum()?);
        let parameter = least.map_or(Ok(0.0), |least| self.parameter(least))?;
        self.must_eat(')')?;
        Ok(Expression::Draw(draw(parameter), from, to))
    }

    /// Parses a comma and a decimal number.
    fn parameter(&mut self, least: f64) -> Result<f64, String> {
        self.must_eat(',')?;
        let text = self.take_while(|c| c.is_ascii_digit() || c == '.');
        let parameter = text.parse().ok().filter(|parameter| *parameter >= least);
        parameter.ok_or_else(|| match least {
            least if least > 1.0 => format!("the third value must be a number, {least} or more"),
            _ => "the third value must be a number, more than 0".to_owned(),
        })
    }

    /// Takes the letters, digits and underscores at the beginning.
    fn word(&mut self) -> &'a str {
        self.take_while(|c| c.is_alphanumeric() || c == '_')
    }

    fn take_while(&mut self, is_part: fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        taken
    }

    fn eats(&mut self, sign: char) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.map_or(self.rest, str::trim_start);
        rest.is_some()
    }

    fn must_eat(&mut self, sign: char) -> Result<(), String> {
        let is_there = self.eats(sign);
        let missing = || format!("{sign:?} is missing before {:?}", self.rest);
        is_there.then_some(()).ok_or_else(missing)
    }
}
