//! A script: steps of bytes, each with the point up to which answers are awaited.

use crate::harness::message;
use crate::harness::raw::RawClient;
use crate::harness::reply::Message;

/// Steps for one client.
#[derive(Clone)]
pub(super) struct Script {
    pub(super) name: &'static str,
    pub(super) steps: Vec<Step>,
    /// Each step is one unit that leaves no transaction or session state behind, so that several clients can run it in
    /// lockstep on one server connection.
    pub(super) lockstep: bool,
}

/// Bytes, and the end of their answer.
#[derive(Clone)]
pub(super) struct Step {
    pub(super) bytes: Vec<u8>,
    pub(super) stop: Stop,
}

/// The end of an answer.
#[derive(Clone)]
pub(super) enum Stop {
    /// This number of ReadyForQuery.
    Ready(usize),
    /// The first message with one of these tags.
    Tag(&'static [u8]),
    /// The end of the connection.
    End,
}

impl Stop {
    #[track_caller]
    pub(super) fn collect(&self, client: &mut RawClient) -> Vec<Message> {
        match self {
            Stop::Ready(count) => (0..*count).flat_map(|_| client.reply().0).collect(),
            Stop::Tag(tags) => client.receive_until(tags),
            Stop::End => client.receive_to_end(),
        }
    }
}

/// A script that keeps its server connection for itself.
pub(super) fn alone(name: &'static str, steps: Vec<Step>) -> Script {
    Script {
        name,
        steps,
        lockstep: false,
    }
}

/// A script of which each step is one self-contained unit.
pub(super) fn lockstep(name: &'static str, steps: Vec<Step>) -> Script {
    Script {
        name,
        steps,
        lockstep: true,
    }
}

/// A simple query.
pub(super) fn q(sql: &str) -> Step {
    Step {
        bytes: message::query(sql),
        stop: Stop::Ready(1),
    }
}

/// Messages that end in one Sync, which is added.
pub(super) fn x(messages: &[Vec<u8>]) -> Step {
    Step {
        bytes: [messages.concat(), message::sync()].concat(),
        stop: Stop::Ready(1),
    }
}

/// Parse, Bind, Describe, Execute, Sync with text parameters.
pub(super) fn run(sql: &str, parameters: &[Option<&str>]) -> Step {
    x(&[
        message::parse("", sql, &[]),
        message::bind("", "", parameters),
        message::describe(b'P', ""),
        message::execute("", 0),
    ])
}

/// Messages that are answered by `count` ReadyForQuery.
pub(super) fn ready(count: usize, messages: &[Vec<u8>]) -> Step {
    Step {
        bytes: messages.concat(),
        stop: Stop::Ready(count),
    }
}

/// Messages whose answer is awaited up to one of these tags.
pub(super) fn up_to(tags: &'static [u8], messages: &[Vec<u8>]) -> Step {
    Step {
        bytes: messages.concat(),
        stop: Stop::Tag(tags),
    }
}

/// Messages upon which the connection ends.
pub(super) fn to_end(messages: &[Vec<u8>]) -> Step {
    Step {
        bytes: messages.concat(),
        stop: Stop::End,
    }
}
