//! Pipeline: short plain reads one after the other on one connection, each with its own Sync, so each with its own transaction and
//! its own answer, byte for byte. Saves wake-ups and round trips for clients and the server.
//!
//! A member that fails is executed again alone, and gets its error there. Identical reads are executed once, as in
//! [`super::share`]. Because reads change nothing, members behind a slow one may leave on other connections
//! ([`Batch::abandon`]).

use super::batch::{Batch, BatchProgress};
use super::identical_reads::{ReadAnswer, ReadIdentity, is_limited, write_read};
use super::messages::BatchWriter;
use super::outcome::{MemberOutcome, MemberResult, Retry, retry};
use super::plan::PlannedRequest;
use crate::line::GroupId;
use crate::strategy::Strategy;
use crate::template_stats::Fallback;
use foldhash::{HashMap, HashMapExt};
use paceline_relay::request::{Request, RequestForm};
use paceline_relay::server::{Injected, ServerSide, for_sharing};
use paceline_wire::Frame;

#[cfg(test)]
mod tests;

/// The group of a read. Templates and formats may differ, settings may not.
pub fn group_of(request: &Request) -> GroupId {
    GroupId::of_settings(Strategy::Pipeline, request.settings.id)
}

/// A read that was sent.
#[derive(Debug)]
struct SentRead {
    form: RequestForm,
    /// The members that sent it.
    members: Vec<usize>,
    is_limited: bool,
}

/// A pipeline in flight.
#[derive(Debug)]
pub struct PipelineBatch {
    reads: Vec<SentRead>,
    injected: Injected,
    /// The read whose answer is next.
    current: usize,
    answer: ReadAnswer,
    abandoned: bool,
}

impl Batch for PipelineBatch {
    fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        results: &mut Vec<MemberResult>,
    ) -> BatchProgress {
        let Some(read) = self.reads.get(self.current) else {
            return BatchProgress::Complete;
        };
        let complete = self
            .answer
            .receive(read.form, frame, &mut self.injected, server);
        if complete {
            self.finish_read(results);
        }
        BatchProgress::complete_if(self.current == self.reads.len())
    }

    fn buffered_len(&self) -> usize {
        self.answer.bytes.len()
    }

    fn abandon(&mut self) -> Option<Vec<MemberResult>> {
        if std::mem::replace(&mut self.abandoned, true) {
            return Some(Vec::new());
        }
        let rest = self.reads.iter().skip(self.current);
        let members = rest.flat_map(|read| read.members.clone());
        Some(retry(members, Retry::Alone, Fallback::Stalled).collect())
    }

    fn may_use_sequences(&self) -> bool {
        false
    }
}

impl PipelineBatch {
    pub(super) fn build(members: &[&PlannedRequest], mut writer: BatchWriter<'_>) -> Self {
        let mut reads: Vec<SentRead> = Vec::with_capacity(members.len());
        let mut sent = HashMap::with_capacity(members.len());
        for (member, request) in members.iter().enumerate() {
            let identity = ReadIdentity::of(request);
            let shared = for_sharing(request);
            // The statement of an earlier member may be older than what this member's client has parsed.
            let place = sent
                .get(&identity)
                .filter(|_| !request.is_denied && writer.server.serves(&shared));
            if let Some(read) = place.and_then(|place: &usize| reads.get_mut(*place)) {
                read.members.push(member);
                continue;
            }
            sent.insert(identity, reads.len());
            write_read(&shared, &mut writer);
            reads.push(SentRead {
                form: request.form,
                members: vec![member],
                is_limited: is_limited(request),
            });
        }
        Self {
            reads,
            injected: writer.injected,
            current: 0,
            answer: ReadAnswer::default(),
            abandoned: false,
        }
    }

    fn finish_read(&mut self, results: &mut Vec<MemberResult>) {
        let answer = std::mem::take(&mut self.answer);
        let Some(read) = self.reads.get(self.current) else {
            return;
        };
        let again = answer.must_run_again(read.members.len(), read.is_limited);
        let answer = answer.bytes.freeze();
        for &member in read.members.iter().filter(|_| !self.abandoned) {
            let outcome = match again {
                true => MemberOutcome::Retry(Retry::Alone, Fallback::Error),
                false => MemberOutcome::Answer(answer.clone()),
            };
            results.push(MemberResult { member, outcome });
        }
        self.current += 1;
    }
}
