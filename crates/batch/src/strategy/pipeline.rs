//! Pipeline: short plain reads back to back on one connection, each with its own Sync: its own transaction, its
//! own answer byte for byte. One that fails goes again alone, and is told its error there. Saves wake-ups and round trips on both sides.
//!
//! Members that ask the very same are asked once, as in [`super::share`].
//!
//! Reads change nothing, so a member behind one that turns out slow may go elsewhere ([`Batch::abandon`]).

use super::batch::Batch;
use super::identical_reads::{ReadIdentity, write_read};
use super::outcome::{MemberOutcome, MemberResult, Retry, retry};
use super::plan::PlannedRequest;
use crate::line::{GroupId, Strategy};
use crate::template_stats::Fallback;
use bytes::{BufMut, BytesMut};
use foldhash::{HashMap, HashMapExt};
use paceline_relay::errors::is_stale_plan;
use paceline_relay::request::{Form, Request};
use paceline_relay::server::{Injected, ServerSide};
use paceline_wire::Frame;
use paceline_wire::backend::tag;

#[cfg(test)]
mod tests;

/// Reads share a pipeline whatever their templates and formats: only settings must agree.
pub fn fits(request: &Request) -> GroupId {
    GroupId {
        strategy: Strategy::Pipeline,
        template: 0,
        settings: request.settings.id,
        parameter_formats: 0,
        result_formats: 0,
        cohort: 0,
    }
}

/// A read that is sent.
#[derive(Debug)]
struct Read {
    form: Form,
    /// The members that asked it.
    members: Vec<usize>,
}

/// A pipeline on its way.
#[derive(Debug)]
pub struct PipelineBatch {
    reads: Vec<Read>,
    injected: Injected,
    /// The read whose answer comes now.
    current: usize,
    answer: BytesMut,
    /// The current read failed.
    failed: bool,
    abandoned: bool,
}

impl Batch for PipelineBatch {
    fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        results: &mut Vec<MemberResult>,
    ) -> bool {
        let Some(read) = self.reads.get(self.current) else {
            return true;
        };
        match frame.tag {
            tag::PARSE_COMPLETE => {
                self.injected.complete();
                read.form.write_parsed(&mut self.answer);
            }
            tag::CLOSE_COMPLETE => self.injected.complete(),
            tag::READY_FOR_QUERY => {
                self.injected.synced(server);
                self.answer.put_slice(frame.bytes);
                self.finish(results);
            }
            _ => {
                if frame.tag == tag::ERROR_RESPONSE {
                    let stale = is_stale_plan(frame.body());
                    if stale {
                        server.retire_all();
                    }
                    // An error may speak of the statement by its name on servers: alone it is told the client's. But who
                    // goes again meets a statement that is prepared anew.
                    self.failed = !(stale && read.form.relies_on_parsed());
                }
                self.answer.put_slice(frame.bytes);
            }
        }
        self.current == self.reads.len()
    }

    /// Bytes of the answer that is coming.
    fn buffered_len(&self) -> usize {
        self.answer.len()
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
    pub(super) fn build(
        members: &[&PlannedRequest],
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Self {
        let mut injected = Injected::default();
        let mut reads: Vec<Read> = Vec::with_capacity(members.len());
        let mut sent = HashMap::with_capacity(members.len());
        for (member, request) in members.iter().enumerate() {
            let identity = ReadIdentity::of(request);
            // What was asked for an earlier member may be older than what this one has parsed.
            let place = sent.get(&identity).filter(|_| server.serves(request));
            if let Some(read) = place.and_then(|place: &usize| reads.get_mut(*place)) {
                read.members.push(member);
                continue;
            }
            sent.insert(identity, reads.len());
            write_read(request, server, &mut injected, out);
            reads.push(Read {
                form: request.form,
                members: vec![member],
            });
        }
        Self {
            reads,
            injected,
            current: 0,
            answer: BytesMut::new(),
            failed: false,
            abandoned: false,
        }
    }

    fn finish(&mut self, results: &mut Vec<MemberResult>) {
        let answer = self.answer.split().freeze();
        let failed = std::mem::take(&mut self.failed);
        let members = self.reads.get(self.current).map(|read| &read.members);
        for &member in members.into_iter().flatten().filter(|_| !self.abandoned) {
            let outcome = match failed {
                true => MemberOutcome::Retry(Retry::Alone, Fallback::Error),
                false => MemberOutcome::Answer(answer.clone()),
            };
            results.push(MemberResult { member, outcome });
        }
        self.current += 1;
    }
}
