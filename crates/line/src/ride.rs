//! A ride: one client relayed to one server, for a unit (solo) or until its transaction ends (lease).
//!
//! The relay changes only what it must: names of prepared statements, statements prepared lazily, and what the
//! hints of a statement ask for at the end of its transaction. Everything else passes as it came; bodies that
//! nobody inspects are forwarded in slices as they arrive.
//!
//! What comes back is matched with what went out by a queue of expectations (chapter "Message Flow").

mod change;
mod changes;
mod copy;
mod expect;
mod expectations;
mod idle;
mod inward;
mod journal;
mod keep;
mod listening;
mod long;
mod named;
mod outward;
mod portals;
mod reading;
mod repeat;
mod sequences;
mod shape;
mod whole_session;

use crate::analysis::Shape;
use crate::server::{ServerSide, StatementKey};
use crate::session::Session;
use crate::settings::SettingsBook;
use crate::show::Console;
use crate::strategy::Underway;
use crate::template::{Template, Templates};
use crate::unit::Form;
use bytes::{Bytes, BytesMut};
use change::Unseen;
use expect::Expect;
use expectations::Expectations;
use foldhash::{HashMap, HashMapExt};
use idle::InForce;
pub use inward::MESSAGES_MAX;
use journal::Journal;
pub use keep::{Keeping, StatePolicy};
use listening::Listens;
pub use listening::{ListenMode, ListenNeed};
use named::Moved;
use paceline_sql::{Hints, PinReason, SequenceUse};
use paceline_wire::backend::Status;
use portals::Portal;
use repeat::Repeat;
pub use shape::NotYet;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Answers that a server owes to one client at most: then the client is not listened to until there are fewer.
pub const OWED_MAX: usize = 16 * 1024;

/// Accepted statements that a ride keeps before its caller should take them.
const ACCEPTED_MAX: usize = 1_024;

/// What a ride works with.
pub struct Desk<'a> {
    /// The client's session.
    pub session: &'a mut Session,
    /// The far end of the server connection.
    pub server: &'a mut ServerSide,
    /// All templates.
    pub templates: &'a Templates,
    /// All settings.
    pub book: &'a SettingsBook,
    /// What Paceline itself answers.
    pub console: &'a dyn Console,
    /// Does this template call functions that may change the session in ways its text does not tell?
    pub taints: &'a dyn Fn(&Template) -> bool,
    /// What becomes of state that cannot follow its client.
    pub state: &'a StatePolicy,
    /// What the client's query is, if somebody has found out already; its text goes to the server as it is.
    pub known: Option<&'a Arc<Template>>,
}

/// How a hinted unit that is not in a transaction gets one, so that it can be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrap {
    /// Not at all.
    No,
    /// `BEGIN` goes first: the number of rows decides between COMMIT and ROLLBACK.
    Begin,
    /// It changes one row or none, and must change one: if it changed none there is nothing to undo.
    OneRow,
}

/// A client on a server connection.
#[derive(Debug)]
pub struct Ride {
    expect: Expectations,
    /// Transaction status that the server reported last.
    status: Status,
    /// Status before the unit that is under way.
    status_before: Status,
    /// The server takes CopyData from the client.
    copy_in: bool,
    /// The copy under way has a Sync in it: the server skips it if it reads it before the copy ends, else it answers it.
    sync_in_copy: bool,
    /// The client's unit has begun and not ended: the server keeps its implicit transaction open.
    mid_unit: bool,
    /// After an error the server skips what the client says, up to its next Sync.
    skipping: bool,
    /// Rest of a message from the server whose body nobody inspects.
    body: Body,
    /// What the unit under way has shown so far.
    unit: Progress,
    /// Statements bound to portals.
    portals: HashMap<Box<[u8]>, Portal>,
    /// Settings that the transaction may still undo.
    journal: Journal,
    /// What the client keeps this server for beyond its transaction.
    kept: Vec<PinReason>,
    /// That it keeps this server has been noted.
    noted: bool,
    /// The client keeps this server whatever it does (`pool_mode` session).
    stays: bool,
    /// Its text has prepared a statement that cannot move.
    prepares: bool,
    /// What the client was warned of.
    warned: Vec<PinReason>,
    /// What may have changed the session since it was idle, unseen.
    unseen: Unseen,
    /// Settings that the server has reported since the session was idle, as they were before.
    reported: BTreeMap<String, Option<String>>,
    /// Settings that the text has set since the session was idle.
    touched: Vec<String>,
    /// Settings that the server is to be asked for when the session is idle.
    asked: Vec<String>,
    /// `RESET ALL` has been carried out since the session was idle.
    resets_all: bool,
    /// `idle_session_timeout`.
    idle_timeout: InForce,
    /// See [`Ride::first_unit_describes`].
    first_describes: bool,
    /// A statement is being described, whose columns the client knows.
    describing: bool,
    /// Its columns, for the message that comes again.
    just_described: Option<Shape>,
    /// May the ride's first unit be carried out once more?
    repeat: Repeat,
    /// The wrap of the ride's first unit.
    wrap: Wrap,
    /// What the ride's first unit may do with sequences, while it is under way.
    first_uses: Option<SequenceUse>,
    /// See [`Ride::has_strange_numbers`].
    strange_numbers: bool,
    /// The server said that it ends the connection.
    fatal: bool,
    saw_error: bool,
    /// SQLSTATEs of errors that the client was told of and nobody has taken.
    errors: Vec<[u8; 5]>,
    accepted: Vec<StatementKey>,
    /// What is about to go to the server fails if another session is in this database.
    exclusive: Option<String>,
    /// Bytes of answers that reached the client.
    forwarded: u64,
    /// What the shared LISTEN has to do with it.
    listens: Listens,
    /// What the messages of the server have cost in the call under way, in messages.
    work: usize,
}

