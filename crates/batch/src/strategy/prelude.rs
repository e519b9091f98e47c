//! Statements of Paceline's own around those of members: limits before them, comparisons after them.

use bytes::BytesMut;
use paceline_relay::server::{Injected, Preparable, ServerSide};
use paceline_relay::template::Templates;
use paceline_sql::Fingerprint;
use paceline_sql::chain::check_sql;
use paceline_wire::frontend;
use std::time::Duration;

/// Longest wait for a lock inside a chain; then each member runs alone. The statement limit is for members that
/// wait for something else, such as a slow trigger.
const PRELUDE: &str = "SELECT pg_catalog.set_config('lock_timeout', '20ms', true), \
     pg_catalog.set_config('statement_timeout', '200ms', true)";

/// The same as a duration.
pub const STATEMENT_MAX: Duration = Duration::from_millis(200);

/// PostgreSQL warns that there is no transaction block: the chain's transaction has none, but lasts until its Sync.
const CONSTRAINTS: &str = "SET CONSTRAINTS ALL IMMEDIATE";

/// The statements that start every chain.
#[derive(Debug)]
pub struct Prelude {
    limits_id: u64,
    constraints_id: u64,
}

/// How many they are.
pub(super) const PRELUDE_STATEMENTS: usize = 2;

impl Prelude {
    /// With ids of its own.
    pub fn new(templates: &Templates) -> Self {
        Self {
            limits_id: templates.new_id(),
            constraints_id: templates.new_id(),
        }
    }

    pub(super) fn write(
        &self,
        server: &mut ServerSide,
        injected: &mut Injected,
        out: &mut BytesMut,
    ) {
        write_own(self.constraints_id, CONSTRAINTS, &[], server, injected, out);
        self.write_limits(server, injected, out);
    }

    /// Writes the statement that limits waiting, and its execution.
    pub(super) fn write_limits(
        &self,
        server: &mut ServerSide,
        injected: &mut Injected,
        out: &mut BytesMut,
    ) {
        write_own(self.limits_id, PRELUDE, &[], server, injected, out);
    }
}

/// Writes a statement of the chain's own, and its execution.
fn write_own(
    id: u64,
    text: &str,
    values: &[(bool, Option<&[u8]>)],
    server: &mut ServerSide,
    injected: &mut Injected,
    out: &mut BytesMut,
) {
    let statement = Preparable {
        id,
        text,
        types: &[0, 0],
    };
    let ensured = server.ensure(statement, out);
    injected.push(ensured);
    frontend::write_bind(out, ensured.key.name().as_bytes(), values, &[]);
    frontend::write_execute(out);
}

/// The facts that make requests of a template silent, from the catalog analysis.
#[derive(Debug)]
pub struct ChainFacts {
    pub(super) id: u64,
    check: String,
    fingerprint: String,
}

impl ChainFacts {
    /// As PostgreSQL has said.
    pub fn new(fingerprint: Fingerprint, templates: &Templates) -> Self {
        Self {
            id: templates.new_id(),
            check: check_sql(&fingerprint),
            fingerprint: fingerprint.value,
        }
    }

    /// Writes the statement that compares.
    pub(super) fn write(
        &self,
        server: &mut ServerSide,
        injected: &mut Injected,
        out: &mut BytesMut,
    ) {
        let value = (false, Some(self.fingerprint.as_bytes()));
        write_own(self.id, &self.check, &[value], server, injected, out);
    }
}
