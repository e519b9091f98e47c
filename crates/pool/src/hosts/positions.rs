//! Positions in the log: that of the primary when it was asked, and the replayed one of each replica.
//!
//! A read that must see what its client wrote needs a position of the primary that was asked for *after* the write was
//! acknowledged: the log cannot be shorter then. So questions have numbers. A client notes how many had begun when the primary last
//! answered it; the answer to any later question is a position that includes everything the client wrote or read there. One answer
//! serves all clients that wait for it. The numbers are those of the process, so a client keeps its number when a reload replaces
//! the hosts.

use paceline_cluster::{HostId, Lsn};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Maximum number of answers of the primary that are kept. Without the one that a client needs, a later one serves it.
const ANSWERS_MAX: usize = 1_024;

/// The positions of the hosts of one database.
pub(super) struct Positions {
    /// Questions that have begun, to any host of any database.
    begun: Arc<AtomicU64>,
    /// A number that was taken when the primary last changed. Positions that were known before may be lost.
    term: AtomicU64,
    /// The earliest position that no replica reached in time.
    missed: AtomicU64,
    /// The last answers of primaries.
    answers: Mutex<VecDeque<PrimaryAnswer>>,
    hosts: Vec<HostPosition>,
    /// Changed when a host has answered.
    answered: watch::Sender<()>,
}

struct HostPosition {
    /// The minimum position that the host has replayed. After a restart a replica may be behind that, so this serves only for the choice of
    /// a replica: the connection that serves a read asks again.
    replayed: AtomicU64,
    /// Changed when the host should be asked.
    wanted: watch::Sender<()>,
    /// Reads that the host has answered as a replica.
    reads: AtomicU64,
}

struct PrimaryAnswer {
    host: HostId,
    /// The number of the question.
    question: u64,
    position: Lsn,
}

impl Positions {
    /// `begun` counts the questions of the process.
    pub(super) fn new(hosts: usize, begun: &Arc<AtomicU64>) -> Self {
        let unknown = || HostPosition {
            replayed: AtomicU64::new(0),
            wanted: watch::Sender::new(()),
            reads: AtomicU64::new(0),
        };
        let positions = Self {
            begun: Arc::clone(begun),
            term: AtomicU64::new(0),
            missed: AtomicU64::new(Lsn::ZERO.0),
            answers: Mutex::default(),
            hosts: std::iter::repeat_with(unknown).take(hosts).collect(),
            answered: watch::Sender::new(()),
        };
        positions.begin_term();
        positions
    }

    /// The primary has changed.
    pub(super) fn begin_term(&self) {
        self.term.store(self.begin(), Ordering::SeqCst);
    }

    /// Differs from that of each other time with one primary, in the whole process. Never 0.
    pub(super) fn term(&self) -> u64 {
        self.term.load(Ordering::SeqCst)
    }

    fn answers(&self) -> MutexGuard<'_, VecDeque<PrimaryAnswer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a question; returns its number.
    pub(super) fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// A host that is not in recovery has answered a question with the end of its log.
    pub(super) fn primary_answered(&self, host: HostId, question: u64, position: Lsn) {
        let mut answers = self.answers();
        if answers.len() >= ANSWERS_MAX {
            answers.pop_front();
        }
        answers.push_back(PrimaryAnswer {
            host,
            question,
            position,
        });
        drop(answers);
        self.answered.send_replace(());
    }

    /// A host in recovery has replayed its log up to here.
    pub(super) fn replica_answered(&self, host: HostId, replayed: Lsn) {
        if let Some(host) = self.hosts.get(host.0) {
            host.replayed.fetch_max(replayed.0, Ordering::Relaxed);
        }
        self.answered.send_replace(());
    }

    /// The earliest known answer of a host to a question after this one and after the last change of the primary.
    pub(super) fn answer_after(&self, host: HostId, question: u64) -> Option<Lsn> {
        let question = question.max(self.term());
        let answers = self.answers();
        let later = answers.iter().rev().take_while(|a| a.question > question);
        let of_host = later.filter(|answer| answer.host == host);
        of_host.map(|answer| answer.position).min()
    }

    pub(super) fn replayed(&self, host: HostId) -> Lsn {
        let host = self.hosts.get(host.0);
        Lsn(host.map_or(0, |host| host.replayed.load(Ordering::Relaxed)))
    }

    /// No replica has reached the position in time; the furthest has replayed this.
    pub(super) fn missed(&self, position: Lsn, replayed: Lsn) {
        let earlier = Lsn(self.missed.load(Ordering::Relaxed));
        let earliest = match earlier > replayed {
            true => earlier.min(position),
            false => position,
        };
        self.missed.store(earliest.0, Ordering::Relaxed);
    }

