//! A batch, and behind it the comparisons of its tables' definitions.

use super::table::ShardTable;
use crate::strategy::batch::{Batch, BatchProgress};
use crate::strategy::messages::{BatchWriter, message, sqlstate};
use crate::strategy::outcome::{Invalidation, MemberResult, Retry, retry};
use crate::template_stats::Fallback;
use bytes::BytesMut;
use paceline_relay::server::{Injected, ServerSide};
use paceline_sql::chain::is_moved;
use paceline_wire::backend::{read_fields, read_formats, tag, write_fields};
use paceline_wire::frontend;
use paceline_wire::{Frame, Frames};
use std::sync::Arc;

/// The place of the comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checks {
    /// In the transaction of the batch, at its end.
    Within,
    /// In a transaction behind those of the batch, which only read.
    Behind,
}

/// The part of the answer to which the next message belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The batch: so many statements and so many changes of prepared statements are not confirmed.
    Batch { binds: usize, changes: usize },
    /// The comparisons.
    Checks,
}

/// A batch with comparisons.
#[derive(Debug)]
pub(super) struct CheckedBatch {
    inner: Box<dyn Batch>,
    members: usize,
    checks: Checks,
    stage: Stage,
    injected: Injected,
    /// The results of the batch, until the comparisons confirm them.
    results: Vec<MemberResult>,
    /// Whether a comparison has failed, or could not be made.
    has_changed: bool,
    tables: Vec<Arc<ShardTable>>,
    /// A description of columns in the coordinator's terms.
    description: BytesMut,
}

impl CheckedBatch {
    /// `out` ends with the messages of the batch, which begin at `from`.
    pub(super) fn build(
        inner: Box<dyn Batch>,
        members: usize,
        checks: Checks,
        (tables, on_replica): (Vec<Arc<ShardTable>>, bool),
        server: &mut ServerSide,
        out: &mut BytesMut,
        from: usize,
    ) -> Self {
        let stage = match checks {
            Checks::Behind => Stage::Batch {
                binds: 0,
                changes: 0,
            },
            Checks::Within => {
                let (mut binds, mut changes) = (0, 0);
                for frame in Frames::new(out.get(from..).unwrap_or_default()) {
                    match frame.tag {
                        frontend::tag::BIND => binds += 1,
                        frontend::tag::PARSE | frontend::tag::CLOSE => changes += 1,
                        _ => {}
                    }
                }
                // Its Sync is behind the comparisons.
                out.truncate(out.len() - frontend::SYNC_LEN);
                Stage::Batch { binds, changes }
            }
        };
        let mut writer = BatchWriter::new(server, out);
        tables
            .iter()
            .for_each(|table| table.write_check(&mut writer, on_replica));
        writer.sync();
        Self {
            inner,
            members,
            checks,
            stage,
            injected: writer.injected,
            results: Vec::new(),
            has_changed: false,
            tables,
            description: BytesMut::new(),
        }
    }

    /// A message of a batch whose comparisons are in its transaction.
    fn receive_within(&mut self, frame: Frame<'_>, server: &mut ServerSide) -> BatchProgress {
        if frame.tag == tag::READY_FOR_QUERY {
            self.injected.synced(server);
            return self.inner.receive(frame, server, &mut self.results);
        }
        let belongs = self.belongs_to_batch(frame.tag);
        match (belongs, frame.tag) {
            (true, _) => {
                self.inner.receive(frame, server, &mut self.results);
            }
            (false, tag::ERROR_RESPONSE) => self.receive_error(frame, server),
            // It is of the commit.
            (false, tag::NOTICE_RESPONSE) => {
                self.inner.receive(frame, server, &mut self.results);
            }
            (false, tag::PARSE_COMPLETE | tag::CLOSE_COMPLETE) => self.injected.complete(),
            (false, _) => {}
        }
        BatchProgress::InFlight
    }

