//! The statement of one member, alone in its transaction.
//!
//! It does what a relay does for a statement on the primary, but no client gets a part of an answer before all of it counts.

use super::error::write_error;
use super::table::ShardPart;
use crate::strategy::batch::{Batch, BatchProgress};
use crate::strategy::messages::{BatchWriter, sqlstate, write_member};
use crate::strategy::outcome::{MemberOutcome, MemberResult, Retry, is_refusal, retry};
use crate::strategy::plan::PlannedRequest;
use crate::template_stats::Fallback;
use bytes::{BufMut, BytesMut};
use paceline_relay::errors::is_stale_plan;
use paceline_relay::request::RequestForm;
use paceline_relay::server::{Injected, ServerSide};
use paceline_sql::Effect;
use paceline_wire::Frame;
use paceline_wire::backend::tag;

/// The end of the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SingleEnd {
    /// Without an error.
    Done,
    /// With an error that is the answer.
    Failed,
    /// The server rejects the statement itself, as the coordinator does in its own terms if it is wrong.
    Refused,
}

/// A statement in flight.
#[derive(Debug)]
pub(super) struct SingleBatch {
    form: RequestForm,
    part: ShardPart,
    injected: Injected,
    answer: BytesMut,
    /// Whether it writes.
    writes: bool,
    /// Messages that PostgreSQL sends later to a simple query: the columns of a write after its execution, the end after the commit.
    held: BytesMut,
    end: SingleEnd,
}

impl Batch for SingleBatch {
    fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        results: &mut Vec<MemberResult>,
    ) -> BatchProgress {
        match frame.tag {
            tag::PARSE_COMPLETE => {
                self.injected.complete();
                self.form.write_parsed(&mut self.answer);
            }
            tag::CLOSE_COMPLETE => self.injected.complete(),
            tag::NOTICE_RESPONSE if self.injected.is_answered() => {}
            // The messages of the extended protocol that a simple query does not have.
            tag::BIND_COMPLETE | tag::NO_DATA if self.form == RequestForm::Simple => {}
            tag::ROW_DESCRIPTION if self.form == RequestForm::Simple && self.writes => {
                self.held.put_slice(frame.bytes);
            }
            tag::COMMAND_COMPLETE | tag::EMPTY_QUERY_RESPONSE
                if self.form == RequestForm::Simple =>
            {
                self.held.put_slice(frame.bytes);
            }
            tag::DATA_ROW => {
                self.answer.unsplit(self.held.split());
                self.answer.put_slice(frame.bytes);
            }
            tag::ERROR_RESPONSE => self.receive_error(frame, server),
            tag::READY_FOR_QUERY => {
                self.injected.synced(server);
                self.answer.unsplit(self.held.split());
                self.answer.put_slice(frame.bytes);
                self.finish(results);
                return BatchProgress::Complete;
            }
            _ => self.answer.put_slice(frame.bytes),
        }
        BatchProgress::InFlight
    }

    fn failed(&self) -> bool {
        self.end != SingleEnd::Done
    }

    fn buffered_len(&self) -> usize {
        self.answer.len()
    }
}

impl SingleBatch {
    pub(super) fn build(member: &PlannedRequest, mut writer: BatchWriter<'_>) -> Option<Self> {
        let part = member.shard.clone()?;
        write_member(member, member.form.row_limit(), &mut writer);
        writer.sync();
        writer.server.needs_reset |= member.may_change_session;
        Some(Self {
            form: member.form,
            part: *part,
            injected: writer.injected,
            answer: BytesMut::new(),
            writes: member.template.effect() == Some(&Effect::Write),
            held: BytesMut::new(),
            end: SingleEnd::Done,
        })
    }

    fn receive_error(&mut self, frame: Frame<'_>, server: &mut ServerSide) {
        let is_stale = is_stale_plan(frame.body());
        if is_stale {
            server.retire_all();
        }
        self.end = match is_stale || is_refusal(sqlstate(frame.body())) {
            true => SingleEnd::Refused,
            false => SingleEnd::Failed,
        };
        self.held.clear();
        write_error(frame.body(), &self.part, &mut self.answer);
    }

    fn finish(&mut self, results: &mut Vec<MemberResult>) {
        if self.end == SingleEnd::Refused {
            return results.extend(retry(0..1, Retry::Elsewhere, Fallback::Refused));
        }
        results.push(MemberResult {
            member: 0,
            outcome: MemberOutcome::Answer(self.answer.split().freeze()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Permission;
    use crate::strategy::shard::{ShardTable, TableNames};
    use crate::testing::fold_statement::single;
    use bytes::Bytes;
    use paceline_relay::parsed::ClientParse;
    use paceline_relay::session::ClientSession;
    use paceline_relay::settings::SettingsInterner;
    use paceline_relay::template::Templates;
    use paceline_sql::Compared;
    use paceline_sql::keyed::KeyedStatement;
    use paceline_testing::messages::client::{bind, execute, sync};
    use paceline_testing::messages::server::{bound, complete, notice, parsed, ready};
    use paceline_wire::Frames;
    use std::sync::Arc;

    /// The shard parses the statement again; the client got the notices of its own `Parse`.
    #[test]
    fn a_notice_of_a_statement_that_is_prepared_again_is_dropped() {
        let sql = "DELETE FROM accounts WHERE id = 7";
        let names = |table: &str| TableNames {
            schema: "public".to_owned(),
            table: table.to_owned(),
        };
        let (templates, none) = (Templates::default(), SettingsInterner::default().none());
        let (own, partition) = (names("a1"), names("accounts_1"));
        let facts = Compared::default();
        let table = ShardTable::new(own, partition, Arc::default(), &facts, &templates);
        let moved = KeyedStatement::read(sql)
            .unwrap()
            .on(sql, 0, "public", "a1");
        let mut session = ClientSession::new(none.clone());
        let template = templates.prepared(sql, &[0, 0]);
        let mine = ClientParse::begun(5, 0);
        session.statements.parse(b"p", template, mine);
        let messages = [bind("p"), execute(), sync()].concat();
        let mut member = single(&mut session, &templates, messages);
        member.shard = Some(Box::new(ShardPart {
            table: Arc::new(table),
            replaced: moved.unwrap().replaced,
            permission: Permission::Default,
        }));
        let mut server = ServerSide::new(none, 100);
        let mut out = BytesMut::new();
        let writer = BatchWriter::new(&mut server, &mut out);
        let mut batch = SingleBatch::build(&member, writer).unwrap();
        let rest = [bound(), notice("execute"), complete("DELETE 1"), ready('I')].concat();
        let sent = [notice("again"), parsed(), notice("bind"), rest.clone()].concat();
        let mut results = Vec::new();
        for frame in Frames::new(&sent) {
            batch.receive(frame, &mut server, &mut results);
        }
        let expected = Bytes::from([notice("bind"), rest].concat());
        let outcome = results.pop().map(|result| result.outcome);
        assert!(matches!(outcome, Some(MemberOutcome::Answer(answer)) if answer == expected));
    }
}
