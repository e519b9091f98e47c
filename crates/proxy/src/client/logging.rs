//! What the log says of a client's connection.

use super::{Client, End};
use crate::log::{self, ClientNames};
use crate::stats::first_words;
use crate::stream::Peer;

impl Client {
    pub(super) fn log_end(&self, end: &End) {
        tracing::debug!(%end, "client connection ends");
        match end {
            End::Left => self.log_closed("client close request"),
            End::Io(_) => self.log_closed("client unexpected eof"),
            End::Wire(error) => self.log_error(&error.to_string()),
            End::Told(told) => self.log_error(first_words(told).unwrap_or_default()),
            End::Lost(_) => self.log_closed("server connection lost"),
        }
    }

    /// It gets an error of Paceline's own.
    pub(super) fn log_error(&self, why: &str) {
        let (config, peer) = (self.proxy.config(), self.stream.peer());
        log::pooler_error(&config.paceline.logging, self.names(&peer), why);
        self.log_closed(why);
    }

    fn log_closed(&self, why: &str) {
        let (config, peer) = (self.proxy.config(), self.stream.peer());
        let since = self.registration.whereabouts.presence.since;
        let age = self.proxy.clock.seconds().saturating_sub(since);
        log::client_closed(&config.paceline.logging, self.names(&peer), why, age);
    }

    fn names<'a>(&'a self, peer: &'a Peer) -> ClientNames<'a> {
        let name = self.pool.name.get();
        ClientNames {
            database: name.map(|name| name.database.as_str()),
            user: name.map(|name| name.user.as_str()),
            peer,
        }
    }
}
