//! Settings that the server reports while a group runs (`ParameterStatus`), for the members of the group.
//!
//! PostgreSQL reports a setting before a `ReadyForQuery` if its value has changed since the last report. Members change no setting, so the
//! operator has changed the configuration. All members have the settings that are in force on the connection: in a session of its own each
//! would get the report, so each gets it here, too.
//!
//! No member gets a report of a replica or of a shard, because in a session of its own it would not be connected to that server; nor one
//! of a chain whose functions may have set something, which is undone afterwards.

use super::exchange::feed;
use super::run::GroupRun;
use crate::pool::Pool;
use crate::server::{ServerConn, ServerError};
use bytes::{BufMut, Bytes};
use paceline_batch::strategy::{Batch, MemberOutcome, MemberResult};
use paceline_wire::backend::tag;
use paceline_wire::frame::HEADER_LEN;

/// Length of `ReadyForQuery`.
const READY_LEN: usize = HEADER_LEN + 1;

impl GroupRun {
    /// Passes messages to the batch. Returns whether it is complete.
    pub(super) fn feed_batch(
        &mut self,
        pool: &Pool,
        conn: &mut ServerConn,
        batch: &mut dyn Batch,
        results: &mut Vec<MemberResult>,
    ) -> Result<bool, ServerError> {
        let is_beside = pool.is_beside();
        let before = results.len();
        let complete = feed(conn, |frame, side| {
            if frame.tag != tag::PARAMETER_STATUS {
                return batch.receive(frame, side, results).is_complete();
            }
            if !is_beside && !side.needs_reset {
                self.statuses.put_slice(frame.bytes);
            }
            false
        })?;
        if !self.statuses.is_empty() {
            add(
                &self.statuses,
                results.get_mut(before..).unwrap_or_default(),
            );
        }
        Ok(complete)
    }
}

/// Adds the reports to the answers, each in front of its `ReadyForQuery`. Answers that are copies of one remain so.
fn add(statuses: &[u8], results: &mut [MemberResult]) {
    let mut last: Option<(Bytes, Bytes)> = None;
    for result in results {
        let MemberOutcome::Answer(answer) = &mut result.outcome else {
            continue;
        };
        let is_copy = |(before, _): &&(Bytes, Bytes)| {
            (before.as_ptr(), before.len()) == (answer.as_ptr(), answer.len())
        };
        if let Some((_, with)) = last.as_ref().filter(is_copy) {
            *answer = with.clone();
            continue;
        }
        let place = answer.len().saturating_sub(READY_LEN);
        if answer.get(place) != Some(&tag::READY_FOR_QUERY) {
            continue;
        }
        let (head, tail) = answer.split_at(place);
        let with = Bytes::from([head, statuses, tail].concat());
        last = Some((std::mem::replace(answer, with.clone()), with));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_batch::strategy::Retry;
    use paceline_batch::template_stats::Fallback;
    use paceline_testing::messages::server::{complete, error, ready, status};

    fn result(outcome: MemberOutcome) -> MemberResult {
        MemberResult { member: 0, outcome }
    }

    #[test]
    fn each_answer_gets_the_reports_before_its_end() {
        let report = status("TimeZone", "Europe/Paris");
        let shared = Bytes::from([complete("SELECT 1"), ready('I')].concat());
        let own = Bytes::from([error("22012", "division by zero"), ready('I')].concat());
        let mut results = [
            result(MemberOutcome::Answer(shared.clone())),
            result(MemberOutcome::Answer(shared)),
            result(MemberOutcome::Retry(Retry::Alone, Fallback::Error)),
            result(MemberOutcome::Answer(own)),
        ];
        add(&report, &mut results);
        let answers: Vec<Option<Bytes>> = results
            .into_iter()
            .map(|result| match result.outcome {
                MemberOutcome::Answer(answer) => Some(answer),
                MemberOutcome::Retry(..) => None,
            })
            .collect();
        let [Some(one), Some(copy), None, Some(own)] = answers.as_slice() else {
            panic!("{answers:?}");
        };
        let expected = [complete("SELECT 1"), report.clone(), ready('I')].concat();
        assert_eq!(one, &expected);
        assert_eq!(one.as_ptr(), copy.as_ptr(), "one answer for both");
        let failed = [error("22012", "division by zero"), report, ready('I')].concat();
        assert_eq!(own, &failed);
    }
}
