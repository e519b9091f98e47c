//! What only one server has for its client, and how to ask that server whether it still does.

use std::fmt;

/// What a session keeps on its server and no other server can be given.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kept {
    /// Temporary tables, and whatever else is in the session's temporary schema.
    Temporary,
    /// `LISTEN`
    Listening,
    /// `DECLARE … WITH HOLD`
    Cursor,
    /// Advisory locks of the session.
    AdvisoryLock,
    /// `PREPARE` by SQL, where it cannot be carried.
    Prepared,
    /// `LOAD`
    Library,
    /// The seed of `random()`.
    Seed,
    /// A setting whose name or value the text does not tell.
    Setting,
    /// A connection of `dblink`.
    Dblink,
    /// `set_limit` of `pg_trgm`.
    Limit,
    /// A temporary replication slot.
    ReplicationSlot,
    /// A replication origin of the session.
    ReplicationOrigin,
    /// An online backup, which ends with its session.
    Backup,
    /// A statement that is not UTF-8.
    NotText,
}

impl Kept {
    /// What can be asked for.
    pub const ASKED: [Kept; 5] = [
        Kept::Temporary,
        Kept::Listening,
        Kept::Cursor,
        Kept::AdvisoryLock,
        Kept::Prepared,
    ];

    /// An SQL condition: the session has it. `None`: nothing tells. Statements called `own_prefix…` are Paceline's.
    pub fn condition(self, own_prefix: &str) -> Option<String> {
        let rows = match self {
            // By the index on what depends on the schema: the catalog of relations has none by schema.
            Kept::Temporary => {
                "pg_catalog.pg_depend WHERE refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass::pg_catalog.oid \
                 AND refobjid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()"
            }
            Kept::Listening => "pg_catalog.pg_listening_channels()",
            Kept::Cursor => "pg_catalog.pg_cursors WHERE is_holdable",
            Kept::AdvisoryLock => {
                "pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) 'advisory' \
                 AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()"
            }
            Kept::Prepared => {
                let own = crate::quote_literal(own_prefix);
                return Some(format!(
                    "EXISTS (SELECT FROM pg_catalog.pg_prepared_statements \
                     WHERE NOT pg_catalog.starts_with(name, {own}))"
                ));
            }
            _ => return None,
        };
        Some(format!("EXISTS (SELECT FROM {rows})"))
    }

    /// The server can say whether it is still there.
    pub fn is_asked(self) -> bool {
        Kept::ASKED.contains(&self)
    }

    /// `DISCARD ALL` takes it away; without that, only the end of the connection does.
    pub fn can_be_discarded(self) -> bool {
        !matches!(
            self,
            Kept::Library
                | Kept::Seed
                | Kept::Dblink
                | Kept::Limit
                | Kept::ReplicationSlot
                | Kept::ReplicationOrigin
                | Kept::Backup
        )
    }
}

/// As a message names it.
impl fmt::Display for Kept {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Kept::Temporary => "a temporary object",
            Kept::Listening => "LISTEN",
            Kept::Cursor => "a cursor WITH HOLD",
            Kept::AdvisoryLock => "an advisory lock of the session",
            Kept::Prepared => "PREPARE",
            Kept::Library => "LOAD",
            Kept::Seed => "the seed of random()",
            Kept::Setting => "a setting that the text does not tell",
            Kept::Dblink => "a dblink connection",
            Kept::Limit => "set_limit()",
            Kept::ReplicationSlot => "a temporary replication slot",
            Kept::ReplicationOrigin => "a replication origin of the session",
            Kept::Backup => "an online backup",
            Kept::NotText => "a statement that is not UTF-8",
        })
    }
}
