//! The batch of every strategy that executes one statement for all members: the messages of the server in their order, up to the
//! result of each member. A strategy only reads the rows ([`GroupResult`]).

use super::batch::{Batch, BatchProgress};
use super::commit_notices::CommitNotices;
use super::messages::BatchWriter;
use super::outcome::{
    Invalidation, MemberResult, Retry, fallback_reason, is_refusal, retry, retry_halves,
};
use super::statement_progress::{StatementError, StatementEvent, StatementProgress};
use crate::template_stats::Fallback;
use paceline_relay::parsed::AnalysisTime;
use paceline_relay::server::{ServerSide, StatementKey};
use paceline_wire::Frame;
use std::collections::VecDeque;
use std::fmt::Debug;

/// The report of a row of the result on the catalog version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CatalogCheck {
    /// The server has analyzed the statement at this time.
    Unchanged(AnalysisTime),
    /// The catalog has changed since the analysis: the statement has done nothing.
    Changed,
}

impl CatalogCheck {
    /// A row that cannot be read.
    pub(super) const UNREADABLE: Self = Self::Unchanged(AnalysisTime::UNKNOWN);

    /// From the first column of the result.
    pub(super) fn read(value: Option<&[u8]>) -> Self {
        match value.and_then(AnalysisTime::read) {
            Some(time) => Self::Unchanged(time),
            None => Self::Changed,
        }
    }
}

/// The time at which the server has analyzed a group's statement, as its next execution has it.
#[derive(Debug, Default)]
pub(super) struct AnalysisNotes {
    /// The statements that have not completed.
    statements: VecDeque<StatementKey>,
    found: Option<AnalysisTime>,
}

impl AnalysisNotes {
    pub(super) fn of(statements: Vec<StatementKey>) -> Self {
        Self {
            statements: statements.into(),
            found: None,
        }
    }

    /// A row of the first statement that has not completed.
    pub(super) fn receive_row(&mut self, check: CatalogCheck) {
        if let CatalogCheck::Unchanged(time) = check {
            self.found = Some(time);
        }
    }

    /// The statement has completed.
    pub(super) fn complete(&mut self, server: &mut ServerSide) {
        if let (Some(statement), Some(time)) = (self.statements.pop_front(), self.found.take()) {
            server.set_analyzed(statement, time);
        }
    }
}

/// The result of a group's statement, as far as strategies differ in it.
pub(super) trait GroupResult: Debug + Send + Sync {
    /// Number of members.
    fn len(&self) -> usize;

    /// Reads a row of the result.
    fn receive_row(&mut self, body: &[u8]) -> CatalogCheck;

    /// A statement of the transaction is complete.
    fn statement_complete(&mut self) {}

    /// The results of members whose transaction is committed, if the catalog version has not changed.
    fn finish(&mut self, results: &mut Vec<MemberResult>);

    /// The results of members whose transaction is committed, if the catalog version has changed.
    fn finish_changed(&mut self, results: &mut Vec<MemberResult>) {
        results.extend(retry(0..self.len(), Retry::Alone, Fallback::Ddl));
    }

    /// The results of members whose transaction this error has undone.
    fn fail(&self, error: &StatementError, results: &mut Vec<MemberResult>) {
        let reason = fallback_reason(&error.sqlstate);
        if is_refusal(&error.sqlstate) {
            results.extend(retry(0..self.len(), Retry::Alone, reason));
        } else {
            results.extend(retry_halves(self.len(), reason));
        }
    }

    /// The reason why the template must not use the statement any more, if this error says so.
    fn refusal(&self, error: &StatementError) -> Option<String> {
        error.refusal()
    }

    /// Number of row versions that the statement has written.
    fn rows_written(&self) -> u64;

    /// Whether members may draw numbers from sequences.
    fn may_use_sequences(&self) -> bool {
        true
    }
}

/// A group whose members are executed by one statement.
#[derive(Debug)]
pub(super) struct StatementBatch<R> {
    progress: StatementProgress,
    catalog_changed: bool,
    analysis: AnalysisNotes,
    commit_notices: CommitNotices,
    result: R,
}

impl<R: GroupResult + 'static> StatementBatch<R> {
    /// Ends the messages of a group with `Sync`.
    pub(super) fn send(result: R, mut writer: BatchWriter<'_>) -> Box<dyn Batch> {
        writer.sync();
        Box::new(Self {
            progress: StatementProgress::new(writer.injected),
            catalog_changed: false,
            analysis: AnalysisNotes::of(writer.statements),
            commit_notices: CommitNotices::default(),
            result,
        })
    }

    fn finish(&mut self, results: &mut Vec<MemberResult>) {
        match self.progress.error() {
            Some(error) => self.result.fail(error, results),
            None if self.catalog_changed => self.result.finish_changed(results),
            None => {
                let before = results.len();
                self.result.finish(results);
                let new = results.get_mut(before..).unwrap_or_default();
                self.commit_notices.add_to(new);
            }
        }
    }
}

impl<R: GroupResult + 'static> Batch for StatementBatch<R> {
    fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        results: &mut Vec<MemberResult>,
    ) -> BatchProgress {
        self.commit_notices.receive(frame);
        let event = self.progress.receive(frame, server);
        match event {
            StatementEvent::Row => {
                let check = self.result.receive_row(frame.body());
                self.catalog_changed |= check == CatalogCheck::Changed;
                self.analysis.receive_row(check);
            }
            StatementEvent::Complete => {
                self.analysis.complete(server);
                self.result.statement_complete();
            }
            StatementEvent::End => self.finish(results),
            StatementEvent::Other => {}
        }
        BatchProgress::complete_if(event == StatementEvent::End)
    }

    fn invalidation(&self) -> Option<Invalidation> {
        if self.catalog_changed {
            return Some(Invalidation::Changed);
        }
        let reason = self.result.refusal(self.progress.error()?)?;
        Some(Invalidation::Refused(reason))
    }

    fn failed(&self) -> bool {
        self.progress.error().is_some()
    }

    fn rows_written(&self) -> u64 {
        self.result.rows_written()
    }

    fn may_use_sequences(&self) -> bool {
        self.result.may_use_sequences()
    }
}
