//! Log lines about a client connection.

use super::Client;
use super::end::ClientEnd;
use crate::log::{self, ClientNames};
use paceline_pool::stats::first_words;

impl Client {
    pub(super) fn log_end(&self, end: &ClientEnd) {
        tracing::debug!(%end, "client connection ends");
        match end {
            ClientEnd::Left => self.log_closed("client close request"),
            ClientEnd::Io(_) => self.log_closed("client unexpected eof"),
            ClientEnd::Wire(error) => self.log_error(&error.to_string()),
            ClientEnd::Error(message) => self.log_error(first_words(message).unwrap_or_default()),
            ClientEnd::ServerLost(_) => self.log_closed("server connection lost"),
        }
    }

    /// Logs an error of Paceline's own that the client gets.
    pub(super) fn log_error(&self, why: &str) {
        let config = self.proxy.config();
        log::pooler_error(&config.paceline.logging, self.names(), why);
        self.log_closed(why);
    }

    fn log_closed(&self, why: &str) {
        let config = self.proxy.config();
        let since = self.registration.entry.info.since;
        let age = self.proxy.shared.clock.seconds().saturating_sub(since);
        log::client_closed(&config.paceline.logging, self.names(), why, age);
    }

    fn names(&self) -> ClientNames<'_> {
        let name = self.pool.name.get();
        ClientNames {
            database: name.map(|name| name.database.as_str()),
            user: name.map(|name| name.user.as_str()),
            // The address at login: a socket that is closed has none.
            peer: &self.registration.entry.info.peer,
        }
    }
}
