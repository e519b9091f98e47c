//! Paceline's own statements in a chain: limits before the members, comparisons of the catalog after them.

use super::messages::{BatchWriter, InjectedStatement};
use paceline_relay::template::Templates;
use paceline_sql::Compared;
use paceline_sql::chain::check_sql;
use std::time::Duration;

/// Limits the wait for a lock inside a chain; after a timeout each member runs alone. The statement timeout is for members that
/// wait for anything else, such as a slow trigger.
const LIMITS: &str = "SELECT pg_catalog.set_config('lock_timeout', '20ms', true), \
     pg_catalog.set_config('statement_timeout', '200ms', true)";

/// The statement timeout inside a chain.
pub const STATEMENT_MAX: Duration = Duration::from_millis(200);

/// PostgreSQL raises a WARNING because there is no transaction block. The setting still lasts until the Sync of the chain.
const CONSTRAINTS: &str = "SET CONSTRAINTS ALL IMMEDIATE";

/// The statements at the start of every chain.
#[derive(Debug)]
pub struct Prelude {
    limits_id: u64,
    constraints_id: u64,
}

/// Number of statements in a [`Prelude`].
pub(super) const PRELUDE_STATEMENTS: usize = 2;

impl Prelude {
    /// Assigns new ids to the statements.
    pub fn new(templates: &Templates) -> Self {
        Self {
            limits_id: templates.new_id(),
            constraints_id: templates.new_id(),
        }
    }

    pub(super) fn write(&self, writer: &mut BatchWriter<'_>) {
        let constraints = InjectedStatement {
            id: self.constraints_id,
            text: CONSTRAINTS,
        };
        constraints.write(&[], &[], writer);
        self.write_limits(writer);
    }

    /// Writes only the statement that limits waiting.
    pub(super) fn write_limits(&self, writer: &mut BatchWriter<'_>) {
        let limits = InjectedStatement {
            id: self.limits_id,
            text: LIMITS,
        };
        limits.write(&[], &[], writer);
    }
}

/// The facts that permit the requests of a template in a chain: they send no notifications and change no settings.
#[derive(Debug)]
pub struct ChainFacts {
    pub(super) id: u64,
    check: String,
}

impl ChainFacts {
    /// Facts that have not changed since the analysis.
    pub fn new(facts: &Compared, templates: &Templates) -> Self {
        Self {
            id: templates.new_id(),
            check: check_sql(facts),
        }
    }

    /// Writes the statement that raises an error if a fact has changed.
    pub(super) fn write(&self, writer: &mut BatchWriter<'_>) {
        let check = InjectedStatement {
            id: self.id,
            text: &self.check,
        };
        check.write(&[], &[], writer);
    }
}
