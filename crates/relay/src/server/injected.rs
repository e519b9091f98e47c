//! Statements that a group prepares, describes and closes between its members' messages.

use super::{Closed, Ensured, ServerSide, StatementKey};
use crate::parsed::ColumnsId;
use paceline_wire::Frame;
use paceline_wire::backend::tag;
use std::collections::VecDeque;

/// Statements that a group has prepared or closed, in order, until the server confirms each. After an error the server skips
/// everything up to the next Sync: those statements were not prepared or closed.
#[derive(Debug, Default)]
pub struct Injected(VecDeque<Injection>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Injection {
    Close(Closed),
    Parse(StatementKey),
    Unnamed,
    /// The client knows these columns of the statement.
    Describe(StatementKey, ColumnsId),
    Sync,
}

impl Injected {
    /// [`ServerSide::ensure`] has returned this.
    pub fn push(&mut self, ensured: Ensured) {
        self.0.extend(ensured.closed.map(Injection::Close));
        self.0
            .extend(ensured.parsed.then_some(Injection::Parse(ensured.key)));
    }

    /// Number of messages that are not confirmed.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether all messages are confirmed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The statements that are not confirmed, except those of the first `skipped` messages.
    pub fn parses_after(&self, skipped: usize) -> impl Iterator<Item = StatementKey> {
        let later = self.0.iter().skip(skipped);
        later.filter_map(|injection| match injection {
            Injection::Parse(key) => Some(*key),
            _ => None,
        })
    }

    /// A `Parse` of the unnamed statement was written.
    pub fn push_unnamed(&mut self) {
        self.0.push_back(Injection::Unnamed);
    }

    /// A `Describe` of a statement was written whose client knows these columns.
    pub fn push_describe(&mut self, key: StatementKey, known: ColumnsId) {
        self.0.push_back(Injection::Describe(key, known));
    }

    /// Takes a message that answers such a `Describe`; the client does not get it. `Some(false)`: the client knows other columns.
    /// `None`: the message is part of another answer.
    pub fn described(&mut self, frame: Frame<'_>, server: &mut ServerSide) -> Option<bool> {
        let Some(&Injection::Describe(key, known)) = self.0.front() else {
            return None;
        };
        match frame.tag {
            tag::PARAMETER_DESCRIPTION => Some(true),
            tag::ROW_DESCRIPTION | tag::NO_DATA => {
                self.0.pop_front();
                let columns = ColumnsId::described(frame);
                server.set_columns(Some(key), columns);
                if columns != known && server.is_replica {
                    // The replica has not replayed the DDL that the client knows, or had not when it parsed the statement.
                    server.retire(key);
                }
                Some(columns == known)
            }
            _ => None,
        }
    }

    /// Whether the server answers such a message, and not one of a client, if a `Sync` follows each statement that is executed. The client
    /// gets no notice of that message: it got those of its own `Parse`.
    pub fn is_answered(&self) -> bool {
        let front = self.0.front();
        front.is_some_and(|front| !matches!(front, Injection::Unnamed | Injection::Sync))
    }

    /// A `Sync` was written.
    pub fn push_sync(&mut self) {
        self.0.push_back(Injection::Sync);
    }

    /// The server sent `ParseComplete` or `CloseComplete`.
    pub fn complete(&mut self) {
        if self.0.front() != Some(&Injection::Sync) {
            self.0.pop_front();
        }
    }

    /// The server sent `ReadyForQuery`. Undoes what it has not confirmed, the last first.
    pub fn synced(&mut self, server: &mut ServerSide) {
        let sync = self.0.iter().position(|i| *i == Injection::Sync);
        let skipped: Vec<Injection> = self.0.drain(..sync.unwrap_or(self.0.len())).collect();
        self.0.pop_front();
        for injection in skipped.into_iter().rev() {
            match injection {
                Injection::Close(closed) => server.remember(closed),
                Injection::Parse(key) => server.forget(key),
                Injection::Unnamed | Injection::Describe(..) | Injection::Sync => {}
            }
        }
    }
}
