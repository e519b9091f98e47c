//! The spans of the requests of a relay. Each ends with the ReadyForQuery of its request. Requests are numbered from 0, in the order
//! in which the relay has taken them and answers them.

use crate::client::Client;
use crate::client::end::ClientEnd;
use crate::client::trace::RequestTrace;
use bytes::Bytes;
use paceline_pool::address::Address;
use paceline_pool::shared::Shared;
use paceline_relay::relay::RelayedError;
use paceline_wire::frontend::tag;
use std::collections::VecDeque;

/// The spans of a relay.
#[derive(Debug)]
pub(super) struct RelaySpans {
    first: FirstRequest,
    /// The spans of requests that have no answer, with their numbers.
    open: VecDeque<(u64, Box<RequestTrace>)>,
    /// Number of requests that the relay has taken to their end.
    taken: u64,
    progress: Progress,
}

/// The request with which the relay begins. Whether it is traced was decided before.
#[derive(Debug)]
enum FirstRequest {
    /// The relay has taken none of its messages. `None`: it is not traced.
    Expected(Option<Box<RequestTrace>>),
    Taken,
}

/// The progress of the relay through the client's messages.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    BetweenRequests,
    /// It has taken the first statement of a request.
    InRequest,
}

impl RelaySpans {
    /// For a relay that begins with the client's request. `None`: nothing is traced.
    pub(super) fn start(client: &mut Client) -> Option<Box<Self>> {
        let is_on = client.trace.is_some() || client.proxy.shared.traces.is_on();
        is_on.then(|| {
            Box::new(Self {
                first: FirstRequest::Expected(client.trace.take()),
                open: VecDeque::new(),
                taken: 0,
                progress: Progress::BetweenRequests,
            })
        })
    }

    /// The relay has taken a message, of a long one the beginning. `is_own`: it is Paceline's own, not the client's.
    pub(super) fn message(
        &mut self,
        message: &Bytes,
        is_own: bool,
        address: &Address,
        shared: &Shared,
    ) {
        let Some(&tag) = message.first() else {
            return;
        };
        let ends = matches!(tag, tag::QUERY | tag::SYNC | tag::FUNCTION_CALL);
        if !is_own && self.progress == Progress::BetweenRequests {
            let begun = match &mut self.first {
                FirstRequest::Expected(_) if !ends && !has_statement(tag) => None,
                FirstRequest::Expected(first) => {
                    let first = first.take();
                    self.first = FirstRequest::Taken;
                    Some(first)
                }
                FirstRequest::Taken if has_statement(tag) => {
                    Some(begin_further(message, address, shared))
                }
                FirstRequest::Taken => None,
            };
            if let Some(trace) = begun {
                self.progress = Progress::InRequest;
                self.open.extend(trace.map(|trace| (self.taken, trace)));
            }
        }
        if ends {
            self.taken += 1;
            self.progress = Progress::BetweenRequests;
        }
    }

    /// The client's request is sent again, as the first one.
    pub(super) fn repeat(&mut self) {
        self.first = FirstRequest::Expected(self.open.pop_front().map(|(_, trace)| trace));
        self.taken = 0;
        self.progress = Progress::BetweenRequests;
    }

    /// The request of a shared read, whose messages the relay does not take, is under way.
    pub(super) fn take_over(&mut self) {
        if let FirstRequest::Expected(first) =
            std::mem::replace(&mut self.first, FirstRequest::Taken)
        {
            self.open.extend(first.map(|first| (0, first)));
        }
        self.taken = 1;
    }

    /// An error was sent to the client.
    pub(super) fn failed(&mut self, error: RelayedError) {
        let mut open = self.open.iter_mut();
        if let Some((_, trace)) = open.find(|(number, _)| *number == error.request) {
            trace.error.get_or_insert(error.state);
        }
    }

    /// Ends the spans of the requests before the one with this number: their answers are complete.
    pub(super) fn answered(&mut self, answered: u64, client: &Client) {
        while self
            .open
            .front()
            .is_some_and(|(number, _)| *number < answered)
        {
            self.end_first(client, None);
        }
    }

    /// The relay has answered all requests; it counts so many. (PostgreSQL does not answer a Sync that it reads in COPY.)
    pub(super) fn all_answered(&mut self, answered: u64, client: &Client) {
        self.answered(u64::MAX, client);
        self.taken = answered;
    }

    /// The relay has ended.
    pub(super) fn end(mut self, client: &Client, end: Option<&ClientEnd>) {
        if let FirstRequest::Expected(Some(first)) =
            std::mem::replace(&mut self.first, FirstRequest::Taken)
        {
            self.open.push_back((self.taken, first));
        }
        while !self.open.is_empty() {
            self.end_first(client, end);
        }
    }

    fn end_first(&mut self, client: &Client, end: Option<&ClientEnd>) {
        if let Some((_, mut trace)) = self.open.pop_front() {
            end.into_iter().for_each(|end| trace.client_ends(end));
            trace.end(&client.proxy.shared, &client.session);
        }
    }
}

/// Whether the span of a request begins with this message, at the latest.
fn has_statement(tag: u8) -> bool {
    matches!(
        tag,
        tag::QUERY | tag::PARSE | tag::BIND | tag::EXECUTE | tag::FUNCTION_CALL
    )
}

/// A request that is not the first one of its relay begins.
fn begin_further(message: &Bytes, address: &Address, shared: &Shared) -> Option<Box<RequestTrace>> {
    if !shared.traces.is_on() {
        return None;
    }
    let mut trace = RequestTrace::begin(shared, message)?;
    trace.relayed(address, false);
    Some(trace)
}
