//! Whether a client's transactions may have changed the catalog, by the command tags of PostgreSQL.

use paceline_wire::backend::Status;

/// A change of the catalog. The later one is the greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ddl {
    /// Tables, indexes or sequences come or go, as temporary ones do often. A read that a replica may answer remains such a read, or
    /// fails there.
    Relations,
    /// Any other: a name may mean something else, for example a view that calls functions.
    Meanings,
}

/// Notes whether the client's transactions may have changed the catalog.
#[derive(Debug, Default)]
pub(super) struct DdlProgress {
    /// The change that the open transaction may have made.
    pub(super) open: Option<Ddl>,
    /// The change that a transaction which has ended may have made.
    pub(super) ended: Option<Ddl>,
}

impl DdlProgress {
    /// A command has completed; `command` is the body of its `CommandComplete`.
    pub(super) fn executed(&mut self, command: &[u8]) {
        if may_change_catalog(command) {
            self.open = self.open.max(Some(kind(command)));
        }
    }

    /// The server has reported this transaction status.
    pub(super) fn ready(&mut self, status: Status) {
        if status == Status::Idle {
            self.ended = self.ended.max(self.open.take());
        }
    }
}

/// The change that a command with this tag may make. `CALL` and `DO` count as the functions that a `SELECT` calls: what they execute
/// is not known, and many applications send them all the time, as they do `COMMIT PREPARED`.
fn kind(command: &[u8]) -> Ddl {
    let command = command.strip_suffix(b"\0").unwrap_or(command);
    let mut words = command.split(|byte| *byte == b' ');
    let verb = words.next().unwrap_or_default();
    let object = words.next().unwrap_or_default();
    match (verb, object) {
        (b"CREATE" | b"DROP", b"TABLE" | b"INDEX" | b"SEQUENCE") => Ddl::Relations,
        (b"CREATE" | b"ALTER" | b"DROP" | b"IMPORT" | b"REASSIGN", _) => Ddl::Meanings,
        _ => Ddl::Relations,
    }
}

/// Whether the command with this tag may change the catalog: all commands except those that are known not to. `CALL` and `DO` may
/// execute any command. A function that a `SELECT` calls may, too, but its tag does not show it.
fn may_change_catalog(command: &[u8]) -> bool {
    let command = command.strip_suffix(b"\0").unwrap_or(command);
    let word = command.split(|byte| *byte == b' ').next();
    match word.unwrap_or_default() {
        // The text was empty.
        b"" => false,
        b"SELECT" | b"INSERT" | b"UPDATE" | b"DELETE" | b"MERGE" | b"COPY" | b"BEGIN"
        | b"START" | b"ROLLBACK" | b"SAVEPOINT" | b"RELEASE" | b"SET" | b"RESET" | b"SHOW"
        | b"DECLARE" | b"FETCH" | b"MOVE" | b"CLOSE" | b"PREPARE" | b"DEALLOCATE" | b"EXPLAIN"
        | b"LISTEN" | b"UNLISTEN" | b"NOTIFY" | b"LOCK" | b"TRUNCATE" | b"ANALYZE" | b"VACUUM"
        | b"CHECKPOINT" | b"DISCARD" => false,
        // `COMMIT PREPARED` commits what another session has executed.
        b"COMMIT" => command != b"COMMIT",
        _ => true,
    }
}
