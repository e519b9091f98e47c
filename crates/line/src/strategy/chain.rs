//! Chain: hinted writes, and calls of declared functions, in one implicit transaction with one commit; each member gets its
//! own answer after it.
//!
//! Exactness: a later member sees what earlier ones wrote (READ COMMITTED takes a snapshot per statement). If any
//! member fails, PostgreSQL undoes all; the group then goes again in halves until who is at fault is alone. A
//! short `lock_timeout` keeps members from waiting for locks that only a neighbour needs. Functions of the user's own may
//! leave settings behind: the next user of the connection resets it; that none reads what another one has set for the rest
//! of its transaction is the word of who hinted or declared it.

use super::{
    Again, Dealt, Verdict, again, halves, is_stale_plan, sqlstate, write_head, write_member,
    write_tail,
};
use crate::line::{GroupId, Strategy};
use crate::server::{Injected, Preparable, ServerSide};
use crate::tally::Fallback;
use crate::template::Templates;
use crate::unit::{Form, Unit};
use bytes::{BufMut, BytesMut};
use paceline_wire::backend::tag;
use paceline_wire::{Frame, frontend};

#[cfg(test)]
mod tests;

/// Longest wait for a lock inside a chain; then each member runs alone. The statement limit is for members that
/// wait for something else, such as a slow trigger.
const PRELUDE: &str = "SELECT pg_catalog.set_config('lock_timeout', '20ms', true), \
     pg_catalog.set_config('statement_timeout', '200ms', true)";

/// SQLSTATEs by which PostgreSQL says that one of the two limits was met, or that two groups met head on.
const BORROWED_WAIT: [&str; 3] = ["55P03", "57014", "40P01"];

/// The statement that starts every chain.
#[derive(Debug)]
pub struct Prelude {
    id: u64,
}

impl Prelude {
    /// With an id of its own.
    pub fn new(templates: &Templates) -> Self {
        Self {
            id: templates.new_id(),
        }
    }
}

impl Prelude {
    /// Writes the statement and its execution.
    pub(super) fn write(
        &self,
        server: &mut ServerSide,
        injected: &mut Injected,
        out: &mut BytesMut,
    ) {
        let statement = Preparable {
            id: self.id,
            text: PRELUDE,
            types: &[0, 0],
        };
        let ensured = server.ensure(statement, out);
        injected.push(ensured);
        frontend::write_bind(out, ensured.key.name().as_bytes(), &[], &[]);
        frontend::write_execute(out);
    }
}

/// Writes that are known to be short, if they are asked to travel with others. A member that must touch an exact number
/// of rows is not one: whether it did is known only after it ran; nor is one that must be parsed when it comes, or that would
/// read the number that another member has drawn from a sequence.
pub fn fits(unit: &Unit) -> Option<GroupId> {
    let template = &unit.template;
    let targeted = template.hints().target_affect_row.is_some();
    let fits = !targeted
        && !template.names_moment()
        && !template.reads_numbers()
        && template.pace.is_short();
    fits.then(|| GroupId {
        strategy: Strategy::Chain,
        template: 0,
        settings: unit.settings.id,
        parameter_formats: 0,
        result_formats: 0,
        cohort: 0,
    })
}

/// A chain on its way.
#[derive(Debug)]
pub struct Batch {
    forms: Vec<Form>,
    injected: Injected,
    answers: Vec<BytesMut>,
    /// The prelude's own answer has not come yet.
    in_prelude: bool,
    /// The answer of the last member is complete, that of the next one has not begun.
    between: bool,
    /// Notices that came in between: they are the next member's.
    notices: BytesMut,
    /// SQLSTATE of the error that undid all.
    error: Option<String>,
}

impl Batch {
    pub(super) fn build(
        members: &[&Unit],
        prelude: &Prelude,
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Self {
        let mut injected = Injected::default();
        prelude.write(server, &mut injected, out);
        for unit in members {
            write_member(unit, server, &mut injected, out);
        }
        frontend::write_sync(out);
        injected.push_sync();
        server.tainted |= members.iter().any(|unit| unit.taints);
        Self {
            forms: members.iter().map(|unit| unit.form).collect(),
            injected,
            answers: Vec::with_capacity(members.len()),
            in_prelude: true,
            between: false,
            notices: BytesMut::new(),
            error: None,
        }
    }

    pub(super) fn failed(&self) -> bool {
        self.error.is_some()
    }

    pub(super) fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        dealt: &mut Vec<Dealt>,
    ) -> bool {
        match frame.tag {
            tag::READY_FOR_QUERY => {
                self.injected.synced(server);
                self.settle(dealt);
                return true;
            }
            tag::ERROR_RESPONSE => {
                if is_stale_plan(frame.body()) {
                    server.retire_all();
                }
                self.error = Some(sqlstate(frame.body()).to_owned());
            }
            tag::PARSE_COMPLETE | tag::CLOSE_COMPLETE => self.injected.complete(),
            tag::PARAMETER_STATUS => {}
            tag::COMMAND_COMPLETE if self.in_prelude => {
                self.in_prelude = false;
                self.between = true;
            }
            _ if self.in_prelude => {}
            tag::BIND_COMPLETE => {
                let form = self
                    .forms
                    .get(self.answers.len())
                    .copied()
                    .unwrap_or(Form::Simple);
                let mut answer = std::mem::take(&mut self.notices);
                write_head(form, &mut answer);
                self.between = false;
                self.answers.push(answer);
            }
            tag::NOTICE_RESPONSE if self.between => self.notices.put_slice(frame.bytes),
            tag::NO_DATA if self.current_form() == Some(Form::Simple) => {}
            _ => {
                self.between =
                    matches!(frame.tag, tag::COMMAND_COMPLETE | tag::EMPTY_QUERY_RESPONSE);
                if let Some(answer) = self.answers.last_mut() {
                    answer.put_slice(frame.bytes);
                }
            }
        }
        false
    }

    fn current_form(&self) -> Option<Form> {
        self.forms.get(self.answers.len().checked_sub(1)?).copied()
    }

    fn settle(&mut self, dealt: &mut Vec<Dealt>) {
        let members = self.forms.len();
        let Some(sqlstate) = &self.error else {
            dealt.extend(
                self.answers
                    .drain(..)
                    .enumerate()
                    .map(|(member, mut answer)| {
                        write_tail(&mut answer);
                        Dealt {
                            member,
                            verdict: Verdict::Answer(answer.freeze()),
                        }
                    }),
            );
            return;
        };
        if BORROWED_WAIT.contains(&sqlstate.as_str()) {
            dealt.extend(again(0..members, Again::Alone, Fallback::Timeout));
        } else {
            dealt.extend(halves(members, Fallback::Error));
        }
    }
}
