//! Share: members that ask the very same read are asked once, and each gets a copy of the answer. All of them have arrived
//! before the read starts, so nobody reads anything older than its arrival.
//!
//! The answer is kept until it is complete, and nobody is given a part of it before: then each member takes it from the
//! same bytes at its own pace, and the connection is free at once, however slowly somebody reads. Who has a part of one
//! run's answer could not be given the rest of another one (rows may come in another order, or be others by then), so
//! streaming to all would mean that all wait for the slowest. An answer that is too long to be kept is therefore
//! *handed over*: it becomes the read of one member alone, who takes what has come and relays on; the others have got
//! nothing yet and run their own.
//!
//! A read that fails has done nothing: its members go again alone, and each is told its error there.

use super::batch::Batch;
use super::identical_reads::{ReadIdentity, write_read};
use super::outcome::{MemberOutcome, MemberResult, Retry, retry};
use super::plan::PlannedRequest;
use crate::line::{GroupId, Strategy};
use crate::template_stats::Fallback;
use bytes::{BufMut, BytesMut};
use paceline_relay::errors::is_stale_plan;
use paceline_relay::request::Underway;
use paceline_relay::request::{Form, Request};
use paceline_relay::server::{Injected, ServerSide};
use paceline_wire::backend::tag;
use paceline_wire::{Frame, Header};
use std::hash::{DefaultHasher, Hash, Hasher};

#[cfg(test)]
mod tests;

/// Longest answer that is kept for the members of a group (bytes).
pub const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The same read under the same settings. `None`: its answer is likely to be too long.
pub fn fits(request: &Request) -> Option<GroupId> {
    if request.template.pace.last_bytes() > ANSWER_BYTES_MAX {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    ReadIdentity::of(request).hash(&mut hasher);
    Some(GroupId {
        strategy: Strategy::Share,
        template: hasher.finish(),
        settings: request.settings.id,
        parameter_formats: 0,
        result_formats: 0,
        cohort: 0,
    })
}

/// The member whose client has parsed the statement last: what is analysed after that serves all.
fn latest(members: &[&PlannedRequest]) -> Option<Request> {
    let since = |request: &&&PlannedRequest| {
        request
            .analysis
            .as_ref()
            .map_or(0, |analysis| analysis.since)
    };
    let mut latest = Request::clone(members.iter().max_by_key(since)?);
    if let Some(analysis) = &mut latest.analysis {
        // Not what its own `Parse` has left there.
        analysis.parse = 0;
    }
    Some(latest)
}

/// A shared read on its way.
#[derive(Debug)]
pub struct ShareBatch {
    form: Form,
    members: usize,
    injected: Injected,
    answer: BytesMut,
    /// A row has come.
    rows: bool,
    failed: bool,
}

impl Batch for ShareBatch {
    fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        results: &mut Vec<MemberResult>,
    ) -> bool {
        match frame.tag {
            tag::PARSE_COMPLETE => {
                self.injected.complete();
                self.form.write_parsed(&mut self.answer);
                return false;
            }
            tag::CLOSE_COMPLETE => {
                self.injected.complete();
                return false;
            }
            tag::DATA_ROW => self.rows = true,
            tag::ERROR_RESPONSE => {
                let stale = is_stale_plan(frame.body());
                if stale {
                    server.retire_all();
                }
                // An error may speak of the statement by its name on servers: alone they are told the clients'. But who
                // goes again meets a statement that is prepared anew.
                self.failed = !(stale && self.form.relies_on_parsed());
            }
            _ => {}
        }
        self.answer.put_slice(frame.bytes);
        if frame.tag != tag::READY_FOR_QUERY {
            return false;
        }
        self.injected.synced(server);
        self.finish(results);
        true
    }

    /// Bytes of the answer so far.
    fn buffered_len(&self) -> usize {
        self.answer.len()
    }

    /// Gives the answer up to one member. `rest` is what has come and was not received. `None`: that can be done only
    /// while rows are coming in.
    fn hand_over(&mut self, rest: &[u8]) -> Option<Underway> {
        let next = Header::read(rest).ok().flatten();
        let row_next = next.is_some_and(|header| header.tag == tag::DATA_ROW);
        let coming = (self.rows || row_next) && !self.failed;
        coming.then(|| Underway {
            form: self.form,
            answer: self.answer.split(),
        })
    }

    fn may_use_sequences(&self) -> bool {
        false
    }
}

impl ShareBatch {
    pub(super) fn build(
        members: &[&PlannedRequest],
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Self> {
        let (first, others) = members.split_first()?;
        let identity = ReadIdentity::of(first);
        // Two questions may have the same hash.
        if others
            .iter()
            .any(|request| ReadIdentity::of(request) != identity)
        {
            return None;
        }
        let mut injected = Injected::default();
        let answer = BytesMut::with_capacity(first.template.pace.last_bytes());
        match members.iter().all(|request| server.serves(request)) {
            true => write_read(first, server, &mut injected, out),
            false => write_read(&latest(members)?, server, &mut injected, out),
        }
        if !members.iter().all(|request| server.serves(request)) {
            return None;
        }
        Some(Self {
            form: first.form,
            members: members.len(),
            injected,
            answer,
            rows: false,
            failed: false,
        })
    }

    fn finish(&mut self, results: &mut Vec<MemberResult>) {
        if self.failed {
            return results.extend(retry(0..self.members, Retry::Alone, Fallback::Error));
        }
        let answer = self.answer.split().freeze();
        results.extend((0..self.members).map(|member| MemberResult {
            member,
            outcome: MemberOutcome::Answer(answer.clone()),
        }));
    }
}
