//! Chain: writes with a hint, and calls of declared functions, in one implicit transaction with one commit. Each member gets its own
//! answer after the commit.
//!
//! Exactness: a member sees what earlier members wrote, because READ COMMITTED takes a snapshot per statement. If a member fails,
//! PostgreSQL undoes all of them; the halves of the group are then executed separately, until the member that fails is alone. A short
//! `lock_timeout` keeps members from waiting for locks that only another member needs. Deferred constraints are checked at the end
//! of each statement, as they would be at its own commit. Members send no notifications and change no settings (see
//! [`paceline_sql::chain`]), or their functions are declared. At its end, when it holds locks on all tables of its members, the
//! chain compares the facts that show this; if they have changed, PostgreSQL undoes it. A statement that stops at a row limit would not
//! be followed by `CommandCounterIncrement`, so that later members would not see its rows. Members are sent without their limits, and
//! their answers are cut.

use super::batch::{Batch, BatchProgress};
use super::commit_notices::CommitNotices;
use super::messages::{BatchWriter, message, sqlstate, write_member, write_tail};
use super::outcome::Invalidation;
use super::outcome::{MemberOutcome, MemberResult, Retry, retry, retry_halves};
use super::plan::PlannedRequest;
use super::prelude::{ChainFacts, PRELUDE_STATEMENTS, Prelude};
use crate::line::GroupId;
use crate::strategy::Strategy;
use crate::template_stats::Fallback;
use bytes::{BufMut, BytesMut};
use paceline_relay::errors::is_stale_plan;
use paceline_relay::request::{Request, RequestForm};
use paceline_relay::server::{Injected, ServerSide};
use paceline_sql::chain::is_moved;
use paceline_wire::backend::tag;
use paceline_wire::{Frame, frame};

#[cfg(test)]
mod tests;

/// SQLSTATEs of an expired limit of the chain, and of a deadlock between two chains.
const WAITED: [&str; 3] = ["55P03", "57014", "40P01"];

/// The group of a write that is known to be short. `None` for a member that must change an exact number of rows, because that is
/// known only after its execution; for one that must be parsed when it arrives; and for one that would read the number that another
/// member has drawn from a sequence.
pub fn group_of(request: &Request) -> Option<GroupId> {
    let template = &request.template;
    let targeted = template.hints().target_affect_row.is_some();
    let joins_chains = !targeted
        && !template.is_parsed_alone()
        && !template.reads_numbers()
        && request.is_executed_whole()
        && template.pace.is_short()
        && !request.names_moment();
    joins_chains.then(|| GroupId::of_settings(Strategy::Chain, request.settings.id))
}

/// A chain in flight.
#[derive(Debug)]
pub struct ChainBatch {
    members: Vec<ChainMember>,
    injected: Injected,
    stage: ChainStage,
    answers: Vec<BytesMut>,
    /// Number of rows of the last member in `answers`.
    rows: u32,
    /// The beginning of the next member's answer: its `ParseComplete`, and the notices since the last member.
    head: BytesMut,
    commit_notices: CommitNotices,
    /// SQLSTATE of the error that has undone the chain.
    error: Option<String>,
    /// Whether the comparisons at the end have raised that error.
    catalog_changed: bool,
}

/// A member of a chain in flight.
#[derive(Debug, Clone, Copy)]
struct ChainMember {
    form: RequestForm,
    /// Whether the chain parses the statement although the client has prepared it earlier.
    is_prepared_here: bool,
}

/// The part of the chain to which the next message belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChainStage {
    /// The statements before the members, with the number of those that are not complete.
    Prelude(usize),
    /// The answer of a member is complete, that of the next one has not begun.
    BetweenMembers,
    /// The statement of the next member is parsed in the chain, and now bound.
    BindsMember,
    /// The answer of the last member in `answers`.
    InMember,
    /// The comparisons after the members.
    Checks,
}

impl Batch for ChainBatch {
    fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        results: &mut Vec<MemberResult>,
    ) -> BatchProgress {
        self.commit_notices.receive(frame);
        match frame.tag {
            tag::READY_FOR_QUERY => {
                self.injected.synced(server);
                self.finish(results);
                return BatchProgress::Complete;
            }
            tag::ERROR_RESPONSE => self.receive_error(frame, server),
            tag::PARSE_COMPLETE | tag::CLOSE_COMPLETE => {
                self.injected.complete();
                if (self.stage, frame.tag) == (ChainStage::BetweenMembers, tag::PARSE_COMPLETE) {
                    self.stage = ChainStage::BindsMember;
                    if let Some(next) = self.members.get(self.answers.len()) {
                        next.form.write_parsed(&mut self.head);
                    }
                }
            }
            _ => self.receive_in_stage(frame),
        }
        BatchProgress::InFlight
    }

    fn invalidation(&self) -> Option<Invalidation> {
        self.catalog_changed.then_some(Invalidation::Changed)
    }

    fn failed(&self) -> bool {
        self.error.is_some()
    }
}

/// Writes the members. If one may change settings unseen, the server is reset, and no other client uses the statements that the server
/// parses after it.
fn write_members(members: &[&PlannedRequest], writer: &mut BatchWriter<'_>) -> Vec<ChainMember> {
    let (mut known, mut executed) = (None, Vec::new());
    let mut written = Vec::with_capacity(members.len());
    for request in members {
        let before = writer.injected.len();
        let statement = write_member(request, 0, writer);
        written.push(ChainMember {
            form: request.form,
            is_prepared_here: statement.is_some() && writer.injected.len() > before,
        });
        if known.is_some() {
            executed.extend(statement.map(|key| (key, &request.template.text)));
        }
        if request.may_change_session && known.is_none() {
            known = Some(writer.injected.len());
        }
    }
    if let Some(known) = known {
        writer.server.needs_reset = true;
        let later = writer.injected.parses_after(known);
        later.for_each(|key| writer.server.retire(key));
        for (key, text) in executed {
            writer.server.executed_after_functions(key, text);
        }
    }
    written
}

