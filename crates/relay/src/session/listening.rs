//! The channels on which a client listens by the shared connection ([`shared_listen`](crate::shared_listen)).

use crate::settings::{CLIENT_ENCODING, SessionSettings};
use crate::shared_listen::Marker;
use crate::template::Template;
use paceline_sql::{Effect, Listening, SessionChange};
use std::sync::Arc;

/// The channels of one client.
#[derive(Debug, Clone, Default)]
pub struct ClientListening {
    /// The process id that Paceline sent to the client.
    pub process: u32,
    /// The channel of markers, see [`shared_listen`](crate::shared_listen).
    pub marker: Arc<str>,
    /// Channels on which the client listens by the shared connection, sorted.
    pub channels: Vec<Arc<str>>,
    /// Whether the default `client_encoding` of its server connections is UTF8. The shared connection uses UTF8.
    pub default_is_utf8: bool,
    /// Whether the encoding of the database is UTF8. In other encodings PostgreSQL truncates long channel names at another
    /// character.
    pub server_is_utf8: bool,
    /// Number of the last marker.
    number: u64,
}

impl ClientListening {
    /// Whether the client listens on a channel.
    pub fn is_listening(&self) -> bool {
        !self.channels.is_empty()
    }

    /// The NOTIFY that reports a change to the shared connection when the transaction commits.
    pub(crate) fn marker(&mut self, change: &Listening) -> String {
        self.number += 1;
        Marker::sql(&self.marker, change, self.number)
    }

    /// Whether a client with these settings can read what the shared connection sends: both use UTF8.
    pub fn fits(&self, settings: &SessionSettings) -> bool {
        if !self.server_is_utf8 {
            return false;
        }
        let Some(sql) = settings.sql_of(CLIENT_ENCODING) else {
            return self.default_is_utf8;
        };
        let letters = sql.chars().filter(char::is_ascii_alphanumeric);
        let letters: String = letters.map(|c| c.to_ascii_lowercase()).collect();
        // `SET client_encoding TO …`, or a call of `set_config`.
        letters.contains("utf8") || letters.contains("unicode")
    }

    /// A SELECT with the result of `pg_listening_channels()`.
    pub fn to_select(&self) -> String {
        let channels = self.channels.iter();
        let channels: Vec<_> = channels.map(|c| paceline_sql::quote_literal(c)).collect();
        format!(
            "SELECT pg_listening_channels FROM pg_catalog.unnest(ARRAY[{}]::pg_catalog.text[]) AS t(pg_listening_channels)",
            channels.join(", ")
        )
    }
}

/// The function that returns the channels of a session.
const LISTS: &str = "pg_listening_channels";

/// Whether a statement calls `pg_listening_channels()`.
pub(crate) fn lists_channels(template: &Template) -> bool {
    let statement = template.statement.as_ref();
    statement.is_some_and(|statement| statement.functions.iter().any(|name| name.name == LISTS))
}

/// Whether a text only selects `pg_listening_channels()`.
pub(crate) fn only_lists_channels(text: &str) -> bool {
    let text = text.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    let text = text.to_ascii_lowercase();
    let words: Vec<&str> = text.split_whitespace().collect();
    let (["select", call] | ["select", "*", "from", call]) = words.as_slice() else {
        return false;
    };
    let call = call.strip_prefix("pg_catalog.").unwrap_or(call);
    call.strip_prefix(LISTS) == Some("()")
}

/// The LISTEN or UNLISTEN of a statement that does nothing else.
pub(super) fn of_template(template: &Template) -> Option<&Listening> {
    let statements = template.statement.as_ref()?.statements;
    match template.effect()? {
        Effect::Session(changes) if statements == 1 => match changes.as_slice() {
            [SessionChange::Listening(listening)] => Some(listening),
            _ => None,
        },
        _ => None,
    }
}
