//! The result of an upsert: the rows of the INSERT, then those of the fold.

use super::super::fold::FoldResult;
use super::super::messages::{BatchWriter, read_place, unknown_key_errors};
use super::super::outcome::{
    MemberOutcome, MemberResult, Retry, fallback_reason, is_lock_timeout, is_refusal, retry,
    retry_halves,
};
use super::super::plan::PlannedRequest;
use super::super::row_key::RowKey;
use super::super::row_spread::RowSpread;
use super::super::statement_batch::{CatalogCheck, GroupResult};
use super::super::statement_progress::StatementError;
use super::plan::UpsertPlan;
use crate::template_stats::Fallback;
use bytes::{Bytes, BytesMut};
use foldhash::{HashMap, HashMapExt};
use paceline_relay::request::RequestForm;
use paceline_sql::merge::upsert::InsertedRows;
use paceline_wire::backend;
use std::sync::Arc;

/// The members of a group and their answers.
#[derive(Debug)]
pub(super) struct UpsertResult {
    plan: Arc<UpsertPlan>,
    members: Vec<UpsertMember>,
    /// The first member of each row.
    firsts: HashMap<RowKey, usize>,
    /// Whether the INSERT is complete.
    inserted: bool,
    inserted_rows: u64,
    /// Whether a row has a key that no member has sent.
    unknown_key: bool,
    spread: RowSpread,
    rows: InsertedRows,
    fold: Option<FoldResult>,
    /// Whether the fold reports changed facts, so that it has done nothing. The INSERT may have inserted rows.
    fold_changed: bool,
    /// The description of the rows.
    columns: BytesMut,
}

#[derive(Debug)]
struct UpsertMember {
    form: RequestForm,
    /// Whether the INSERT contains its row.
    inserts: bool,
    /// Its answer, if its row was inserted.
    answer: Option<Bytes>,
}

impl UpsertResult {
    /// Writes the statements of a group, without `Sync`.
    pub(super) fn write(
        plan: Arc<UpsertPlan>,
        requests: &[&PlannedRequest],
        writer: &mut BatchWriter<'_>,
    ) -> Option<Self> {
        let first = requests.first()?;
        let mut firsts = HashMap::new();
        let mut members = Vec::with_capacity(requests.len());
        for (number, request) in requests.iter().enumerate() {
            let first = *firsts.entry(plan.rows.of(request)?).or_insert(number);
            members.push(UpsertMember {
                form: request.form,
                inserts: plan.inserts(number, first),
                answer: None,
            });
        }
        if plan.rows.are_opaque() && firsts.len() > 1 {
            return None;
        }
        let inserting = requests.iter().zip(&members);
        let inserting =
            inserting.filter_map(|(request, member)| member.inserts.then_some(*request));
        let inserting: Vec<&PlannedRequest> = inserting.collect();
        let spread = plan.spread(firsts.len(), requests.len());
        let rows = plan.inserted_rows(firsts.len(), requests.len());
        plan.write_insert(spread, rows, &inserting, writer)?;
        let fold = match &plan.fold {
            Some(fold) if spread != RowSpread::OneEach => {
                let fold = Arc::clone(fold);
                Some(FoldResult::write(fold, requests, writer)?)
            }
            _ => None,
        };
        Some(Self {
            columns: plan.described.columns(first),
            plan,
            members,
            firsts,
            inserted: false,
            inserted_rows: 0,
            unknown_key: false,
            spread,
            rows,
            fold,
            fold_changed: false,
        })
    }

    /// Takes a row of the INSERT. Columns: catalog version unchanged, key or number, RETURNING.
    fn receive_inserted(&mut self, body: &[u8]) -> CatalogCheck {
        let values = backend::row_values(body).unwrap_or_default();
        let Some((same, values)) = values.split_first() else {
            return CatalogCheck::UNREADABLE;
        };
        let names = self.plan.names_len(self.rows).min(values.len());
        let (name, returning) = values.split_at(names);
        if name.iter().all(Option::is_some) {
            self.inserted_rows += 1;
            let member = match self.rows {
                InsertedRows::ByKey => self.member_with(name),
                InsertedRows::ByNumber => name.first().and_then(|place| read_place(*place)),
            };
            match member.and_then(|member| self.members.get_mut(member)) {
                Some(member) => {
                    let answer = self
                        .plan
                        .answer(member.form, &self.columns, Some(returning));
                    member.answer = Some(answer);
                }
                None => self.unknown_key = true,
            }
        }
        CatalogCheck::read(*same)
    }