impl ChainBatch {
    pub(super) fn build(
        members: &[&PlannedRequest],
        prelude: &Prelude,
        mut writer: BatchWriter<'_>,
    ) -> Option<Self> {
        let mut checks: Vec<&ChainFacts> = Vec::new();
        for request in members {
            let facts = request.chain_facts.as_ref()?;
            if checks.iter().all(|known| known.id != facts.id) {
                checks.push(facts);
            }
        }
        prelude.write(&mut writer);
        let written = write_members(members, &mut writer);
        for check in checks {
            check.write(&mut writer);
        }
        writer.sync();
        Some(Self {
            members: written,
            injected: writer.injected,
            stage: ChainStage::Prelude(PRELUDE_STATEMENTS),
            answers: Vec::with_capacity(members.len()),
            rows: 0,
            head: BytesMut::new(),
            commit_notices: CommitNotices::default(),
            error: None,
            catalog_changed: false,
        })
    }

    fn receive_error(&mut self, frame: Frame<'_>, server: &mut ServerSide) {
        if is_stale_plan(frame.body()) {
            server.retire_all();
        }
        let sqlstate = sqlstate(frame.body()).to_owned();
        let changed = message(frame.bytes).is_some_and(|text| is_moved(&sqlstate, &text));
        self.catalog_changed = self.stage == ChainStage::Checks && changed;
        self.error = Some(sqlstate);
    }

    fn receive_in_stage(&mut self, frame: Frame<'_>) {
        match (self.stage, frame.tag) {
            (ChainStage::Prelude(0 | 1), tag::COMMAND_COMPLETE) => {
                self.stage = ChainStage::BetweenMembers
            }
            (ChainStage::Prelude(left), tag::COMMAND_COMPLETE) => {
                self.stage = ChainStage::Prelude(left - 1)
            }
            (ChainStage::Prelude(_) | ChainStage::Checks, _) => {}
            (_, tag::BIND_COMPLETE) => self.begin_member(),
            // The client got the notices of its own `Parse`.
            (ChainStage::BetweenMembers, tag::NOTICE_RESPONSE) if self.prepares_next() => {}
            (ChainStage::BetweenMembers | ChainStage::BindsMember, tag::NOTICE_RESPONSE) => {
                self.head.put_slice(frame.bytes)
            }
            // A simple query has no `Describe` that this would answer.
            (_, tag::NO_DATA) if self.current_form() == Some(RequestForm::Simple) => {}
            (_, complete) => {
                self.stage = match complete {
                    tag::COMMAND_COMPLETE | tag::EMPTY_QUERY_RESPONSE => ChainStage::BetweenMembers,
                    _ => ChainStage::InMember,
                };
                self.answer(frame);
            }
        }
    }

    /// Adds a message to the answer of the member, as PostgreSQL sends it with the member's row limit.
    fn answer(&mut self, frame: Frame<'_>) {
        let row_limit = self.current_form().map_or(0, RequestForm::row_limit);
        let at_limit = row_limit > 0 && self.rows >= row_limit;
        let Some(answer) = self.answers.last_mut() else {
            return;
        };
        match frame.tag {
            tag::DATA_ROW if at_limit => {}
            tag::COMMAND_COMPLETE if at_limit => frame::write_empty(answer, tag::PORTAL_SUSPENDED),
            other => {
                self.rows += u32::from(other == tag::DATA_ROW);
                answer.put_slice(frame.bytes);
            }
        }
    }

    fn begin_member(&mut self) {
        let Some(member) = self.members.get(self.answers.len()) else {
            self.stage = ChainStage::Checks;
            return;
        };
        let mut answer = std::mem::take(&mut self.head);
        if let RequestForm::Extended { .. } = member.form {
            frame::write_empty(&mut answer, tag::BIND_COMPLETE);
        }
        self.answers.push(answer);
        self.rows = 0;
        self.stage = ChainStage::InMember;
    }

    /// Whether the chain parses the statement of the next member although its client has prepared it.
    fn prepares_next(&self) -> bool {
        let next = self.members.get(self.answers.len());
        next.is_some_and(|next| next.is_prepared_here)
    }

    fn current_form(&self) -> Option<RequestForm> {
        let current = self.answers.len().checked_sub(1)?;
        self.members.get(current).map(|member| member.form)
    }

    fn finish(&mut self, results: &mut Vec<MemberResult>) {
        let members = self.members.len();
        let Some(sqlstate) = &self.error else {
            let answers = self.answers.drain(..).enumerate();
            let before = results.len();
            results.extend(answers.map(|(member, mut answer)| {
                write_tail(&mut answer);
                MemberResult {
                    member,
                    outcome: MemberOutcome::Answer(answer.freeze()),
                }
            }));
            let new = results.get_mut(before..).unwrap_or_default();
            self.commit_notices.add_to(new);
            return;
        };
        if self.catalog_changed {
            results.extend(retry(0..members, Retry::Alone, Fallback::Ddl));
        } else if WAITED.contains(&sqlstate.as_str()) {
            results.extend(retry(0..members, Retry::Alone, Fallback::Timeout));
        } else {
            results.extend(retry_halves(members, Fallback::Error));
        }
    }
}
