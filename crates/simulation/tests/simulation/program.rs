//! Generated programs of clients, and the faults that strike meanwhile.

use crate::random::Random;

/// A request, or a transaction of several requests.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// Appends an element to a list, unless the list has `size_max` elements already.
    Append {
        list: i32,
        element: u64,
        size_max: Option<i32>,
    },
    /// Appends to a list that may not exist.
    Upsert {
        list: i32,
        element: u64,
    },
    /// Appends an event.
    Insert {
        element: u64,
    },
    Read {
        list: i32,
    },
    /// Takes the first job.
    Take,
    /// Appends to these lists in one transaction, and pauses before its end.
    Transaction {
        appends: Vec<(i32, u64)>,
        pause_ms: u64,
        commits: bool,
    },
}

/// The form in which a client sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Simple,
    Unnamed,
    Prepared,
}

#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) pause_ms: u64,
    pub(crate) action: Action,
    pub(crate) protocol: Protocol,
    /// Whether parameters and results are binary.
    pub(crate) binary: bool,
    /// The client disconnects when it has sent the request.
    pub(crate) leaves: bool,
    /// The request arrives in two parts.
    pub(crate) split: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server ends and loses what has not been committed; it starts again after this time.
    Crash(u64),
    /// A server process ends.
    Kill,
}

/// One history: the clients' programs, and what happens to the server.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) clients: Vec<Vec<Step>>,
    /// Faults, each after a pause in milliseconds.
    pub(crate) faults: Vec<(u64, Fault)>,
    pub(crate) pool_size: u64,
    pub(crate) statement_ms: u64,
    pub(crate) commit_ms: u64,
    pub(crate) network_ms: u64,
    pub(crate) jobs: i32,
}

/// Number of server connections with which no request waits for one.
pub(crate) const ROOMY: u64 = 14;

/// The lists exist before the clients begin, except for this one.
pub(crate) const ABSENT_LIST: i32 = 9;

/// Number of lists.
pub(crate) const LISTS: i32 = 3;

impl Program {
    pub(crate) fn new(random: &mut Random) -> Self {
        let quiet = random.once_in(3);
        let is_roomy = random.once_in(2);
        let clients = random.within(2..=12);
        let steps = random.within(2..=8);
        let mut element = 0;
        let mut next = || {
            element += 1;
            element
        };
        let hot = random.within(1..=3);
        let clients = (0..clients).map(|_| {
            let steps = random.within(1..=steps);
            (0..steps)
                .map(|_| step(random, hot, quiet, &mut next))
                .collect()
        });
        let clients = clients.collect();
        let faults = if quiet { 0 } else { random.within(0..=2) };
        Self {
            clients,
            faults: (0..faults).map(|_| fault(random)).collect(),
            pool_size: if quiet && is_roomy {
                ROOMY
            } else {
                random.within(1..=6)
            },
            statement_ms: random.within(0..=3),
            commit_ms: *random.one_of(&[0, 2, 5, 30]),
            network_ms: random.within(0..=2),
            jobs: i32::try_from(random.within(0..=20)).unwrap(),
        }
    }
}

impl Program {
    /// With one server connection, which is not lost.
    pub(crate) fn on_one_connection(mut self) -> Self {
        self.pool_size = 1;
        self.faults.clear();
        self.clients
            .iter_mut()
            .flatten()
            .for_each(|step| step.leaves = false);
        self
    }

    /// Whether connections are lost.
    pub(crate) fn has_faults(&self) -> bool {
        let mut steps = self.clients.iter().flatten();
        !self.faults.is_empty() || steps.any(|step| step.leaves)
    }
}

fn fault(random: &mut Random) -> (u64, Fault) {
    let pause = random.within(0..=150);
    match random.once_in(2) {
        true => (pause, Fault::Crash(random.within(1..=200))),
        false => (pause, Fault::Kill),
    }
}

fn step(random: &mut Random, hot: u64, quiet: bool, next: &mut dyn FnMut() -> u64) -> Step {
    let list = |random: &mut Random| i32::try_from(random.within(1..=hot)).unwrap();
    let action = match random.within(0..=19) {
        0..=8 => Action::Append {
            list: list(random),
            element: next(),
            size_max: None,
        },
        9..=10 => Action::Append {
            list: list(random),
            element: next(),
            size_max: Some(i32::try_from(random.within(0..=3) * random.within(0..=4)).unwrap()),
        },
        11..=12 => Action::Insert { element: next() },
        13..=14 => Action::Read { list: list(random) },
        15 => Action::Upsert {
            list: *random.one_of(&[1, ABSENT_LIST]),
            element: next(),
        },
        16..=17 => Action::Take,
        _ => Action::Transaction {
            appends: (0..random.within(1..=2))
                .map(|_| (list(random), next()))
                .collect(),
            pause_ms: *random.one_of(&[0, 1, 10, 60, 3_000]),
            commits: !random.once_in(4),
        },
    };
    Step {
        pause_ms: *random.one_of(&[0, 0, 1, 3, 20]),
        action,
        protocol: *random.one_of(&[Protocol::Simple, Protocol::Unnamed, Protocol::Prepared]),
        binary: random.once_in(3),
        leaves: !quiet && random.once_in(24),
        split: random.once_in(6),
    }
}
