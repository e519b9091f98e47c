//! What flows between the two of a ride: taken from one, written to the other, waited for.

use super::{BACKLOG_MAX, Fate, Relay, with_desk};
use crate::client::clock::{Clock, Phase};
use crate::client::{End, summoned};
use bytes::Bytes;
use paceline_wire::frontend::{read_header, tag};
use std::io;
use std::time::Instant;
use tokio::io::Interest;

impl Relay<'_> {
    /// The server takes less than the client has said.
    pub(super) fn has_no_room(&self) -> bool {
        self.to_server.len() >= BACKLOG_MAX
    }

    pub(super) fn take_client_input(&mut self) -> Result<(), End> {
        while self.wants_client() && !self.is_over_so_far() {
            let input = &mut self.client.input;
            if self.copy_data_left > 0 {
                let here = input.split_to(input.len().min(self.copy_data_left));
                if here.is_empty() {
                    break;
                }
                self.copy_data_left -= here.len();
                self.heard = true;
                self.meter.copied(here.len());
                self.to_server.extend_from_slice(&here);
                continue;
            }
            let Some(header) = read_header(input)? else {
                break;
            };
            if header.tag == tag::COPY_DATA {
                self.copy_data_left = header.len;
                continue;
            }
            if input.len() < header.len {
                break;
            }
            let message = input.split_to(header.len).freeze();
            self.heard = true;
            if header.tag == tag::TERMINATE {
                self.client_end = Some(End::Left);
                break;
            }
            if std::mem::take(&mut self.is_first) {
                self.client.registration.whereabouts.rides_on();
            }
            self.ride.goes_on();
            self.begin_if_targeted(&message);
            self.take_unit(&message, None);
        }
        Ok(())
    }

    /// A client that keeps its server begins a unit with a statement that must touch an exact number of rows.
    fn begin_if_targeted(&mut self, message: &Bytes) {
        let templates = &self.client.proxy.templates;
        if self.ride.rests() && self.client.session.is_targeted(message, templates) {
            let Self {
                client,
                conn,
                ride,
                to_server,
                ..
            } = self;
            with_desk(client, conn, |desk| ride.begin_transaction(desk, to_server));
        }
    }

    /// Nothing is left to do: what the client says next is another unit.
    fn is_over_so_far(&self) -> bool {
        self.ride.is_over() && self.copy_data_left == 0
    }

    pub(super) fn take_server_input(&mut self) -> Result<(), (Fate, End)> {
        let Self {
            client,
            conn,
            ride,
            to_server,
            to_client,
            ..
        } = self;
        let mut input = std::mem::take(&mut conn.input);
        let taken = with_desk(client, conn, |desk| {
            ride.answer_done(to_client);
            ride.server_bytes(&mut input, desk, to_client, to_server)
        });
        conn.input = input;
        for state in ride.take_errors() {
            client.pool.stats.failed(state);
        }
        taken.map_err(|error| (Fate::Drop, End::Wire(error)))
    }

    pub(super) fn flush(&mut self) -> Result<(), (Fate, End)> {
        // A failing write shows as a failing read, which tells more.
        let written = self.conn.stream.write_now(&mut self.to_server);
        if written.is_err() {
            self.to_server.clear();
        }
        if self.client_end.is_none()
            && let Err(error) = self.client.stream.write_now(&mut self.to_client)
        {
            self.client_end = Some(error.into());
        }
        if self.client_end.is_some() {
            self.unread += self.to_client.len();
            self.to_client.clear();
        }
        if self.to_client.is_empty() {
            self.room = None;
        }
        Ok(())
    }

    /// Waits until one of the two can be read or written, and reads.
    pub(super) async fn wait(&mut self) -> Result<(), (Fate, End)> {
        let phase = self.phase();
        if let Some(clock) = &mut self.clock {
            clock.turn(phase, std::mem::take(&mut self.heard));
        }
        // Between the units of a transaction.
        let quiet = self.ride.is_quiet() && self.to_server.is_empty();
        if quiet {
            self.exclusive = None;
            self.pause();
        }
        let wants_client = self.wants_client();
        let client_interest = interest(wants_client, !self.to_client.is_empty());
        let server_interest = interest(
            self.to_client.len() < BACKLOG_MAX,
            !self.to_server.is_empty(),
        );
        let client = ready(&self.client.stream, client_interest);
        let server = ready(&self.conn.stream, server_interest);
        let summons = summoned(&mut self.client.summons);
        let idle = phase == Phase::Idle;
        let up = tokio::select! {
            biased;
            ready = server => {
                ready.map_err(|e| (Fate::Drop, e.into()))?;
                None
            }
            ready = client => {
                self.client_end = ready.err().map(End::from).or(self.client_end.take());
                None
            }
            end = summons, if idle => return Err((Fate::Drop, end)),
            why = Clock::is_up(&mut self.clock) => Some(why),
        };
        if quiet {
            self.meter.go_on(Instant::now(), self.ride.status());
        }
        match up {
            Some(why) => Err((Fate::Drop, self.time_is_up(phase, why))),
            None => self.read(wants_client),
        }
    }

    fn pause(&mut self) {
        let (status, sent) = (self.ride.status(), self.ride.forwarded());
        let pool = &self.client.pool;
        self.meter.pause(Instant::now(), status, sent, pool);
        pool.stats.server_parsed(self.conn.side.take_parses());
    }

    fn read(&mut self, wants_client: bool) -> Result<(), (Fate, End)> {
        self.client.proxy.busy_poll.heard();
        if wants_client && let Err(error) = self.client.stream.read_now(&mut self.client.input) {
            self.client_end = Some(error.into());
        }
        if self.to_client.len() >= BACKLOG_MAX {
            return Ok(());
        }
        match self.conn.stream.read_now(&mut self.conn.input) {
            Ok(_) => Ok(()),
            Err(error) => self.server_is_gone(&error),
        }
    }

    /// What it said last is passed on; then the client's connection ends, as it would have alone.
    fn server_is_gone(&mut self, error: &io::Error) -> Result<(), (Fate, End)> {
        tracing::debug!(%error, "server connection lost in a ride");
        self.take_server_input()?;
        let mut told = std::mem::take(&mut self.to_client);
        if !self.ride.is_fatal() {
            self.client.pool.stats.failed(*b"08006");
            told.extend_from_slice(&self.client.lost());
        }
        Err((Fate::Drop, End::Lost(told.freeze())))
    }
}

fn interest(read: bool, write: bool) -> Option<Interest> {
    match (read, write) {
        (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
        (true, false) => Some(Interest::READABLE),
        (false, true) => Some(Interest::WRITABLE),
        (false, false) => None,
    }
}

/// Waits for what is of interest; for nothing, for ever.
async fn ready(stream: &crate::stream::Stream, interest: Option<Interest>) -> io::Result<()> {
    match interest {
        Some(interest) => stream.ready(interest).await.map(|_| ()),
        None => std::future::pending().await,
    }
}
