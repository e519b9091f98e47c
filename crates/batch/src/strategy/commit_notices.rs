//! Notices that the server sends while it commits a group. The one that matters: an administrator has ended the wait for
//! synchronous replication, so the transaction is committed on the primary only (PostgreSQL documentation, chapter "Log-Shipping
//! Standby Servers", section "Synchronous Replication"). Every member whose changes the commit contains gets it, as it would alone.

use super::outcome::{MemberOutcome, MemberResult};
use bytes::{BufMut, Bytes, BytesMut};
use paceline_wire::backend::{affected_rows, tag};
use paceline_wire::{Frame, Frames};

/// The notices since the last statement of a group.
#[derive(Debug, Default)]
pub(super) struct CommitNotices(BytesMut);

impl CommitNotices {
    /// Takes a message from the server.
    pub(super) fn receive(&mut self, frame: Frame<'_>) {
        match frame.tag {
            tag::COMMAND_COMPLETE => self.0.clear(),
            tag::NOTICE_RESPONSE => self.0.put_slice(frame.bytes),
            _ => {}
        }
    }

    /// Adds the notices to the answers of members that have changed something.
    pub(super) fn add_to(&self, results: &mut [MemberResult]) {
        if self.0.is_empty() {
            return;
        }
        for result in results {
            if let MemberOutcome::Answer(answer) = &mut result.outcome
                && let Some(place) = place_in(answer)
            {
                let tail = answer.split_off(place);
                *answer = Bytes::from([&answer[..], &self.0, &tail].concat());
            }
        }
    }
}

/// The position at which PostgreSQL sends the notices of a commit: before the `CommandComplete` of a simple query, which it commits first,
/// and after that of the extended protocol, which it commits at `Sync`. `None` if the answer reports no change.
fn place_in(answer: &[u8]) -> Option<usize> {
    let is_extended = matches!(
        answer.first(),
        Some(&tag::PARSE_COMPLETE | &tag::BIND_COMPLETE)
    );
    let mut place = 0;
    for frame in Frames::new(answer) {
        let end = place + frame.bytes.len();
        // There is at least one row.
        if frame.tag == tag::PORTAL_SUSPENDED {
            return Some(end);
        }
        if frame.tag == tag::COMMAND_COMPLETE {
            let changes = affected_rows(frame.body()).is_some_and(|rows| rows > 0);
            return changes.then_some(if is_extended { end } else { place });
        }
        place = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_testing::messages::server::{bound, complete, error, notice, parsed, ready};

    /// An answer without its ReadyForQuery, with the notice that followed the group's last statement.
    fn with_notice(parts: &[Vec<u8>]) -> Vec<u8> {
        let mut notices = CommitNotices::default();
        for message in [
            notice("of the statement"),
            complete("SELECT 1"),
            notice("late"),
        ] {
            Frames::new(&message).for_each(|frame| notices.receive(frame));
        }
        let mut results = [MemberResult {
            member: 0,
            outcome: MemberOutcome::Answer(parts.concat().into()),
        }];
        notices.add_to(&mut results);
        let [result] = results;
        match result.outcome {
            MemberOutcome::Answer(answer) => answer.to_vec(),
            MemberOutcome::Retry(..) => Vec::new(),
        }
    }

    #[test]
    fn a_notice_is_where_postgresql_sends_it() {
        let (done, late, end) = (complete("UPDATE 1"), notice("late"), ready('I'));
        let simple = with_notice(&[done.clone(), end.clone()]);
        assert_eq!(simple, [&late[..], &done, &end].concat());
        let extended = with_notice(&[parsed(), bound(), done.clone(), end.clone()]);
        assert_eq!(
            extended,
            [&parsed()[..], &bound(), &done, &late, &end].concat()
        );
    }

    #[test]
    fn an_answer_without_a_change_gets_no_notice() {
        for answer in [
            [complete("UPDATE 0"), ready('I')],
            [error("23514", "no"), ready('I')],
        ] {
            assert_eq!(with_notice(&answer), answer.concat());
        }
    }
}
