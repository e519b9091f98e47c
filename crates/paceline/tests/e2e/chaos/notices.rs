//! The answers to clients that notify, the notifications that others get, and their comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use super::ledger::Findings;

pub(crate) const CHANNELS: [&str; 2] = ["news", "orders"];
/// The numbers of the last notifications of a run, which end the listeners, begin here.
pub(crate) const LAST: i32 = 1_000_000_000;
const LAST_SENDER: i32 = 0;

/// The answer to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Committed,
    RolledBack,
    Refused(String),
    /// The connection was lost first.
    Unknown,
    Hung,
}

/// The notifications of a transaction. Their payloads are numbers, `first` and those that follow it; a sender's numbers rise.
#[derive(Debug, Clone)]
pub(crate) struct Notice {
    pub(crate) sender: i32,
    pub(crate) channel: &'static str,
    pub(crate) first: i32,
    pub(crate) count: i32,
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    /// Whether the message that commits may have been sent.
    pub(crate) asked: bool,
    pub(crate) outcome: Outcome,
}

/// A notification that a listener has got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) channel: String,
    pub(crate) number: i32,
    pub(crate) at: u64,
}

/// A connection of a listener, from the answer to its last LISTEN to its end.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) is_direct: bool,
    pub(crate) channels: Vec<&'static str>,
    /// Before the first LISTEN was sent.
    pub(crate) begun: u64,
    pub(crate) listens_since: u64,
    pub(crate) heard: Vec<Heard>,
    /// Notifications of its own that it had not got when they were acknowledged, though the connection lasted.
    pub(crate) late: Vec<i32>,
}

/// All notifications of a run.
#[derive(Default)]
pub(crate) struct Notices {
    sent: Mutex<Vec<Notice>>,
    sessions: Mutex<Vec<Session>>,
}

impl Notices {
    pub(crate) fn add(&self, notice: Notice) {
        self.sent.lock().unwrap().push(notice);
    }

    pub(crate) fn add_session(&self, session: Session) {
        self.sessions.lock().unwrap().push(session);
    }

    /// `missed`: Paceline has logged that clients may have missed notifications, and keeps them connected.
    pub(crate) fn compare(&self, missed: bool, findings: &mut Findings) {
        let (sent, sessions) = (self.sent.lock().unwrap(), self.sessions.lock().unwrap());
        compare(&sent, &sessions, missed, findings);
    }
}

impl Notice {
    /// One of the last notifications, committed.
    pub(crate) fn last(place: usize, number: i32, begun: u64, ended: u64) -> Self {
        Self {
            sender: LAST_SENDER,
            channel: CHANNELS[place],
            first: number,
            count: 1,
            begun,
            ended,
            asked: true,
            outcome: Outcome::Committed,
        }
    }

    fn is_committed(&self) -> bool {
        self.outcome == Outcome::Committed
    }

    fn may_be_heard(&self) -> bool {
        match self.outcome {
            Outcome::Committed => true,
            Outcome::Unknown | Outcome::Hung => self.asked,
            Outcome::RolledBack | Outcome::Refused(_) => false,
        }
    }

    pub(crate) fn numbers(&self) -> std::ops::Range<i32> {
        self.first..self.first + self.count
    }
}

/// All notices, and the times from which they are known to be committed.
struct Book<'a> {
    by_number: BTreeMap<i32, &'a Notice>,
    committed: BTreeMap<i32, u64>,
}

impl<'a> Book<'a> {
    fn new(sent: &'a [Notice], sessions: &[Session]) -> Self {
        let numbers = |notice: &'a Notice| notice.numbers().map(move |number| (number, notice));
        let by_number: BTreeMap<i32, &Notice> = sent.iter().flat_map(numbers).collect();
        let committed = sent.iter().filter(|notice| notice.is_committed());
        let mut committed: BTreeMap<i32, u64> = committed
            .map(|notice| (notice.first, notice.ended))
            .collect();
        for heard in sessions.iter().flat_map(|session| &session.heard) {
            if let Some(notice) = by_number.get(&heard.number) {
                let since = committed.entry(notice.first).or_insert(heard.at);
                *since = heard.at.min(*since);
            }
        }
        Self {
            by_number,
            committed,
        }
    }

    fn heard_by(&self, session: &Session) -> impl Iterator<Item = (i32, &'a Notice)> {
        let known = |heard: &Heard| {
            let notice = self.by_number.get(&heard.number)?;
            Some((heard.number, *notice))
        };
        session.heard.iter().filter_map(known)
    }
}

fn compare(sent: &[Notice], sessions: &[Session], missed: bool, findings: &mut Findings) {
    for notice in sent {
        match &notice.outcome {
            Outcome::Committed => findings.notices.done += 1,
            Outcome::RolledBack => findings.notices.undone += 1,
            Outcome::Refused(state) => findings.refuse(state),
            Outcome::Unknown => findings.notices.unknown += 1,
            Outcome::Hung => findings.hung.push(format!("{notice:?}")),
        }
    }
    let book = Book::new(sent, sessions);
    for session in sessions {
        findings.notices.read += session.heard.len();
        check_each(session, &book, findings);
        check_order(session, &book, findings);
        if session.is_direct || !missed {
            check_none_is_missing(session, &book, findings);
        }
    }
}

