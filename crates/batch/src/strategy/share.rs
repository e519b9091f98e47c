//! Share: PostgreSQL executes one of several identical reads, and each member gets a copy of the answer. All members arrived before
//! the read starts, so no member reads data older than its arrival.
//!
//! The answer is buffered until it is complete, and no member gets a part of it before. Then each member takes the same bytes at its
//! own pace, and the connection is free at once, however slowly a client reads. Streaming to all members would make all wait for the
//! slowest: a member that has a part of one execution's answer cannot continue with another execution's, whose rows may differ or
//! have another order.
//!
//! An answer that is too long to buffer is *handed over*: it becomes the read of one member, which takes the buffered part and relays
//! the rest. The other members, which have got nothing, execute their own reads. If the read fails, all members are executed alone,
//! and each gets its error there, unless its only member's `statement_timeout` has expired: then that is the answer.

use super::batch::{Batch, BatchProgress};
use super::identical_reads::{ReadAnswer, ReadIdentity, is_limited, write_read};
use super::messages::BatchWriter;
use super::outcome::{MemberOutcome, MemberResult, Retry, retry};
use super::plan::PlannedRequest;
use crate::line::GroupId;
use crate::strategy::Strategy;
use crate::template_stats::Fallback;
use paceline_relay::request::PartialAnswer;
use paceline_relay::request::{Request, RequestForm};
use paceline_relay::server::{Injected, ServerSide, for_sharing};
use paceline_wire::backend::tag;
use paceline_wire::{Frame, Header};
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

#[cfg(test)]
mod tests;

/// Maximum length of a buffered answer (bytes).
pub const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The group of identical reads under the same settings. `None` if the last answer to this template was too long.
pub fn group_of(request: &Request) -> Option<GroupId> {
    if request.template.pace.last_bytes() > ANSWER_BYTES_MAX {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    ReadIdentity::of(request).hash(&mut hasher);
    Some(GroupId {
        template: hasher.finish(),
        ..GroupId::of_settings(Strategy::Share, request.settings.id)
    })
}

/// The member whose client has parsed the statement last. A statement that the server analyses after that serves all members.
fn latest(members: &[Cow<'_, Request>]) -> Option<Request> {
    let since = |request: &&Cow<'_, Request>| {
        let client_parse = request.client_parse.as_ref();
        client_parse.map_or(0, |client_parse| client_parse.answered)
    };
    let mut latest = Request::clone(members.iter().max_by_key(since)?);
    if let Some(client_parse) = &mut latest.client_parse {
        // Not the statement that the client's own `Parse` has prepared.
        client_parse.written = 0;
    }
    Some(latest)
}

/// A shared read in flight.
#[derive(Debug)]
pub struct ShareBatch {
    form: RequestForm,
    members: usize,
    is_limited: bool,
    injected: Injected,
    answer: ReadAnswer,
}

impl Batch for ShareBatch {
    fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        results: &mut Vec<MemberResult>,
    ) -> BatchProgress {
        let complete = self
            .answer
            .receive(self.form, frame, &mut self.injected, server);
        if complete {
            self.finish(results);
        }
        BatchProgress::complete_if(complete)
    }

    fn buffered_len(&self) -> usize {
        self.answer.bytes.len()
    }

    /// `None` unless the server is sending rows.
    fn hand_over(&mut self, rest: &[u8]) -> Option<PartialAnswer> {
        let next = Header::read(rest).ok().flatten();
        let row_next = next.is_some_and(|header| header.tag == tag::DATA_ROW);
        let sends_rows = (self.answer.has_rows || row_next) && !self.answer.failed;
        sends_rows.then(|| PartialAnswer {
            form: self.form,
            answer: self.answer.bytes.split(),
        })
    }

    fn may_use_sequences(&self) -> bool {
        false
    }
}

impl ShareBatch {
    pub(super) fn build(members: &[&PlannedRequest], mut writer: BatchWriter<'_>) -> Option<Self> {
        let (first, others) = members.split_first()?;
        let identity = ReadIdentity::of(first);
        // Different reads may have the same hash.
        if others
            .iter()
            .any(|request| ReadIdentity::of(request) != identity)
        {
            return None;
        }
        let reads: Vec<_> = members.iter().map(|request| for_sharing(request)).collect();
        let all_served = |server: &ServerSide| reads.iter().all(|read| server.serves(read));
        match all_served(writer.server) {
            true => write_read(reads.first()?, &mut writer),
            false => write_read(&latest(&reads)?, &mut writer),
        }
        if !all_served(writer.server) {
            return None;
        }
        Some(Self {
            form: first.form,
            members: members.len(),
            is_limited: is_limited(first),
            injected: writer.injected,
            answer: ReadAnswer::with_capacity(first.template.pace.last_bytes()),
        })
    }

    fn finish(&mut self, results: &mut Vec<MemberResult>) {
        if self.answer.must_run_again(self.members, self.is_limited) {
            return results.extend(retry(0..self.members, Retry::Alone, Fallback::Error));
        }
        let answer = self.answer.bytes.split().freeze();
        results.extend((0..self.members).map(|member| MemberResult {
            member,
            outcome: MemberOutcome::Answer(answer.clone()),
        }));
    }
}
