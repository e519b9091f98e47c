//! The INSERT of a group: the values of its members as arrays.

use super::super::array::{Array, bound};
use super::super::messages::{BatchWriter, InjectedStatement};
use super::super::plan::PlannedRequest;
use super::super::row_spread::RowSpread;
use super::plan::UpsertPlan;
use paceline_sql::UNCHECKED_WAIT_MS;
use paceline_sql::merge::upsert::{InsertedRows, UPSERT_RESULT_COLUMNS};

/// Maximum wait for a lock that perhaps only another member needs.
const LOCK_TIMEOUT: &str = "5ms";
/// The same if each member may have to wait for a lock: the minimum that PostgreSQL accepts.
const LOCK_TIMEOUT_EACH: &str = "1ms";

impl UpsertPlan {
    /// Writes `[Parse] Bind Execute` for these requests.
    pub(super) fn write_insert(
        &self,
        spread: RowSpread,
        rows: InsertedRows,
        requests: &[&PlannedRequest],
        writer: &mut BatchWriter<'_>,
    ) -> Option<()> {
        let upsert = &self.upsert;
        let (id, text) = match (&upsert.one_each, &upsert.numbered) {
            (Some(text), _) if spread == RowSpread::OneEach => (self.one_each_id, text),
            (_, Some(text)) if rows == InsertedRows::ByNumber => (self.numbered_id, text),
            _ => (self.insert_id, &upsert.insert),
        };
        let lock_timeout = match spread {
            RowSpread::OneEach => LOCK_TIMEOUT_EACH.to_owned(),
            // Alone, each member would wait for the same lock. A fold of a partitioned table locks every partition, though.
            RowSpread::OneRow if !self.is_partitioned() => format!("{UNCHECKED_WAIT_MS}ms"),
            RowSpread::OneRow | RowSpread::ManyRows => LOCK_TIMEOUT.to_owned(),
        };
        let analyzed = writer.server.analyzed(id).bytes();
        let mut values = vec![
            (true, Some(&analyzed[..])),
            (false, Some(lock_timeout.as_bytes())),
        ];
        let mut arrays = Vec::new();
        if !self.upsert.per_member.is_empty() {
            arrays.push(Array::numbers(requests.len()));
        }
        for number in self
            .upsert
            .per_member
            .iter()
            .flat_map(|parameter| &parameter.numbers)
        {
            let requests = requests.iter().copied();
            arrays.push(self.described.array(&[*number], requests)?);
        }
        values.extend(bound(&arrays));
        let injected_columns = UPSERT_RESULT_COLUMNS + self.names_len(rows);
        let formats = self
            .described
            .result_formats(injected_columns, requests.first()?);
        InjectedStatement { id, text }.write(&values, &formats, writer);
        Some(())
    }
}
