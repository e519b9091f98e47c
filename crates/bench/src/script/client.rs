//! Clients that run a script. A unit of work is one run of the complete script.

use super::expression::{EvalError, Expression};
use super::model::{Operand, Piece, Script, Step};
use crate::connection::{Connection, Failure};
use crate::session::Session;
use crate::statement::{Protocol, Statement, Value};
use crate::workload::{Client, Pending, Turn};
use rand::rngs::StdRng;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

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

    /// Creates the client with this number. All its random numbers come from `rng`.
    pub(crate) fn client(self: &Arc<Self>, number: usize, rng: StdRng) -> Box<dyn Client> {
        let mut variables = self.script.presets.clone();
        let place = self.script.client_id;
        if let Some(client_id) = place.and_then(|place| variables.get_mut(place)) {
            *client_id = i64::try_from(number).unwrap_or(i64::MAX);
        }
        Box::new(ScriptClient {
            program: Arc::clone(self),
            variables,
            rng,
        })
    }
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

/// Runs the script once per turn. Variables keep their values between turns.
struct ScriptClient {
    program: Arc<Program>,
    variables: Vec<i64>,
    rng: StdRng,
}

impl Client for ScriptClient {
    fn turn<'a>(&'a mut self, session: &'a mut Session) -> Pending<'a, Result<Turn, Failure>> {
        Box::pin(async move {
            let program = Arc::clone(&self.program);
            for (number, (step, statement)) in (0..).zip(program.steps()) {
                match step {
                    Step::Set { line, variable, to } => {
                        let value = self.compute(*line, to).await?;
                        if let Some(place) = self.variables.get_mut(*variable) {
                            *place = value;
                        }
                    }
                    Step::Sleep { line, time, unit } => {
                        let time = self.compute(*line, time).await?;
                        tokio::time::sleep(times(*unit, time)).await;
                    }
                    Step::Sql(pieces) => {
                        let conn = session.connection().await?;
                        self.run(conn, number, pieces, statement).await?;
                    }
                }
            }
            Ok(Turn::Done)
        })
    }
}

impl Program {
    fn steps(&self) -> impl Iterator<Item = (&Step, Option<&Statement>)> {
        let statements = self.statements.iter().map(Option::as_ref);
        self.script.steps.iter().zip(statements)
    }
}

impl ScriptClient {
    async fn compute(&mut self, line: usize, expression: &Expression) -> Result<i64, Failure> {
        match expression.value(&self.variables, &mut self.rng) {
            Ok(value) => Ok(value),
            Err(error) => {
                // A script that fails before its first statement would otherwise never yield to other clients.
                tokio::task::yield_now().await;
                Err(refusal(&self.program.script.name, line, error))
            }
        }
    }

    async fn run(
        &self,
        conn: &mut Connection,
        number: usize,
        pieces: &[Piece],
        statement: Option<&Statement>,
    ) -> Result<(), Failure> {
        match statement {
            Some(statement) => {
                let operands = pieces.iter().filter_map(|piece| match piece {
                    Piece::Value(operand) => Some(operand.value(&self.variables)),
                    Piece::Text(_) => None,
                });
                let values: Vec<Value<'_>> = operands.collect();
                conn.run(statement, &values, |_| ()).await?;
            }
            None => {
                let text = in_place(pieces, &self.variables);
                let statement = Statement::new(number, text, Protocol::Simple);
                conn.run(&statement, &[], |_| ()).await?;
            }
        }
        Ok(())
    }
}

fn refusal(script: &str, line: usize, error: EvalError) -> Failure {
    Failure::Refused {
        sqlstate: error.sqlstate().to_owned(),
        message: format!("{script}:{line}: {error}"),
    }
}

/// `number` units of time; zero if the number is negative.
fn times(unit: Duration, number: i64) -> Duration {
    let number = u32::try_from(number.max(0)).unwrap_or(u32::MAX);
    unit.saturating_mul(number)
}