    /// Whether a replica that has replayed this, the furthest one, will hardly reach the position in time: it has not even reached an
    /// earlier one.
    pub(super) fn is_far(&self, position: Lsn, replayed: Lsn) -> bool {
        let missed = Lsn(self.missed.load(Ordering::Relaxed));
        replayed < missed && missed <= position
    }

    /// Asks a host, unless a question that has not begun will.
    pub(super) fn want(&self, host: HostId) {
        if let Some(host) = self.hosts.get(host.0) {
            host.wanted.send_replace(());
        }
    }

    /// The number of questions that have begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    /// Changes when a host has answered.
    pub(super) fn answered(&self) -> watch::Receiver<()> {
        self.answered.subscribe()
    }

    /// Counts reads that a host has answered as a replica.
    pub(super) fn count_reads(&self, host: HostId, reads: usize) {
        if let Some(host) = self.hosts.get(host.0) {
            host.reads.fetch_add(reads as u64, Ordering::Relaxed);
        }
    }

    /// The number of reads that a host has answered as a replica.
    pub(super) fn reads(&self, host: HostId) -> u64 {
        let host = self.hosts.get(host.0);
        host.map_or(0, |host| host.reads.load(Ordering::Relaxed))
    }

    /// Changes when a host should be asked.
    pub(super) fn wanted(&self, host: HostId) -> Option<watch::Receiver<()>> {
        Some(self.hosts.get(host.0)?.wanted.subscribe())
    }
}

/// The requirements of a read for a replica.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplicaNeeds {
    /// The position that it must have replayed.
    pub(crate) position: Lsn,
    /// Maximum lag behind the primary; zero is no limit.
    pub(crate) lag_max: Duration,
    /// The time at which the read uses the primary instead.
    pub(crate) until: Instant,
    /// `replica_wait`, part of which the read may have waited for the primary's position.
    pub(crate) wait: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_to_a_later_question_serves_a_client() {
        let positions = Positions::new(2, &Arc::default());
        let (primary, other) = (HostId(0), HostId(1));
        let before = positions.begin();
        positions.primary_answered(primary, before, Lsn(10));
        assert_eq!(positions.answer_after(primary, before), None);
        assert_eq!(positions.answer_after(primary, before - 1), Some(Lsn(10)));
        let after = positions.begin();
        positions.primary_answered(other, after, Lsn(15));
        assert_eq!(positions.answer_after(primary, before), None);
        let after = positions.begin();
        positions.primary_answered(primary, after, Lsn(20));
        let last = positions.begin();
        positions.primary_answered(primary, last, Lsn(30));
        assert_eq!(positions.answer_after(primary, before), Some(Lsn(20)));
    }

    #[test]
    fn answers_of_an_earlier_term_are_not_used() {
        let positions = Positions::new(1, &Arc::default());
        let (primary, before, term) = (HostId(0), positions.begun(), positions.term());
        let question = positions.begin();
        positions.primary_answered(primary, question, Lsn(10));
        positions.begin_term();
        assert_ne!(positions.term(), term);
        assert_eq!(positions.answer_after(primary, before), None);
        let question = positions.begin();
        positions.primary_answered(primary, question, Lsn(5));
        assert_eq!(positions.answer_after(primary, before), Some(Lsn(5)));
    }

    #[test]
    fn a_missed_position_is_far_until_a_replica_reaches_it() {
        let positions = Positions::new(1, &Arc::default());
        assert!(!positions.is_far(Lsn(30), Lsn(10)));
        positions.missed(Lsn(30), Lsn(10));
        positions.missed(Lsn(20), Lsn(10));
        positions.missed(Lsn(40), Lsn(10));
        assert!(positions.is_far(Lsn(20), Lsn(19)));
        assert!(!positions.is_far(Lsn(19), Lsn(10)));
        assert!(!positions.is_far(Lsn(30), Lsn(20)));
        positions.missed(Lsn(60), Lsn(50));
        assert!(positions.is_far(Lsn(60), Lsn(50)));
        assert!(!positions.is_far(Lsn(55), Lsn(50)));
    }

    #[test]
    fn old_answers_are_dropped() {
        let positions = Positions::new(1, &Arc::default());
        for position in 0..2 * ANSWERS_MAX as u64 {
            let question = positions.begin();
            positions.primary_answered(HostId(0), question, Lsn(position));
        }
        assert_eq!(positions.answers().len(), ANSWERS_MAX);
        let oldest = positions.answer_after(HostId(0), 0);
        assert_eq!(oldest, Some(Lsn(ANSWERS_MAX as u64)));
    }
}
