//! Names of statements on the server.

use crate::analysis::Shape;
use crate::server::{NAME_PREFIX, StatementKey};
use crate::template::Template;
use paceline_sql::Effect;
use std::sync::Arc;

/// Stands on servers for each name that a client uses already and tries to give once more.
pub(super) const TAKEN: &str = "paceline_taken";

/// A statement of the client, as the server knows it.
#[derive(Default)]
pub(super) struct Known {
    pub(super) name: Vec<u8>,
    /// If it is shared with other clients.
    pub(super) key: Option<StatementKey>,
    /// What it does, if the client has prepared it.
    pub(super) template: Option<Arc<Template>>,
    /// Its columns, if the client was told of them.
    pub(super) told: Option<Shape>,
}

impl Known {
    /// Its effect is unknown.
    pub(super) fn is_unread(&self) -> bool {
        let template = self.template.as_ref();
        template.is_some_and(|template| template.statement.is_none() && !template.is_bulk())
    }

    /// PostgreSQL plans no such statement (`FETCH`, `SHOW`): its columns are those of each execution, and no error says that they
    /// are others than before.
    pub(super) fn is_utility(&self) -> bool {
        let template = self.template.as_ref();
        template.is_some_and(|template| template.effect() == Some(&Effect::Other))
    }
}

/// A client's own name, made different from the names that Paceline gives.
pub(super) fn foreign(name: &[u8]) -> Vec<u8> {
    let mut name = name.to_vec();
    if name.starts_with(NAME_PREFIX.as_bytes()) {
        name.push(b' ');
    }
    name
}