/// The rest of a body that passes unseen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Forward(usize),
    Swallow(usize),
}

/// What is known of the unit under way: since the last ReadyForQuery.
#[derive(Debug, Default)]
struct Progress {
    /// An ErrorResponse came.
    failed: bool,
    /// It may have begun a transaction block, of which the server tells at its end.
    may_have_begun: bool,
    /// The client may have let go of what it keeps.
    lets_go: bool,
    /// Settings that the session began with, and a RESET took away on the server.
    taken_away: BTreeSet<String>,
    /// Where the text that went to the server differs from the client's.
    moved: Option<Moved>,
    /// What it prepares by a query, where that passes as it is.
    prepares: Option<(Box<[u8]>, Arc<Template>)>,
    /// The name that the client has tried to give a statement, if that was refused.
    refused_name: Box<[u8]>,
    /// What the server reported since then: the client is told the last of it.
    statuses: Vec<(String, Bytes)>,
    /// Hints of the last statement that completed.
    hints: Hints,
    /// A statement that failed wants its transaction rolled back.
    rolls_back: bool,
    /// Rows its last statement touched.
    rows: Option<u64>,
    /// The answer from its last CommandComplete on, kept until the transaction has ended as hinted.
    held: BytesMut,
    /// Paceline is ending the transaction.
    ending: Option<Ending>,
}

/// How Paceline ends a hinted transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// With COMMIT.
    Commit,
    /// With ROLLBACK.
    Rollback,
    /// Into the failed state.
    Fail,
}

impl Ride {
    /// A client boards an idle server on which its settings are in force; `out` gets what must reach the server
    /// first.
    pub fn board(desk: &mut Desk<'_>, wrap: Wrap, out: &mut BytesMut) -> Self {
        let mut ride = Self::expecting([], wrap);
        ride.close_leftovers(desk, out);
        if wrap == Wrap::Begin {
            ride.begin_transaction(desk, out);
        }
        ride
    }

    /// Of a client that keeps its server: the unit that it begins now must touch an exact number of rows. Only when the server
    /// owes nothing and is in no transaction ([`Ride::rests`]).
    pub fn begin_transaction(&mut self, desk: &mut Desk<'_>, out: &mut BytesMut) {
        paceline_wire::frontend::write_query(out, "BEGIN");
        desk.server.unnamed = None;
        self.wrap = Wrap::Begin;
        self.expect.push_back(Expect::OwnQuery);
    }

    /// The client has begun a unit, and is in no transaction block: [`Ride::begin_within_unit`] makes it one.
    pub fn is_within_unit(&self) -> bool {
        let alone = self.status == Status::Idle && self.wrap == Wrap::No;
        alone && self.mid_unit && !self.skipping && !self.copy_in && !self.unit.may_have_begun
    }

    /// The unit that the client has begun must touch an exact number of rows with what comes now. What it has done so far is part
    /// of the same transaction.
    pub fn begin_within_unit(&mut self, out: &mut BytesMut) {
        self.wrap = Wrap::Begin;
        self.own_within_unit("BEGIN", out);
    }

    /// Writes a statement of Paceline's own in the midst of the client's unit. (A `Query` would end what the unit has begun.)
    fn own_within_unit(&mut self, sql: &str, out: &mut BytesMut) {
        use paceline_wire::frontend::{BindNames, Parse, Target, tag, write_execute_of};
        // Not the unnamed ones: the client may have something else under them.
        const NAME: &[u8] = b"paceline: own";
        let parse = Parse {
            name: NAME,
            text: sql.as_bytes(),
            types: &[0, 0],
        };
        parse.write(out);
        let bind = BindNames {
            portal: NAME,
            statement: NAME,
            rest: &[0; 6],
        };
        bind.write(out);
        write_execute_of(out, NAME);
        Target::Portal(NAME).write(out, tag::CLOSE);
        Target::Statement(NAME).write(out, tag::CLOSE);
        self.expect.extend([
            Expect::OwnParse { key: None },
            Expect::OwnStep,
            Expect::OwnStep,
            Expect::OwnClose { closed: None },
            Expect::OwnClose { closed: None },
        ]);
    }

    /// The server owes no answer, and is in no transaction.
    pub fn rests(&self) -> bool {
        self.is_quiet() && self.status == Status::Idle
    }

