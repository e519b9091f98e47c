//! Whether a client's transactions may have changed the catalog, by the command tags of PostgreSQL.

use paceline_wire::backend::Status;

/// Notes whether the client's transactions may have changed the catalog.
#[derive(Debug, Default)]
pub(super) struct DdlProgress {
    /// The open transaction may have changed the catalog.
    pub(super) open: bool,
    /// A transaction that may have changed the catalog has ended.
    pub(super) ended: bool,
}

impl DdlProgress {
    /// A command has completed; `command` is the body of its `CommandComplete`.
    pub(super) fn executed(&mut self, command: &[u8]) {
        self.open |= may_change_catalog(command);
    }

    /// The server has reported this transaction status.
    pub(super) fn ready(&mut self, status: Status) {
        if self.open && status == Status::Idle {
            *self = Self {
                open: false,
                ended: true,
            };
        }
    }
}

/// Whether the command with this tag may change the catalog: all commands except those that are known not to. `CALL` and `DO` may
/// execute any command. A function that a `SELECT` calls may, too, but its tag does not show it.
fn may_change_catalog(command: &[u8]) -> bool {
    let command = command.strip_suffix(b"\0").unwrap_or(command);
    let word = command.split(|byte| *byte == b' ').next();
    match word.unwrap_or_default() {
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