/// Each notification is one that the session may get, and gets once.
fn check_each(session: &Session, book: &Book, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for heard in &session.heard {
        let Some(notice) = book.by_number.get(&heard.number) else {
            let said = format!("no client has sent {heard:?}");
            findings.wrong.push(said);
            continue;
        };
        if !seen.insert(heard.number) {
            findings
                .twice
                .push(format!("{} of {notice:?}", heard.number));
        }
        if heard.channel != notice.channel || !session.channels.contains(&notice.channel) {
            let said = format!("{notice:?} has arrived as {heard:?}");
            findings.wrong.push(said);
        }
        if !notice.may_be_heard() {
            let said = format!("{notice:?} is not committed and has arrived");
            findings.wrong.push(said);
        }
        if notice.is_committed() && notice.ended < session.begun {
            let said = format!("{notice:?} is older than LISTEN and has arrived");
            findings.wrong.push(said);
        }
    }
}

/// The order is that of commits: no notification follows one that was sent after it was committed. A sender's numbers rise.
fn check_order(session: &Session, book: &Book, findings: &mut Findings) {
    let mut latest_begin = 0;
    let mut last: BTreeMap<i32, i32> = BTreeMap::new();
    for (number, notice) in book.heard_by(session) {
        let earlier = last.insert(notice.sender, number);
        let is_late = notice.is_committed() && notice.ended < latest_begin;
        if is_late || earlier.is_some_and(|earlier| earlier > number) {
            let said = format!("{number} of {notice:?} is out of order");
            findings.wrong.push(said);
        }
        latest_begin = latest_begin.max(notice.begun);
    }
}

/// If a session gets a notification, it has got each one that was committed before that one was sent. Its own have arrived before their
/// answer.
fn check_none_is_missing(session: &Session, book: &Book, findings: &mut Findings) {
    let got: BTreeSet<i32> = session.heard.iter().map(|heard| heard.number).collect();
    let begins = book.heard_by(session).map(|(_, notice)| notice.begun);
    let latest_begin = begins.max().unwrap_or_default();
    for (first, since) in &book.committed {
        let notice = book.by_number[first];
        let is_due = session.channels.contains(&notice.channel)
            && session.listens_since < notice.begun
            && *since < latest_begin;
        for number in notice.numbers() {
            if is_due && !got.contains(&number) {
                let said = format!(
                    "{number} of {notice:?} has not arrived at a client that listens since {}",
                    session.listens_since
                );
                findings.lost.push(said);
            }
        }
    }
    for number in &session.late {
        let said = format!("the sender of {number} was answered before it got it");
        findings.wrong.push(said);
    }
}

/// The comparison finds each fault for which it exists.
#[test]
fn the_comparison_of_notifications_finds_each_fault() {
    let notice = |first, begun, outcome| Notice {
        sender: 1,
        channel: CHANNELS[0],
        first,
        count: 1,
        begun,
        ended: begun + 1,
        asked: true,
        outcome,
    };
    let sent = [
        notice(1, 1, Outcome::Committed),
        notice(2, 3, Outcome::Committed),
        notice(3, 5, Outcome::Unknown),
        notice(4, 7, Outcome::Committed),
        notice(5, 9, Outcome::RolledBack),
    ];
    let session = |begun, numbers: &[i32]| {
        let heard = numbers.iter().map(|number| Heard {
            channel: CHANNELS[0].to_owned(),
            number: *number,
            at: 100,
        });
        Session {
            is_direct: false,
            channels: vec![CHANNELS[0]],
            begun,
            listens_since: begun,
            heard: heard.collect(),
            late: Vec::new(),
        }
    };
    let check = |session: &Session, missed| {
        let mut findings = Findings::default();
        compare(&sent, std::slice::from_ref(session), missed, &mut findings);
        findings.lists().map(|list| !list.is_empty())
    };
    let (right, wrong) = ([false; 4], [false, false, true, false]);
    for numbers in [&[][..], &[1], &[1, 2, 4], &[1, 2, 3, 4]] {
        assert_eq!(check(&session(0, numbers), false), right, "{numbers:?}");
    }
    assert_eq!(check(&session(3, &[4]), false), right);
    let hole = session(0, &[1, 4]);
    assert_eq!(check(&hole, false), [true, false, false, false]);
    assert_eq!(check(&hole, true), right);
    let doubled = session(0, &[1, 1, 2]);
    assert_eq!(check(&doubled, true), [false, true, false, false]);
    assert_eq!(check(&session(0, &[2, 1]), true), wrong);
    assert_eq!(check(&session(9, &[4]), true), wrong);
    for unsent in [5, 6] {
        assert_eq!(check(&session(0, &[1, 2, 4, unsent]), true), wrong);
    }
    let mut elsewhere = session(0, &[1]);
    elsewhere.channels = vec![CHANNELS[1]];
    assert_eq!(check(&elsewhere, true), wrong);
    let mut late = session(0, &[1]);
    late.late.push(1);
    assert_eq!(check(&late, false), wrong);
}