    fn close_leftovers(&mut self, desk: &mut Desk<'_>, out: &mut BytesMut) {
        for name in desk.server.take_leftovers() {
            paceline_wire::frontend::Target::Statement(&name)
                .write(out, paceline_wire::frontend::tag::CLOSE);
            self.expect.push_back(Expect::OwnClose { closed: None });
        }
    }

    /// A client takes over a server whose rows for it are coming in already; the client gets what came before.
    pub fn take_over(underway: Underway) -> (Self, BytesMut) {
        let (changes, hints) = (Vec::new().into(), Hints::default());
        let mut ride = match underway.form {
            Form::Simple => {
                let query = Expect::Query {
                    changes,
                    hints,
                    by_name: false,
                };
                Self::expecting([query], Wrap::No)
            }
            Form::Extended { .. } => {
                Self::expecting([Expect::Execute { changes, hints }, Expect::Sync], Wrap::No)
            }
        };
        ride.forwarded = underway.answer.len() as u64;
        (ride, underway.answer)
    }

    fn expecting<const N: usize>(expect: [Expect; N], wrap: Wrap) -> Self {
        Self {
            expect: expect.into(),
            status: Status::Idle,
            status_before: Status::Idle,
            copy_in: false,
            sync_in_copy: false,
            mid_unit: false,
            skipping: false,
            body: Body::Forward(0),
            unit: Progress::default(),
            portals: HashMap::new(),
            journal: Journal::default(),
            kept: Vec::new(),
            noted: false,
            stays: false,
            prepares: false,
            warned: Vec::new(),
            unseen: Unseen::default(),
            reported: BTreeMap::new(),
            touched: Vec::new(),
            asked: Vec::new(),
            resets_all: false,
            describing: false,
            just_described: None,
            idle_timeout: InForce::Off,
            first_describes: false,
            repeat: Repeat::default(),
            wrap,
            first_uses: None,
            strange_numbers: false,
            fatal: false,
            saw_error: false,
            errors: Vec::new(),
            accepted: Vec::new(),
            exclusive: None,
            forwarded: 0,
            listens: Listens::default(),
            work: 0,
        }
    }

    /// From now on the client keeps its server until it leaves.
    pub fn stay(&mut self) {
        self.stays = true;
    }

    /// The server owes no answer, is in no transaction, and the client does not keep it: the ride is over.
    pub fn is_over(&self) -> bool {
        self.rests()
            && self.kept.is_empty()
            && self.asked.is_empty()
            && !self.stays
            && !self.awaits_notifications()
    }

    /// The client has got only the beginning of a message.
    pub fn is_mid_message(&self) -> bool {
        matches!(self.body, Body::Forward(left) if left > 0)
    }

    /// The server owes no answer.
    pub fn is_quiet(&self) -> bool {
        self.expect.is_empty()
            && !self.copy_in
            && !self.mid_unit
            && !self.skipping
            && self.body == Body::Forward(0)
    }

    /// The client has more to say before anything can happen: between the units of a transaction, in COPY IN, in a
    /// unit that is relayed as it arrives.
    pub fn awaits_client(&self) -> bool {
        self.copy_in || (!self.describing && !self.expect.owe_boundary())
    }

    /// The transaction status.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The client keeps its server beyond its transaction, which nobody has noted.
    pub fn take_pin(&mut self) -> bool {
        let noted = std::mem::take(&mut self.noted) && !self.kept.is_empty();
        let keeps = self.rests() && !self.kept.is_empty() && !self.stays;
        self.noted = noted || keeps;
        keeps && !noted
    }

    /// What the client keeps its server for.
    pub fn kept(&self) -> &[PinReason] {
        &self.kept
    }

    /// What the client was warned of (`session_state = warn`).
    pub fn warned(&self) -> &[PinReason] {
        &self.warned
    }

    /// The server ended the connection with a message.
    pub fn is_fatal(&self) -> bool {
        self.fatal
    }

    /// The client was told of an error.
    pub fn saw_error(&self) -> bool {
        self.saw_error
    }

    /// SQLSTATEs of the errors that the client was told of since this was asked last.
    pub fn take_errors(&mut self) -> Vec<[u8; 5]> {
        std::mem::take(&mut self.errors)
    }

    /// Named statements of the client that PostgreSQL has taken since this was asked last.
    pub fn take_accepted(&mut self) -> Vec<StatementKey> {
        std::mem::take(&mut self.accepted)
    }

    /// So many statements are there for [`Ride::take_accepted`] that they should be taken before the unit ends.
    pub fn has_accepted_many(&self) -> bool {
        self.accepted.len() >= ACCEPTED_MAX
    }

    /// The server owes so many answers that the client should say no more before some of them have come.
    pub fn owes_much(&self) -> bool {
        self.expect.len() >= OWED_MAX
    }

    /// A database in which no other session may be when what was written for the server arrives there; asked for once.
    pub fn take_exclusive(&mut self) -> Option<String> {
        self.exclusive.take()
    }

    /// Bytes of answers forwarded so far.
    pub fn forwarded(&self) -> u64 {
        self.forwarded
    }
}
