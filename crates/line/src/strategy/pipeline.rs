//! Pipeline: short plain reads back to back on one connection, each with its own Sync: its own transaction, its
//! own answer byte for byte. One that fails goes again alone, and is told its error there. Saves wake-ups and round trips on both sides.
//!
//! Reads change nothing, so a member behind one that turns out slow may go elsewhere ([`Batch::abandon`]).

use super::{Again, Dealt, Verdict, again, is_stale_plan, write_member};
use crate::line::{GroupId, Strategy};
use crate::server::{Injected, ServerSide};
use crate::unit::{Form, Unit};
use bytes::{BufMut, BytesMut};
use paceline_wire::Frame;
use paceline_wire::backend::tag;
use paceline_wire::frontend;

#[cfg(test)]
mod tests;

/// Reads share a pipeline whatever their templates and formats: only settings must agree.
pub fn fits(unit: &Unit) -> GroupId {
    GroupId {
        strategy: Strategy::Pipeline,
        template: 0,
        settings: unit.settings.id,
        parameter_formats: 0,
        result_formats: 0,
        cohort: 0,
    }
}

#[derive(Debug, Clone, Copy)]
struct Member {
    form: Form,
    /// The server was asked to prepare its statement.
    parsed: bool,
}

/// A pipeline on its way.
#[derive(Debug)]
pub struct Batch {
    members: Vec<Member>,
    injected: Injected,
    /// The member whose answer comes now.
    current: usize,
    answer: BytesMut,
    /// The current member's read failed.
    failed: bool,
    abandoned: bool,
}

impl Batch {
    pub(super) fn build(members: &[&Unit], server: &mut ServerSide, out: &mut BytesMut) -> Self {
        let mut injected = Injected::default();
        let mut sent = Vec::with_capacity(members.len());
        for unit in members {
            let parsed = match unit.form {
                // Its own text, so that the answer is PostgreSQL's to the letter.
                Form::Simple => {
                    server.unnamed = None;
                    out.put_slice(&unit.bytes);
                    false
                }
                Form::Extended { .. } => {
                    let parsed = write_member(unit, server, &mut injected, out);
                    frontend::write_sync(out);
                    parsed
                }
            };
            injected.push_sync();
            sent.push(Member {
                form: unit.form,
                parsed,
            });
        }
        let mut batch = Self {
            members: sent,
            injected,
            current: 0,
            answer: BytesMut::new(),
            failed: false,
            abandoned: false,
        };
        batch.begin_answer();
        batch
    }

    /// A statement that the server has already is the answer to the client's own Parse.
    fn begin_answer(&mut self) {
        if let Some(member) = self.members.get(self.current)
            && !member.parsed
        {
            member.form.write_parsed(&mut self.answer);
        }
    }

    /// Bytes of the answer that is coming.
    pub(super) fn kept(&self) -> usize {
        self.answer.len()
    }

    pub(super) fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        dealt: &mut Vec<Dealt>,
    ) -> bool {
        let Some(&member) = self.members.get(self.current) else {
            return true;
        };
        match frame.tag {
            tag::PARSE_COMPLETE => {
                self.injected.complete();
                member.form.write_parsed(&mut self.answer);
            }
            tag::CLOSE_COMPLETE => self.injected.complete(),
            tag::READY_FOR_QUERY => {
                self.injected.synced(server);
                self.answer.put_slice(frame.bytes);
                self.settle(dealt);
            }
            _ => {
                if frame.tag == tag::ERROR_RESPONSE {
                    if is_stale_plan(frame.body()) {
                        server.retire_all();
                    }
                    // An error may speak of the statement by its name on servers: alone it is told the client's.
                    self.failed = true;
                }
                self.answer.put_slice(frame.bytes);
            }
        }
        self.current == self.members.len()
    }

    fn settle(&mut self, dealt: &mut Vec<Dealt>) {
        let answer = self.answer.split().freeze();
        let failed = std::mem::take(&mut self.failed);
        if !self.abandoned {
            dealt.push(Dealt {
                member: self.current,
                verdict: match failed {
                    true => Verdict::Again(Again::Alone),
                    false => Verdict::Answer(answer),
                },
            });
        }
        self.current += 1;
        self.begin_answer();
    }

    pub(super) fn abandon(&mut self) -> Vec<Dealt> {
        if std::mem::replace(&mut self.abandoned, true) {
            return Vec::new();
        }
        again(self.current..self.members.len(), Again::Alone).collect()
    }
}
