//! Pipeline: short plain reads back to back on one connection, each with its own Sync: its own transaction, its
//! own error, its own answer byte for byte. Saves wake-ups and round trips on both sides.
//!
//! Reads change nothing, so a member behind one that turns out slow may go elsewhere ([`Batch::abandon`]).

use super::{Again, Dealt, Verdict, again, write_head, write_member};
use crate::line::{GroupId, Strategy};
use crate::server::{Injected, ServerSide};
use crate::unit::{Form, Unit};
use bytes::{BufMut, BytesMut};
use paceline_wire::Frame;
use paceline_wire::backend::tag;
use paceline_wire::frontend;

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

/// A pipeline on its way.
#[derive(Debug)]
pub struct Batch {
    forms: Vec<Form>,
    injected: Injected,
    /// The member whose answer comes now.
    current: usize,
    answer: BytesMut,
    abandoned: bool,
}

impl Batch {
    pub(super) fn build(members: &[&Unit], server: &mut ServerSide, out: &mut BytesMut) -> Self {
        let mut injected = Injected::default();
        for unit in members {
            match unit.form {
                // Its own text, so that the answer is PostgreSQL's to the letter.
                Form::Simple => {
                    server.unnamed = None;
                    out.put_slice(&unit.bytes);
                }
                Form::Extended { .. } => {
                    write_member(unit, server, &mut injected, out);
                    frontend::write_sync(out);
                }
            }
            injected.push_sync();
        }
        Self {
            forms: members.iter().map(|unit| unit.form).collect(),
            injected,
            current: 0,
            answer: BytesMut::new(),
            abandoned: false,
        }
    }

    pub(super) fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        dealt: &mut Vec<Dealt>,
    ) -> bool {
        let Some(&form) = self.forms.get(self.current) else {
            return true;
        };
        match frame.tag {
            tag::PARSE_COMPLETE | tag::CLOSE_COMPLETE => self.injected.complete(),
            // The client's own Parse is answered here too: it hears of both together.
            tag::BIND_COMPLETE => write_head(form, &mut self.answer),
            tag::READY_FOR_QUERY => {
                self.injected.synced(server);
                self.answer.put_slice(frame.bytes);
                self.settle(dealt);
            }
            _ => self.answer.put_slice(frame.bytes),
        }
        self.current == self.forms.len()
    }

    fn settle(&mut self, dealt: &mut Vec<Dealt>) {
        let answer = self.answer.split().freeze();
        if !self.abandoned {
            dealt.push(Dealt {
                member: self.current,
                verdict: Verdict::Answer(answer),
            });
        }
        self.current += 1;
    }

    pub(super) fn abandon(&mut self) -> Vec<Dealt> {
        if std::mem::replace(&mut self.abandoned, true) {
            return Vec::new();
        }
        again(self.current..self.forms.len(), Again::Alone).collect()
    }
}
