//! Executes INSERT, UPDATE and DELETE.

use super::error::{Stop, failed};
use super::evaluate::Env;
use super::execute::{Execution, Row, system_columns};
use super::storage::Locked;
use super::tree::{Conflict, Delete, Expr, From, Insert, Place, Update};
use super::value::{RowId, Value};

impl Execution<'_> {
    /// The rows that a statement changes, locked, in their newest versions. All are locked before one is changed, so that the
    /// statement can be repeated if it waits.
    fn targets(
        &mut self,
        target: Place,
        from: &From,
        quals: &[Expr],
    ) -> Result<Vec<(RowId, Row)>, Stop> {
        let mut rows = self.from(from, &[], None)?;
        self.filter(&mut rows, quals, None)?;
        let mut targets: Vec<(RowId, Row)> = Vec::new();
        for row in rows {
            let Some(row) = self.lock_row(target, false, row, (from, quals), None)? else {
                continue;
            };
            // A row that several rows join is changed once.
            if let Value::Row(id) = row[target.row()]
                && targets.iter().all(|(other, _)| *other != id)
            {
                targets.push((id, row));
            }
        }
        Ok(targets)
    }

    pub(crate) fn update(&mut self, update: &Update) -> Result<Vec<Row>, Stop> {
        let mut results = Vec::new();
        let targets = self.targets(update.target, &update.from, &update.quals)?;
        self.changed = targets.len();
        for (id, mut row) in targets {
            let new = self.assigned(&row, update.target, &update.sets, &Env::of(&row, None))?;
            self.storage.update(self.snapshot, id, new.clone())?;
            let offset = update.target.offset;
            row.splice(offset..offset + update.target.columns, new);
            row[offset + update.target.columns] = Value::Int8(self.xid());
            results.push(self.values(&update.returning, &Env::of(&row, None))?);
        }
        Ok(results)
    }

    /// The columns of a row after these assignments.
    fn assigned(
        &mut self,
        row: &Row,
        of: Place,
        sets: &[(usize, Expr)],
        env: &Env<'_>,
    ) -> Result<Row, Stop> {
        let mut new = row[of.offset..of.offset + of.columns].to_vec();
        for (place, value) in sets {
            new[*place] = self.value(value, env)?;
        }
        Ok(new)
    }

    pub(crate) fn delete(&mut self, delete: &Delete) -> Result<Vec<Row>, Stop> {
        let mut results = Vec::new();
        let targets = self.targets(delete.target, &delete.from, &delete.quals)?;
        self.changed = targets.len();
        for (id, row) in targets {
            self.storage.delete(self.snapshot, id);
            results.push(self.values(&delete.returning, &Env::of(&row, None))?);
        }
        Ok(results)
    }

    pub(crate) fn insert(&mut self, insert: &Insert) -> Result<Vec<Row>, Stop> {
        let source = self.query(&insert.source, None)?;
        let columns = self.storage.schema.tables[insert.table].columns.len();
        let (mut results, mut changed) = (Vec::new(), 0);
        for row in source {
            let mut values = vec![Value::Null; columns];
            for (place, value) in insert.columns.iter().zip(row) {
                values[*place] = value;
            }
            let inserted = self
                .storage
                .insert(self.snapshot, insert.table, values.clone())?;
            let row = match (inserted, &insert.conflict) {
                (Ok(id), _) => {
                    values.push(Value::Int8(self.xid()));
                    values.push(Value::Row(id));
                    Some(values)
                }
                (Err(_), Conflict::Nothing) => None,
                (Err(_), Conflict::Error) => return Err(self.duplicate(insert.table, &values)),
                (Err(id), Conflict::Update(sets, condition)) => {
                    self.update_conflicting(id, &values, sets, condition.as_ref())?
                }
            };
            if let Some(row) = row {
                changed += 1;
                results.push(self.values(&insert.returning, &Env::of(&row, None))?);
            }
        }
        self.changed = changed;
        Ok(results)
    }

    fn duplicate(&self, table: usize, values: &[Value]) -> Stop {
        let table = &self.storage.schema.tables[table];
        let _ = values;
        let message = format!(
            "duplicate key value violates unique constraint \"{}_pkey\"",
            table.name
        );
        failed("23505", &message).into()
    }

    /// DO UPDATE. `None` if its condition does not hold.
    fn update_conflicting(
        &mut self,
        id: RowId,
        proposed: &[Value],
        sets: &[(usize, Expr)],
        condition: Option<&Expr>,
    ) -> Result<Option<Row>, Stop> {
        let newest = match self.storage.lock(self.snapshot, id) {
            Locked::Newest(newest) => newest,
            Locked::Busy => return Err(Stop::Waits(id)),
            Locked::Gone => return Err(failed("40001", "the row was deleted").into()),
        };
        if self.storage.is_own(self.snapshot, &newest) {
            let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
            return Err(failed("21000", message).into());
        }
        let mut row = newest.values.to_vec();
        row.extend(system_columns(id, &newest));
        let place = Place {
            table: id.table,
            offset: 0,
            columns: newest.values.len(),
        };
        let both = [&row[..], proposed, &[Value::Null, Value::Null]].concat();
        let env = Env::of(&both, None);
        if let Some(condition) = condition
            && !self.value(condition, &env)?.is_true()
        {
            return Ok(None);
        }
        let new = self.assigned(&both, place, sets, &env)?;
        self.storage.update(self.snapshot, id, new.clone())?;
        row.splice(0..new.len(), new);
        Ok(Some(row))
    }
}
