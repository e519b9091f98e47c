//! A parsed script.

use super::expression::Expression;
use std::time::Duration;

/// A parsed script.
#[derive(Debug)]
pub struct Script {
    pub(super) name: String,
    pub(super) steps: Vec<Step>,
    /// Values of its variables when a client begins.
    pub(super) presets: Vec<i64>,
    /// The variable that holds the number of the client.
    pub(super) client_id: Option<usize>,
}

/// A step of a script.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// `\set`
    Set {
        line: usize,
        variable: usize,
        to: Expression,
    },
    /// `\sleep`
    Sleep {
        line: usize,
        time: Expression,
        unit: Duration,
    },
    /// A statement: parts of its text, and the values between them.
    Sql(Vec<Piece>),
}

/// A part of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Value(Operand),
}

/// The meaning of a variable's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operand {
    /// The integer in this variable.
    Number(usize),
    /// A definition that is not an integer. It never changes.
    Text(String),
}

impl Script {
    /// The name that the caller gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The variables of a client with this number when it begins.
    pub(super) fn variables(&self, number: usize) -> Vec<i64> {
        let mut variables = self.presets.clone();
        let place = self.client_id;
        if let Some(client_id) = place.and_then(|place| variables.get_mut(place)) {
            *client_id = i64::try_from(number).unwrap_or(i64::MAX);
        }
        variables
    }

    /// The number of statements that one run sends.
    pub fn statements(&self) -> usize {
        let is_sql = |step: &&Step| matches!(step, Step::Sql(_));
        self.steps.iter().filter(is_sql).count()
    }
}
