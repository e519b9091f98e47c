//! Session state that only one server connection has, and queries that check whether it still exists.

use std::fmt;

/// Session state that no other server connection can be given: a reason to pin the client to its server connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PinReason {
    /// Temporary tables and other objects in the session's temporary schema.
    Temporary,
    /// `LISTEN`
    Listening,
    /// `DECLARE … WITH HOLD`
    Cursor,
    /// Session-level advisory locks.
    AdvisoryLock,
    /// A prepared statement of `PREPARE`, if it cannot be prepared on another server connection.
    Prepared,
    /// `LOAD`
    Library,
    /// The seed of `random()`.
    Seed,
    /// A setting whose name or value the text does not show.
    Setting,
    /// A connection of `dblink`.
    Dblink,
    /// `set_limit` of `pg_trgm`.
    Limit,
    /// A temporary replication slot.
    ReplicationSlot,
    /// The replication origin of the session.
    ReplicationOrigin,
    /// An online backup, which ends with the session.
    Backup,
    /// A statement that is not UTF-8.
    NotText,
}

impl PinReason {
    /// The reasons that a query can check.
    pub const ASKED: [PinReason; 5] = [
        PinReason::Temporary,
        PinReason::Listening,
        PinReason::Cursor,
        PinReason::AdvisoryLock,
        PinReason::Prepared,
    ];

    /// SQL condition that is true if the session still has this state; `None` if no query can check it. Prepared
    /// statements whose names start with `own_prefix` belong to Paceline.
    pub fn condition(self, own_prefix: &str) -> Option<String> {
        let rows = match self {
            // This uses the index on the referenced object: `pg_class` has no index on the schema.
            PinReason::Temporary => {
                "pg_catalog.pg_depend WHERE refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass::pg_catalog.oid \
                 AND refobjid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()"
            }
            PinReason::Listening => "pg_catalog.pg_listening_channels()",
            PinReason::Cursor => "pg_catalog.pg_cursors WHERE is_holdable",
            PinReason::AdvisoryLock => {
                "pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) 'advisory' \
                 AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()"
            }
            PinReason::Prepared => {
                let own = crate::quote::quote_literal(own_prefix);
                return Some(format!(
                    "EXISTS (SELECT FROM pg_catalog.pg_prepared_statements \
                     WHERE NOT pg_catalog.starts_with(name, {own}))"
                ));
            }
            _ => return None,
        };
        Some(format!("EXISTS (SELECT FROM {rows})"))
    }

    /// Whether a query can check this state.
    pub fn is_asked(self) -> bool {
        PinReason::ASKED.contains(&self)
    }

    /// Whether `DISCARD ALL` ends this state. Otherwise it lasts until the connection closes.
    pub fn can_be_discarded(self) -> bool {
        !matches!(
            self,
            PinReason::Library
                | PinReason::Seed
                | PinReason::Dblink
                | PinReason::Limit
                | PinReason::ReplicationSlot
                | PinReason::ReplicationOrigin
                | PinReason::Backup
        )
    }
}

/// The name of the state in messages.
impl fmt::Display for PinReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            PinReason::Temporary => "a temporary object",
            PinReason::Listening => "LISTEN",
            PinReason::Cursor => "a cursor WITH HOLD",
            PinReason::AdvisoryLock => "an advisory lock of the session",
            PinReason::Prepared => "PREPARE",
            PinReason::Library => "LOAD",
            PinReason::Seed => "the seed of random()",
            PinReason::Setting => "a setting that the text does not show",
            PinReason::Dblink => "a dblink connection",
            PinReason::Limit => "set_limit()",
            PinReason::ReplicationSlot => "a temporary replication slot",
            PinReason::ReplicationOrigin => "a replication origin of the session",
            PinReason::Backup => "an online backup",
            PinReason::NotText => "a statement that is not UTF-8",
        })
    }
}
