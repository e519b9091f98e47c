//! Executes a statement at one moment, or finds that it waits for a row.

use super::error::Stop;
use super::evaluate::Env;
use super::settings::Settings;
use super::storage::{Locked, Snapshot, Storage, Version, Xid};
use super::tree::{Body, Cte, Expr, From, Lock, Place, Query, Select, Statement};
use super::value::{RowId, Value};
use std::rc::Rc;

pub(crate) type Row = Vec<Value>;

/// The result of a statement.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) rows: Vec<Row>,
    /// Rows that the statement itself has changed.
    pub(crate) changed: usize,
}

/// One execution.
pub(crate) struct Execution<'a> {
    pub(crate) storage: &'a mut Storage,
    pub(crate) settings: &'a mut Settings,
    pub(crate) parameters: &'a [Value],
    pub(crate) snapshot: Snapshot,
    ctes: &'a [Cte],
    results: Vec<Option<Rc<Vec<Row>>>>,
    pub(crate) changed: usize,
}

/// Executes a statement. If it waits, the caller repeats it with the same snapshot; its changes are undone.
pub(crate) fn execute(
    statement: &Statement,
    parameters: &[Value],
    snapshot: Snapshot,
    storage: &mut Storage,
    settings: &mut Settings,
) -> Result<Outcome, Stop> {
    let mark = storage.mark(snapshot.xid());
    let mut execution = Execution {
        storage,
        settings,
        parameters,
        snapshot,
        ctes: &statement.ctes,
        results: statement.ctes.iter().map(|_| None).collect(),
        changed: 0,
    };
    let done = execution.run(statement);
    if done.is_err() {
        storage.undo(snapshot.xid(), mark);
    }
    done
}