    /// The first member with a key.
    fn member_with(&self, key: &[Option<&[u8]>]) -> Option<usize> {
        if self.plan.rows.are_opaque() {
            return Some(0);
        }
        let key = self.plan.rows.returned(key)?;
        self.firsts.get(&key).copied()
    }

    /// The results of members under DO NOTHING whose rows were not inserted.
    fn do_nothing(&self, results: &mut Vec<MemberResult>) {
        let members = self.members.iter().enumerate();
        results.extend(members.map(|(number, member)| MemberResult {
            member: number,
            outcome: match member.inserts {
                true => {
                    let answer = self.plan.answer(member.form, &self.columns, None);
                    MemberOutcome::Answer(answer)
                }
                false => MemberOutcome::Retry(Retry::Line, Fallback::Busy),
            },
        }));
    }

    /// Replaces the results of members whose rows were inserted.
    fn answer_inserted(&mut self, results: &mut [MemberResult]) {
        for MemberResult { member, outcome } in results {
            let member = self.members.get_mut(*member);
            if let Some(answer) = member.and_then(|member| member.answer.take()) {
                *outcome = MemberOutcome::Answer(answer);
            }
        }
    }

    fn finish_with(&mut self, catalog_changed: bool, results: &mut Vec<MemberResult>) {
        if self.unknown_key {
            let forms = self.members.iter().map(|member| member.form);
            return results.extend(unknown_key_errors(forms));
        }
        match &mut self.fold {
            Some(fold) if !self.fold_changed => fold.finish(results),
            _ if catalog_changed => {
                results.extend(retry(0..self.len(), Retry::Alone, Fallback::Ddl));
            }
            _ => self.do_nothing(results),
        }
        self.answer_inserted(results);
    }
}

impl GroupResult for UpsertResult {
    fn len(&self) -> usize {
        self.members.len()
    }

    fn receive_row(&mut self, body: &[u8]) -> CatalogCheck {
        match &mut self.fold {
            Some(fold) if self.inserted => {
                let check = fold.receive_row(body);
                self.fold_changed |= check == CatalogCheck::Changed;
                check
            }
            _ => self.receive_inserted(body),
        }
    }

    fn statement_complete(&mut self) {
        self.inserted = true;
    }

    fn finish(&mut self, results: &mut Vec<MemberResult>) {
        self.finish_with(false, results);
    }

    fn finish_changed(&mut self, results: &mut Vec<MemberResult>) {
        self.finish_with(true, results);
    }

    fn fail(&self, error: &StatementError, results: &mut Vec<MemberResult>) {
        if let Some(fold) = &self.fold {
            return fold.fail(error, results);
        }
        let (members, reason) = (0..self.len(), fallback_reason(&error.sqlstate));
        if self.spread == RowSpread::OneEach {
            self.plan.backoff.begin();
            results.extend(retry(members, Retry::Line, reason));
        } else if is_refusal(&error.sqlstate) {
            results.extend(retry(members, Retry::Alone, reason));
        } else if !is_lock_timeout(&error.sqlstate) {
            results.extend(retry_halves(self.len(), reason));
        } else if self.spread == RowSpread::OneRow {
            results.extend(retry(members, Retry::Blocked, reason));
        } else {
            results.extend(retry(members, Retry::Alone, reason));
        }
    }

    /// An error of the statement in which each member has a key of its own may be due to a member.
    fn refusal(&self, error: &StatementError) -> Option<String> {
        error
            .refusal()
            .filter(|_| self.spread != RowSpread::OneEach)
    }

    /// Inserted rows, and rows that the fold has updated.
    fn rows_written(&self) -> u64 {
        self.inserted_rows + self.fold.as_ref().map_or(0, FoldResult::rows_written)
    }
}
