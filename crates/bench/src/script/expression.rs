//! The expressions of `\set`: integers, variables, `+ - * / %`, parentheses, and the functions `random(from, to)`,
//! `random_zipfian`, `random_gaussian` and `random_exponential(from, to, parameter)`, with the semantics of pgbench.

use crate::power_law::PowerLaw;
use rand::RngExt;
use rand::rngs::StdRng;

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

/// Why an expression has no value.
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
        let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
        let angle = std::f64::consts::TAU * rng.random::<f64>();
        let normal = radius * angle.sin();
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

struct Parser<'a> {
    rest: &'a str,
    names: &'a Names<'a>,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn sum(&mut self) -> Result<Expression, String> {
        let operators = [('+', Operator::Plus), ('-', Operator::Minus)];
        self.pairs(&operators, Self::product)
    }

    fn product(&mut self) -> Result<Expression, String> {
        let operators = [
            ('*', Operator::Times),
            ('/', Operator::Over),
            ('%', Operator::Rest),
        ];
        self.pairs(&operators, Self::factor)
    }

    /// Parses operands between any of `operators`, left-associative.
    fn pairs(
        &mut self,
        operators: &[(char, Operator)],
        part: fn(&mut Self) -> Result<Expression, String>,
    ) -> Result<Expression, String> {
        let mut left = part(self)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.eats(*sign)) {
            let right = part(self)?;
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

    /// Parses a function and its arguments.
    fn draw(&mut self, function: &str) -> Result<Expression, String> {
        let least = match function {
            "random" => None,
            "random_zipfian" => Some(1.001),
            "random_gaussian" => Some(2.0),
            "random_exponential" => Some(f64::MIN_POSITIVE),
            _ => {
                return Err(format!(
                    "there is no function {function:?}; there is random, random_zipfian, random_gaussian and random_exponential"
                ));
            }
        };
        self.must_eat('(')?;
        let from = self.sum()?;
        self.must_eat(',')?;
        let to = self.sum()?;
        let parameter = match least {
            Some(least) => self.parameter(least)?,
            None => 0.0,
        };
        self.must_eat(')')?;
        let draw = match function {
            "random_zipfian" => Draw::Zipfian(parameter),
            "random_gaussian" => Draw::Gaussian(parameter),
            "random_exponential" => Draw::Exponential(parameter),
            _ => Draw::Evenly,
        };
        Ok(Expression::Draw(draw, Box::new(from), Box::new(to)))
    }

    /// Parses a decimal number.
    fn parameter(&mut self, least: f64) -> Result<f64, String> {
        self.must_eat(',')?;
        let end = self.rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (text, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let parameter = text.parse().ok().filter(|parameter| *parameter >= least);
        self.rest = rest.trim_start();
        parameter.ok_or_else(|| match least {
            least if least > 1.0 => format!("the third value must be a number, {least} or more"),
            _ => "the third value must be a number, more than 0".to_owned(),
        })
    }

    /// Takes the letters, digits and underscores at the beginning.
    fn word(&mut self) -> &'a str {
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        word
    }

    fn eats(&mut self, sign: char) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.map_or(self.rest, str::trim_start);
        rest.is_some()
    }

    fn must_eat(&mut self, sign: char) -> Result<(), String> {
        if self.eats(sign) {
            Ok(())
        } else {
            Err(format!("{sign:?} is missing before {:?}", self.rest))
        }
    }
}
