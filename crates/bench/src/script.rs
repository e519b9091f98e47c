//! Scripts of users in the language of pgbench: `\set`, `\sleep`, SQL statements that end with `;`, variables as `:name`
//! (PostgreSQL documentation, pgbench, "Custom Scripts"). Anything else is an error with its line number.

mod client;
mod expression;
mod model;
mod scan;

#[cfg(test)]
mod tests;

pub(crate) use client::Program;
pub use model::Script;

use crate::connection::Result;
use crate::session::Session;
use crate::statement::Protocol;
use crate::target::Target;
use crate::workload::Scenario;
use expression::Expression;
use model::{Operand, Step};
use rand::SeedableRng;
use rand::rngs::StdRng;
use scan::{Fault, Item, Scanner};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The scenario of all scripts in results.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "sql",
    title: "SQL script",
    about: "every client runs the script again and again",
    unit: "runs",
    variants: &[],
    clients: &[64],
    clients_full: &[64],
    rows: None,
};

/// The reason why a script cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct ScriptError {
    /// Name of the script.
    pub file: String,
    /// Line number, counted from 1.
    pub line: usize,
    /// The error.
    pub what: String,
}

impl Script {
    /// Parses `text`. `definitions` are names and values of variables, as given by `--define`.
    ///
    /// # Errors
    /// The first line with an error.
    pub fn parse(
        name: &str,
        text: &str,
        definitions: &[(String, String)],
    ) -> Result<Self, ScriptError> {
        let mut reader = Reader::new(name, definitions);
        match reader.read(text) {
            Ok(()) => Ok(reader.script),
            Err((line, what)) => Err(ScriptError {
                file: name.to_owned(),
                line,
                what,
            }),
        }
    }

    /// Runs the script once.
    ///
    /// # Errors
    /// The error of the first statement that fails; no further statement runs.
    pub async fn run_once(self: &Arc<Self>, target: &Arc<Target>) -> Result<()> {
        let mut session = Session::new(Arc::clone(target), None);
        let program = Program::new(self, Protocol::Simple);
        let mut rng = StdRng::seed_from_u64(0);
        let done = program
            .run(&mut self.variables(0), &mut rng, &mut session)
            .await;
        session.close().await;
        done
    }
}

/// Parses a script from top to bottom. A variable is known from the line that sets it.
struct Reader {
    names: HashMap<String, Operand>,
    script: Script,
}

impl Reader {
    fn new(name: &str, definitions: &[(String, String)]) -> Self {
        let mut reader = Self {
            names: HashMap::new(),
            script: Script {
                name: name.to_owned(),
                steps: Vec::new(),
                presets: Vec::new(),
                client_id: None,
            },
        };
        let client_id = reader.variable("client_id");
        // A definition overrides the built-in value.
        let is_defined = definitions.iter().any(|(name, _)| name == "client_id");
        reader.script.client_id = (!is_defined).then_some(client_id);
        for (name, value) in definitions {
            reader.define(name, value);
        }
        reader
    }

    fn define(&mut self, name: &str, value: &str) {
        let Ok(number) = value.parse() else {
            let value = Operand::Text(value.to_owned());
            self.names.insert(name.to_owned(), value);
            return;
        };
        let variable = self.variable(name);
        if let Some(preset) = self.script.presets.get_mut(variable) {
            *preset = number;
        }
    }

    /// The number of a variable; creates the variable if it does not exist.
    fn variable(&mut self, name: &str) -> usize {
        if let Some(Operand::Number(variable)) = self.names.get(name) {
            return *variable;
        }
        let variable = self.script.presets.len();
        self.script.presets.push(0);
        let operand = Operand::Number(variable);
        self.names.insert(name.to_owned(), operand);
        variable
    }

    fn read(&mut self, text: &str) -> Result<(), Fault> {
        let mut scanner = Scanner::new(text);
        while let Some((line, item)) = scanner.next_item(&|name| self.operand(name))? {
            let step = match item {
                Item::Command(command) => self.command(line, &command),
                Item::Sql(pieces) => Ok(Step::Sql(pieces)),
            };
            self.script.steps.push(step.map_err(|what| (line, what))?);
        }
        match self.script.statements() {
            0 => Err((scanner.line(), "there is no statement in it".to_owned())),
            _ => Ok(()),
        }
    }

    fn operand(&self, name: &str) -> Result<Operand, String> {
        let unknown = || {
            format!(
                "nothing has set the variable {name}; \\set it further up, or add --define {name}=VALUE"
            )
        };
        self.names.get(name).cloned().ok_or_else(unknown)
    }

    /// Parses a command after a backslash.
    fn command(&mut self, line: usize, text: &str) -> Result<Step, String> {
        let text = text.trim();
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match name {
            "set" => self.set(line, rest.trim()),
            "sleep" => self.sleep(line, rest.trim()),
            _ => Err(format!(
                "\\{name} is not understood; there is \\set and \\sleep"
            )),
        }
    }

    fn set(&mut self, line: usize, rest: &str) -> Result<Step, String> {
        let (name, text) = rest
            .split_once(char::is_whitespace)
            .ok_or("write \\set NAME EXPRESSION")?;
        if scan::name(name) != Some(name) {
            return Err(format!(
                "{name:?} is no name of a variable: letters, digits and underscores, no digit first"
            ));
        }
        let to = self.expression(text)?;
        let variable = self.variable(name);
        Ok(Step::Set { line, variable, to })
    }

    fn sleep(&self, line: usize, rest: &str) -> Result<Step, String> {
        let end = rest
            .find(|c: char| c.is_whitespace() || c.is_ascii_alphabetic() && !rest.starts_with(':'))
            .unwrap_or(rest.len());
        let (time, unit) = rest.split_at(end);
        let unit = match unit.trim() {
            "us" => Duration::from_micros(1),
            "ms" => Duration::from_millis(1),
            "s" | "" => Duration::from_secs(1),
            other => return Err(format!("{other:?} is no unit of time: us, ms or s")),
        };
        match self.expression(time)? {
            time @ (Expression::Number(_) | Expression::Variable(_)) => {
                Ok(Step::Sleep { line, time, unit })
            }
            _ => Err(
                "write \\sleep NUMBER [us|ms|s], or a variable in place of the number".to_owned(),
            ),
        }
    }

    fn expression(&self, text: &str) -> Result<Expression, String> {
        expression::parse(text, &|name| match self.operand(name)? {
            Operand::Number(variable) => Ok(variable),
            Operand::Text(text) => Err(format!("{name} is {text:?}, which is no whole number")),
        })
    }
}
