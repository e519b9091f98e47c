//! Chain: hinted writes, and calls of declared functions, in one implicit transaction with one commit; each member gets its
//! own answer after it.
//!
//! Exactness: a later member sees what earlier ones wrote (READ COMMITTED takes a snapshot per statement). If any
//! member fails, PostgreSQL undoes all; the group then goes again in halves until who is at fault is alone. A
//! short `lock_timeout` keeps members from waiting for locks that only a neighbour needs. Constraints that are deferred are
//! checked at the end of each statement, as they would be at its own commit. Members are *silent*: they neither notify nor change
//! settings (see [`paceline_sql::chain`]), or their functions are declared. The chain compares the facts behind this at its end,
//! when it holds locks on all tables of its members; if they have changed, PostgreSQL undoes it.

use super::batch::Batch;
use super::messages::{message, sqlstate, write_head, write_member, write_tail};
use super::outcome::Invalidation;
use super::outcome::{MemberOutcome, MemberResult, Retry, retry, retry_halves};
use super::plan::PlannedRequest;
use super::prelude::{ChainFacts, PRELUDE_STATEMENTS, Prelude};
use crate::line::{GroupId, Strategy};
use crate::template_stats::Fallback;
use bytes::{BufMut, BytesMut};
use paceline_relay::errors::is_stale_plan;
use paceline_relay::request::{Form, Request};
use paceline_relay::server::{Injected, ServerSide};
use paceline_sql::chain::is_moved;
use paceline_wire::backend::tag;
use paceline_wire::{Frame, frontend};

#[cfg(test)]
mod tests;

/// SQLSTATEs by which PostgreSQL says that one of the two limits was met, or that two groups met head on.
const BORROWED_WAIT: [&str; 3] = ["55P03", "57014", "40P01"];

/// Writes that are known to be short, if they are asked to travel with others. A member that must touch an exact number
/// of rows is not one: whether it did is known only after it ran; nor is one that must be parsed when it comes, or that would
/// read the number that another member has drawn from a sequence.
pub fn fits(request: &Request) -> Option<GroupId> {
    let template = &request.template;
    let targeted = template.hints().target_affect_row.is_some();
    let fits = !targeted
        && !template.is_parsed_alone()
        && !template.reads_numbers()
        && template.pace.is_short();
    fits.then(|| GroupId {
        strategy: Strategy::Chain,
        template: 0,
        settings: request.settings.id,
        parameter_formats: 0,
        result_formats: 0,
        cohort: 0,
    })
}

/// A chain on its way.
#[derive(Debug)]
pub struct ChainBatch {
    forms: Vec<Form>,
    injected: Injected,
    answers: Vec<BytesMut>,
    /// So many statements of the prelude have not been answered yet.
    prelude: usize,
    /// What is answered now are the comparisons at the end.
    in_checks: bool,
    /// One of them has found a difference.
    facts_changed: bool,
    /// The answer of the last member is complete, that of the next one has not begun.
    between: bool,
    /// Notices that came in between: they are the next member's.
    notices: BytesMut,
    /// SQLSTATE of the error that undid all.
    error: Option<String>,
}

impl Batch for ChainBatch {
    fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        results: &mut Vec<MemberResult>,
    ) -> bool {
        match frame.tag {
            tag::READY_FOR_QUERY => {
                self.injected.synced(server);
                self.finish(results);
                return true;
            }
            tag::ERROR_RESPONSE => {
                if is_stale_plan(frame.body()) {
                    server.retire_all();
                }
                let sqlstate = sqlstate(frame.body()).to_owned();
                let says = message(frame.bytes).is_some_and(|text| is_moved(&sqlstate, &text));
                self.facts_changed = self.in_checks && says;
                self.error = Some(sqlstate);
            }
            tag::PARSE_COMPLETE | tag::CLOSE_COMPLETE => self.injected.complete(),
            tag::PARAMETER_STATUS => {}
            tag::COMMAND_COMPLETE if self.prelude > 0 => {
                self.prelude -= 1;
                self.between = self.prelude == 0;
            }
            _ if self.prelude > 0 || self.in_checks => {}
            tag::BIND_COMPLETE if self.answers.len() == self.forms.len() => self.in_checks = true,
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

    /// What was learned of the members' templates no longer holds.
    fn invalidation(&self) -> Option<Invalidation> {
        self.facts_changed.then_some(Invalidation::Changed)
    }

    fn failed(&self) -> bool {
        self.error.is_some()
    }
}

impl ChainBatch {
    pub(super) fn build(
        members: &[&PlannedRequest],
        prelude: &Prelude,
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Self> {
        let mut checks: Vec<&ChainFacts> = Vec::new();
        for request in members {
            let chain_facts = request.chain_facts.as_ref()?;
            if checks.iter().all(|known| known.id != chain_facts.id) {
                checks.push(chain_facts);
            }
        }
        let mut injected = Injected::default();
        prelude.write(server, &mut injected, out);
        for request in members {
            write_member(request, server, &mut injected, out);
        }
        for check in checks {
            check.write(server, &mut injected, out);
        }
        frontend::write_sync(out);
        injected.push_sync();
        server.tainted |= members.iter().any(|request| request.taints);
        Some(Self {
            forms: members.iter().map(|request| request.form).collect(),
            injected,
            answers: Vec::with_capacity(members.len()),
            prelude: PRELUDE_STATEMENTS,
            in_checks: false,
            facts_changed: false,
            between: false,
            notices: BytesMut::new(),
            error: None,
        })
    }

    fn current_form(&self) -> Option<Form> {
        self.forms.get(self.answers.len().checked_sub(1)?).copied()
    }

    fn finish(&mut self, results: &mut Vec<MemberResult>) {
        let members = self.forms.len();
        let Some(sqlstate) = &self.error else {
            results.extend(
                self.answers
                    .drain(..)
                    .enumerate()
                    .map(|(member, mut answer)| {
                        write_tail(&mut answer);
                        MemberResult {
                            member,
                            outcome: MemberOutcome::Answer(answer.freeze()),
                        }
                    }),
            );
            return;
        };
        if self.facts_changed {
            results.extend(retry(0..members, Retry::Alone, Fallback::Ddl));
        } else if BORROWED_WAIT.contains(&sqlstate.as_str()) {
            results.extend(retry(0..members, Retry::Alone, Fallback::Timeout));
        } else {
            results.extend(retry_halves(members, Fallback::Error));
        }
    }
}
