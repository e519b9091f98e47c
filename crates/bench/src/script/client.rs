//! Clients that run a script. A unit of work is one run of the complete script.

use super::expression::Expression;
use super::model::{Operand, Piece, Script, Step};
use crate::connection::{Connection, Failure, Result};
use crate::session::Session;
use crate::statement::{Protocol, Statement, Value};
use crate::workload::{Client, Turn, Workload};
use rand::rngs::StdRng;
use std::fmt::Write as _;
use std::sync::Arc;

/// A script and its statements.
#[derive(Debug)]
pub(crate) struct Program {
    script: Arc<Script>,
    /// One entry per step: `Some` for a statement with parameters, `None` for other steps and for a text that changes from
    /// run to run.
    statements: Vec<Option<Statement>>,
}

impl Program {
    pub(crate) fn new(script: &Arc<Script>, protocol: Protocol) -> Self {
        let statement = |(number, step): (usize, &Step)| match step {
            Step::Sql(pieces) if protocol != Protocol::Simple => {
                Some(Statement::new(number, with_parameters(pieces), protocol))
            }
            _ => None,
        };
        Self {
            script: Arc::clone(script),
            statements: script.steps.iter().enumerate().map(statement).collect(),
        }
    }

    /// Runs the script once. `variables` keep their values for the next run.
    pub(super) async fn run(
        &self,
        variables: &mut [i64],
        rng: &mut StdRng,
        session: &mut Session,
    ) -> Result<()> {
        let steps = self.script.steps.iter().zip(&self.statements);
        for (number, (step, statement)) in steps.enumerate() {
            match step {
                Step::Set { line, variable, to } => {
                    let value = self.compute(*line, to, variables, rng).await?;
                    if let Some(place) = variables.get_mut(*variable) {
                        *place = value;
                    }
                }
                Step::Sleep { line, time, unit } => {
                    let time = self.compute(*line, time, variables, rng).await?;
                    // A negative number is no pause.
                    let time = u32::try_from(time.max(0)).unwrap_or(u32::MAX);
                    tokio::time::sleep(unit.saturating_mul(time)).await;
                }
                Step::Sql(pieces) => {
                    let conn = session.connection().await?;
                    send(conn, number, pieces, statement.as_ref(), variables).await?;
                }
            }
        }
        Ok(())
    }

    async fn compute(
        &self,
        line: usize,
        expression: &Expression,
        variables: &[i64],
        rng: &mut StdRng,
    ) -> Result<i64> {
        match expression.value(variables, rng) {
            Ok(value) => Ok(value),
            Err(error) => {
                // A script that fails before its first statement would otherwise never yield to other clients.
                tokio::task::yield_now().await;
                let message = format!("{}:{line}: {error}", self.script.name);
                Err(Failure::refused(error.sqlstate(), message))
            }
        }
    }
}

impl Workload for Program {
    /// The variables of the script; `None` before the first turn.
    type Memory = Option<Vec<i64>>;

    async fn turn(&self, client: &mut Client<Self::Memory>, session: &mut Session) -> Result<Turn> {
        let number = client.number;
        let new = || self.script.variables(number);
        let variables = client.memory.get_or_insert_with(new);
        self.run(variables, &mut client.rng, session).await?;
        Ok(Turn::Done)
    }
}

/// Sends a statement, with the values as parameters or, without a prepared `statement`, in the text.
async fn send(
    conn: &mut Connection,
    number: usize,
    pieces: &[Piece],
    statement: Option<&Statement>,
    variables: &[i64],
) -> Result<()> {
    let Some(statement) = statement else {
        let text = in_place(pieces, variables);
        let statement = Statement::new(number, text, Protocol::Simple);
        return conn.run(&statement, &[], |_| ()).await.map(drop);
    };
    let values = pieces.iter().filter_map(|piece| match piece {
        Piece::Value(operand) => Some(operand.value(variables)),
        Piece::Text(_) => None,
    });
    let values: Vec<Value<'_>> = values.collect();
    conn.run(statement, &values, |_| ()).await.map(drop)
}

/// Replaces each value by a parameter `$1`, `$2`, …, as pgbench does.
pub(super) fn with_parameters(pieces: &[Piece]) -> String {
    let (mut text, mut number) = (String::new(), 0);
    for piece in pieces {
        match piece {
            Piece::Text(part) => text.push_str(part),
            Piece::Value(_) => {
                number += 1;
                // Writing to a String does not fail; here and below.
                let _ = write!(text, "${number}");
            }
        }
    }
    text
}

/// Inserts the values into the text without quoting, as pgbench does.
fn in_place(pieces: &[Piece], variables: &[i64]) -> String {
    let mut text = String::new();
    for piece in pieces {
        let _ = match piece {
            Piece::Text(part) => text.write_str(part),
            Piece::Value(operand) => match operand.value(variables) {
                Value::Int(number) => write!(text, "{number}"),
                Value::Text(value) => text.write_str(value),
            },
        };
    }
    text
}

impl Operand {
    fn value<'a>(&'a self, variables: &[i64]) -> Value<'a> {
        match self {
            Self::Number(variable) => {
                Value::Int(variables.get(*variable).copied().unwrap_or_default())
            }
            Self::Text(text) => Value::Text(text),
        }
    }
}