impl Execution<'_> {
    pub(crate) fn xid(&self) -> Xid {
        self.snapshot.xid()
    }

    fn run(&mut self, statement: &Statement) -> Result<Outcome, Stop> {
        let mut rows = self.query(&statement.query, None)?;
        let changed = self.changed;
        if statement.query.columns.is_empty() && statement.query.body.writes() {
            // There is no RETURNING clause.
            rows.clear();
        }
        // Statements in WITH are executed even if nothing reads their results.
        for (number, cte) in statement.ctes.iter().enumerate() {
            if cte.query.body.writes() {
                self.cte(number)?;
            }
        }
        Ok(Outcome { rows, changed })
    }

    pub(crate) fn query(
        &mut self,
        query: &Query,
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Row>, Stop> {
        match &query.body {
            Body::Select(select) => self.select(select, outer),
            Body::Values(rows) => {
                let env = Env::of(&[], outer);
                rows.iter().map(|row| self.values(row, &env)).collect()
            }
            Body::Union(left, right) => {
                let mut rows = self.query(left, outer)?;
                rows.extend(self.query(right, outer)?);
                Ok(rows)
            }
            Body::Insert(insert) => self.insert(insert),
            Body::Update(update) => self.update(update),
            Body::Delete(delete) => self.delete(delete),
        }
    }

    fn cte(&mut self, number: usize) -> Result<Rc<Vec<Row>>, Stop> {
        if let Some(rows) = &self.results[number] {
            return Ok(Rc::clone(rows));
        }
        let cte = &self.ctes[number];
        let rows = match (&cte.query.body, cte.recursive) {
            (Body::Union(base, step), true) => self.recursion(number, base, step)?,
            _ => self.query(&cte.query, None)?,
        };
        let rows = Rc::new(rows);
        self.results[number] = Some(Rc::clone(&rows));
        Ok(rows)
    }

    fn recursion(&mut self, number: usize, base: &Query, step: &Query) -> Result<Vec<Row>, Stop> {
        let mut working = self.query(base, None)?;
        let mut all = Vec::new();
        while !working.is_empty() {
            all.extend_from_slice(&working);
            self.results[number] = Some(Rc::new(working));
            working = self.query(step, None)?;
        }
        Ok(all)
    }

    fn select(&mut self, select: &Select, outer: Option<&Env<'_>>) -> Result<Vec<Row>, Stop> {
        let mut rows = match &select.from {
            None => vec![Row::new()],
            Some(from) => self.from(from, &[], outer)?,
        };
        self.filter(&mut rows, &select.quals, outer)?;
        if select.aggregates {
            return Ok(vec![self.aggregates(&select.targets, &rows, outer)?]);
        }
        self.sort(&mut rows, &select.order, outer)?;
        if let Some(lock) = &select.lock {
            rows = self.lock_rows(lock, select, rows, outer)?;
        } else if let Some(limit) = self.limit(select, outer)? {
            rows.truncate(limit);
        }
        let mut results = Vec::with_capacity(rows.len());
        for (number, row) in (1..).zip(&rows) {
            let env = Env { row, outer, number };
            results.push(self.values(&select.targets, &env)?);
        }
        Ok(results)
    }

    pub(crate) fn filter(
        &mut self,
        rows: &mut Vec<Row>,
        quals: &[Expr],
        outer: Option<&Env<'_>>,
    ) -> Result<(), Stop> {
        if quals.is_empty() {
            return Ok(());
        }
        let all = std::mem::take(rows);
        for row in all {
            if self.all_true(quals, &Env::of(&row, outer))? {
                rows.push(row);
            }
        }
        Ok(())
    }

    fn limit(&mut self, select: &Select, outer: Option<&Env<'_>>) -> Result<Option<usize>, Stop> {
        let Some(limit) = &select.limit else {
            return Ok(None);
        };
        let limit = self.value(limit, &Env::of(&[], outer))?.as_int();
        Ok(limit.and_then(|limit| usize::try_from(limit).ok()))
    }

    fn sort(
        &mut self,
        rows: &mut Vec<Row>,
        order: &[(Expr, bool)],
        outer: Option<&Env<'_>>,
    ) -> Result<(), Stop> {
        if order.is_empty() {
            return Ok(());
        }
        let mut keyed = Vec::with_capacity(rows.len());
        for row in rows.drain(..) {
            let mut keys = Vec::with_capacity(order.len());
            for (expr, _) in order {
                keys.push(self.value(expr, &Env::of(&row, outer))?);
            }
            keyed.push((keys, row));
        }
        keyed.sort_by(|(one, _), (other, _)| {
            let pairs = one.iter().zip(other).zip(order);
            let orderings = pairs.map(|((one, other), (_, descending))| {
                let ordering = one.compare(other).unwrap_or(std::cmp::Ordering::Equal);
                if *descending {
                    ordering.reverse()
                } else {
                    ordering
                }
            });
            orderings.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        });
        rows.extend(keyed.into_iter().map(|(_, row)| row));
        Ok(())
    }

    /// One row of numbers of rows.
    fn aggregates(
        &mut self,
        targets: &[Expr],
        rows: &[Row],
        outer: Option<&Env<'_>>,
    ) -> Result<Row, Stop> {
        let mut result = Row::new();
        for target in targets {
            result.push(self.aggregate(target, rows, outer)?);
        }
        Ok(result)
    }

    fn aggregate(
        &mut self,
        target: &Expr,
        rows: &[Row],
        outer: Option<&Env<'_>>,
    ) -> Result<Value, Stop> {
        match target {
            Expr::Count(None) => Ok(Value::Int8(i64::try_from(rows.len()).unwrap())),
            Expr::Count(Some(arg)) => {
                let mut count = 0;
                for row in rows {
                    count += i64::from(!self.value(arg, &Env::of(row, outer))?.is_null());
                }
                Ok(Value::Int8(count))
            }
            other => panic!("the aggregate {other:?} is not simulated"),
        }
    }

    /// The rows of a FROM clause, each behind the values of `prefix`.
    pub(crate) fn from(
        &mut self,
        from: &From,
        prefix: &[Value],
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Row>, Stop> {
        let extended = |more: &[Value]| [prefix, more].concat();
        Ok(match from {
            From::Nothing => vec![prefix.to_vec()],
            From::Table(table) => {
                let rows = self.storage.visible(*table, self.snapshot).into_iter();
                rows.map(|(id, version)| {
                    let mut row = extended(&version.values);
                    row.extend(system_columns(id, &version));
                    row
                })
                .collect()
            }
            From::Cte(number) => self.cte(*number)?.iter().map(|row| extended(row)).collect(),
            From::Sub(query) => {
                let env = Env::of(prefix, outer);
                let rows = self.query(query, Some(&env))?;
                rows.iter().map(|row| extended(row)).collect()
            }
            From::Functions(calls, ordinality) => {
                let env = Env::of(prefix, outer);
                let mut sets = Vec::with_capacity(calls.len());
                for call in calls {
                    sets.push(self.set(call, &env)?);
                }
                let longest = sets.iter().map(Vec::len).max().unwrap_or(0);
                let row = |number: usize| {
                    let mut row = prefix.to_vec();
                    row.extend(
                        sets.iter()
                            .map(|set| set.get(number).cloned().unwrap_or(Value::Null)),
                    );
                    if *ordinality {
                        row.push(Value::Int8(i64::try_from(number + 1).unwrap()));
                    }
                    row
                };
                (0..longest).map(row).collect()
            }
            From::Join {
                left,
                right,
                right_width,
                on,
                keeps_left,
            } => {
                let mut joined = Vec::new();
                for row in self.from(left, prefix, outer)? {
                    let mut matches = self.from(right, &row, outer)?;
                    self.filter(&mut matches, on.as_slice(), outer)?;
                    if matches.is_empty() && *keeps_left {
                        let mut row = row;
                        row.extend(std::iter::repeat_n(Value::Null, *right_width));
                        matches.push(row);
                    }
                    joined.extend(matches);
                }
                joined
            }
        })
    }

    /// The conditions of inner joins.
    fn conditions<'q>(from: &'q From, into: &mut Vec<&'q Expr>) {
        if let From::Join {
            left, right, on, ..
        } = from
        {
            Self::conditions(left, into);
            Self::conditions(right, into);
            into.extend(on);
        }
    }

    /// Locks the row at `place`, and takes over its newest version if the conditions still hold for it. `None`: they do not, or the
    /// row is skipped.
    pub(crate) fn lock_row(
        &mut self,
        place: Place,
        skip_locked: bool,
        mut row: Row,
        (from, quals): (&From, &[Expr]),
        outer: Option<&Env<'_>>,
    ) -> Result<Option<Row>, Stop> {
        let Value::Row(id) = row[place.row()] else {
            return Ok(None);
        };
        let newest = match self.storage.lock(self.snapshot, id) {
            Locked::Newest(newest) => newest,
            Locked::Gone => return Ok(None),
            Locked::Busy if skip_locked => return Ok(None),
            Locked::Busy => return Err(Stop::Waits(id)),
        };
        if self.storage.is_own(self.snapshot, &newest) {
            return Ok(None);
        }
        let system = system_columns(id, &newest);
        let columns = newest.values.iter().cloned().chain(system);
        let known = &row[place.offset..place.offset + place.columns + 2];
        if columns.clone().eq(known.iter().cloned()) {
            return Ok(Some(row));
        }
        row.splice(place.offset..place.offset + place.columns + 2, columns);
        let mut joined = Vec::new();
        Self::conditions(from, &mut joined);
        let env = Env::of(&row, outer);
        for condition in joined.into_iter().chain(quals) {
            if !self.value(condition, &env)?.is_true() {
                return Ok(None);
            }
        }
        Ok(Some(row))
    }

    fn lock_rows(
        &mut self,
        lock: &Lock,
        select: &Select,
        rows: Vec<Row>,
        outer: Option<&Env<'_>>,
    ) -> Result<Vec<Row>, Stop> {
        let limit = self.limit(select, outer)?.unwrap_or(usize::MAX);
        let from = select.from.as_ref().unwrap_or(&From::Nothing);
        let mut locked = Vec::new();
        for row in rows {
            if locked.len() >= limit {
                break;
            }
            let of = (from, select.quals.as_slice());
            locked.extend(self.lock_row(lock.of, lock.skip_locked, row, of, outer)?);
        }
        Ok(locked)
    }
}

/// `xmin`, and the number of the row.
pub(crate) fn system_columns(id: RowId, version: &Version) -> [Value; 2] {
    [Value::Int8(version.inserted.xid), Value::Row(id)]
}