    /// Whether a message answers the batch, not a comparison.
    fn belongs_to_batch(&mut self, tag: u8) -> bool {
        let Stage::Batch { binds, changes } = &mut self.stage else {
            return false;
        };
        let left = match tag {
            tag::BIND_COMPLETE => binds,
            tag::PARSE_COMPLETE | tag::CLOSE_COMPLETE => changes,
            _ => return true,
        };
        match left.checked_sub(1) {
            Some(rest) => {
                *left = rest;
                true
            }
            None => {
                self.stage = Stage::Checks;
                false
            }
        }
    }

    /// A message behind the answers of a batch that only reads.
    fn receive_behind(&mut self, frame: Frame<'_>, server: &mut ServerSide) -> BatchProgress {
        match frame.tag {
            tag::ERROR_RESPONSE => self.has_changed = true,
            tag::PARSE_COMPLETE | tag::CLOSE_COMPLETE => self.injected.complete(),
            tag::READY_FOR_QUERY => {
                self.injected.synced(server);
                return BatchProgress::Complete;
            }
            _ => {}
        }
        BatchProgress::InFlight
    }

    /// An error of a comparison, or of the commit.
    fn receive_error(&mut self, frame: Frame<'_>, server: &mut ServerSide) {
        let sqlstate = sqlstate(frame.body());
        let has_changed = message(frame.bytes).is_some_and(|text| is_moved(sqlstate, &text));
        self.has_changed |= has_changed;
        // The batch has failed with it.
        self.inner.receive(frame, server, &mut self.results);
    }

    /// Appends a description of columns as the coordinator would send it. A column that is not known is described as an expression.
    fn write_description(&self, frame: Frame<'_>, out: &mut BytesMut) {
        let body = frame.body();
        let described = read_fields(body).and_then(|fields| Ok((fields, read_formats(body)?)));
        let Ok((mut fields, formats)) = described else {
            return out.extend_from_slice(frame.bytes);
        };
        for field in &mut fields {
            let mut tables = self.tables.iter();
            let place = tables.find_map(|table| table.columns.place(field.table, field.column));
            (field.table, field.column) = place.unwrap_or_default();
        }
        write_fields(out, &fields, &formats);
    }

    fn finish(&mut self, results: &mut Vec<MemberResult>) {
        match self.has_changed {
            true => results.extend(retry(0..self.members, Retry::Elsewhere, Fallback::Stale)),
            false => results.append(&mut self.results),
        }
    }
}

impl Batch for CheckedBatch {
    fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        results: &mut Vec<MemberResult>,
    ) -> BatchProgress {
        if frame.tag == tag::ROW_DESCRIPTION && self.stage != Stage::Checks {
            let mut description = std::mem::take(&mut self.description);
            self.write_description(frame, &mut description);
            for described in Frames::new(&description) {
                self.inner.receive(described, server, &mut self.results);
            }
            description.clear();
            self.description = description;
            return BatchProgress::InFlight;
        }
        let progress = match (self.checks, self.stage) {
            (Checks::Within, _) => self.receive_within(frame, server),
            (Checks::Behind, Stage::Checks) => self.receive_behind(frame, server),
            (Checks::Behind, Stage::Batch { .. }) => {
                let progress = self.inner.receive(frame, server, &mut self.results);
                if progress.is_complete() {
                    self.stage = Stage::Checks;
                }
                BatchProgress::InFlight
            }
        };
        if progress.is_complete() {
            self.finish(results);
        }
        progress
    }

    fn invalidation(&self) -> Option<Invalidation> {
        match self.has_changed {
            true => Some(Invalidation::Changed),
            false => self.inner.invalidation(),
        }
    }

    fn failed(&self) -> bool {
        self.has_changed || self.inner.failed()
    }

    fn has_changed(&self) -> bool {
        self.has_changed
    }

    fn rows_written(&self) -> u64 {
        self.inner.rows_written()
    }

    fn buffered_len(&self) -> usize {
        self.inner.buffered_len()
    }

    fn may_use_sequences(&self) -> bool {
        self.inner.may_use_sequences()
    }

    /// The answers that have arrived do not count yet: their members leave, too.
    fn abandon(&mut self) -> Option<Vec<MemberResult>> {
        let mut abandoned = self.inner.abandon()?;
        abandoned.extend(self.results.drain(..).map(MemberResult::stalled));
        Some(abandoned)
    }
}
