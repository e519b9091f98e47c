//! What a server is asked about the session on it.

use crate::server::NAME_PREFIX;
use paceline_sql::{IDLE_SESSION_TIMEOUT, PinReason, quote_literal};

/// What a server is asked about the session on it.
#[derive(Debug, Default)]
pub(super) struct Question {
    pub(super) kinds: Vec<PinReason>,
    pub(super) settings: Vec<String>,
}

impl Question {
    pub(super) fn sql(&self) -> String {
        let kinds = self
            .kinds
            .iter()
            .map(|reason| reason.condition(NAME_PREFIX));
        let kinds = kinds.map(|condition| condition.unwrap_or_else(|| "true".to_owned()));
        let settings = self.settings.iter().map(|name| {
            let name = quote_literal(name);
            format!("pg_catalog.current_setting({name}, true)")
        });
        let off = self
            .settings
            .iter()
            .any(|name| name == IDLE_SESSION_TIMEOUT);
        let off =
            off.then(|| format!("pg_catalog.set_config('{IDLE_SESSION_TIMEOUT}', '0', false)"));
        let columns: Vec<String> = kinds.chain(settings).chain(off).collect();
        format!("SELECT {}", columns.join(", "))
    }
}
