//! Rows with their versions, row locks and transactions. A row lock is exclusive: it stands for FOR NO KEY UPDATE and FOR UPDATE.

use super::error::{SqlError, Stop, failed};
use super::schema::Schema;
use super::value::{RowId, Value};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::rc::Rc;
use tokio::sync::oneshot;

/// A transaction id; 0 for none.
pub(crate) type Xid = i64;

#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) values: Rc<[Value]>,
    pub(crate) inserted: Stamp,
    /// No transaction if the version is the newest one.
    pub(crate) ended: Stamp,
}

/// A transaction, and the number of its statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stamp {
    pub(crate) xid: Xid,
    pub(crate) statement: u32,
}

#[derive(Debug, Default)]
struct Row {
    versions: Vec<Version>,
    /// The transaction that has locked, inserted or changed the row, until it ends.
    locked_by: Xid,
    /// Sessions that wait for it, the first one first.
    waiting: VecDeque<oneshot::Sender<()>>,
}

/// The snapshot of a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snapshot {
    /// The number of commits before it.
    commits: u64,
    own: Stamp,
}

impl Snapshot {
    /// The transaction that has taken it.
    pub(crate) fn xid(self) -> Xid {
        self.own.xid
    }
}

/// A change, to be undone.
#[derive(Debug, Clone, Copy)]
enum Change {
    Inserted(RowId),
    Updated(RowId),
    Deleted(RowId),
}

#[derive(Debug)]
struct Transaction {
    locks: Vec<RowId>,
    changes: Vec<Change>,
    statement: u32,
}

/// The result of a request for a row lock.
#[derive(Debug)]
pub(crate) enum Locked {
    Newest(Version),
    /// Another transaction has deleted the row.
    Gone,
    /// Another transaction has the lock.
    Busy,
}

#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) schema: Rc<Schema>,
    tables: Vec<Vec<Row>>,
    /// The times at which transactions committed.
    committed: FxHashMap<Xid, u64>,
    active: FxHashMap<Xid, Transaction>,
    commits: u64,
    next_xid: Xid,
}

impl Storage {
    pub(crate) fn new(schema: Rc<Schema>) -> Self {
        Self {
            tables: schema.tables.iter().map(|_| Vec::new()).collect(),
            schema,
            committed: FxHashMap::default(),
            active: FxHashMap::default(),
            commits: 0,
            next_xid: 1,
        }
    }

    pub(crate) fn begin(&mut self) -> Xid {
        let xid = self.next_xid;
        self.next_xid += 1;
        let transaction = Transaction {
            locks: Vec::new(),
            changes: Vec::new(),
            statement: 0,
        };
        self.active.insert(xid, transaction);
        xid
    }

    /// Begins a statement.
    pub(crate) fn snapshot(&mut self, xid: Xid) -> Snapshot {
        let transaction = self.transaction(xid);
        transaction.statement += 1;
        let statement = transaction.statement;
        Snapshot {
            commits: self.commits,
            own: Stamp { xid, statement },
        }
    }

    fn transaction(&mut self, xid: Xid) -> &mut Transaction {
        self.active
            .get_mut(&xid)
            .expect("the transaction has begun")
    }

    /// Whether the transaction has changed anything.
    pub(crate) fn has_changed(&self, xid: Xid) -> bool {
        self.active
            .get(&xid)
            .is_some_and(|transaction| !transaction.changes.is_empty())
    }

    pub(crate) fn commit(&mut self, xid: Xid) {
        self.commits += 1;
        self.committed.insert(xid, self.commits);
        self.end(xid);
    }

    pub(crate) fn abort(&mut self, xid: Xid) {
        self.undo(xid, 0);
        self.end(xid);
    }

    fn end(&mut self, xid: Xid) {
        let Some(transaction) = self.active.remove(&xid) else {
            return;
        };
        for id in transaction.locks {
            let row = self.row(id);
            row.locked_by = 0;
            wake_first(row);
        }
    }

    /// The place at which the changes of a statement begin.
    pub(crate) fn mark(&self, xid: Xid) -> usize {
        self.active
            .get(&xid)
            .map_or(0, |transaction| transaction.changes.len())
    }

    /// Undoes the changes from there on. Row locks stay.
    pub(crate) fn undo(&mut self, xid: Xid, mark: usize) {
        let Some(transaction) = self.active.get_mut(&xid) else {
            return;
        };
        for change in transaction.changes.split_off(mark).into_iter().rev() {
            let (Change::Inserted(id) | Change::Updated(id) | Change::Deleted(id)) = change;
            let row = self.row(id);
            if !matches!(change, Change::Deleted(_)) {
                row.versions.pop();
            }
            if let Some(version) = row.versions.last_mut() {
                version.ended = Stamp::default();
            }
        }
    }

    fn row(&mut self, id: RowId) -> &mut Row {
        &mut self.tables[id.table][id.row]
    }

    fn sees(&self, snapshot: Snapshot, stamp: Stamp) -> bool {
        match stamp.xid == snapshot.own.xid {
            true => stamp.statement < snapshot.own.statement,
            false => self
                .committed
                .get(&stamp.xid)
                .is_some_and(|at| *at <= snapshot.commits),
        }
    }

    /// The rows of a table that a snapshot sees.
    pub(crate) fn visible(&self, table: usize, snapshot: Snapshot) -> Vec<(RowId, Version)> {
        let rows = self.tables[table].iter().enumerate();
        rows.filter_map(|(row, versions)| {
            let mut versions = versions.versions.iter().rev();
            let seen = versions.find(|version| self.sees(snapshot, version.inserted))?;
            (!self.sees(snapshot, seen.ended)).then(|| (RowId { table, row }, seen.clone()))
        })
        .collect()
    }

    /// Locks a row for a transaction.
    pub(crate) fn lock(&mut self, snapshot: Snapshot, id: RowId) -> Locked {
        let xid = snapshot.own.xid;
        let row = self.row(id);
        if row.locked_by != 0 && row.locked_by != xid {
            return Locked::Busy;
        }
        let Some(newest) = row.versions.last().filter(|newest| newest.ended.xid == 0) else {
            return Locked::Gone;
        };
        let newest = newest.clone();
        if row.locked_by == 0 {
            row.locked_by = xid;
            self.transaction(xid).locks.push(id);
        }
        Locked::Newest(newest)
    }

    /// Whether this statement has written the newest version of the row.
    pub(crate) fn is_own(&self, snapshot: Snapshot, version: &Version) -> bool {
        version.inserted == snapshot.own
    }

    /// Writes a new version of a row that is locked.
    pub(crate) fn update(
        &mut self,
        snapshot: Snapshot,
        id: RowId,
        values: Vec<Value>,
    ) -> Result<(), SqlError> {
        self.check(id.table, &values)?;
        let stamp = snapshot.own;
        let row = self.row(id);
        if let Some(version) = row.versions.last_mut() {
            version.ended = stamp;
        }
        row.versions.push(new_version(values, stamp));
        self.transaction(stamp.xid)
            .changes
            .push(Change::Updated(id));
        Ok(())
    }

    /// Deletes a row that is locked.
    pub(crate) fn delete(&mut self, snapshot: Snapshot, id: RowId) {
        if let Some(version) = self.row(id).versions.last_mut() {
            version.ended = snapshot.own;
        }
        self.transaction(snapshot.own.xid)
            .changes
            .push(Change::Deleted(id));
    }

    /// Inserts a row, or returns the row with the same key.
    pub(crate) fn insert(
        &mut self,
        snapshot: Snapshot,
        table: usize,
        values: Vec<Value>,
    ) -> Result<Result<RowId, RowId>, Stop> {
        self.check(table, &values)?;
        if let Some(key) = self.schema.tables[table].key
            && let Some(other) = self.with_key(snapshot, table, key, &values[key])?
        {
            return Ok(Err(other));
        }
        let stamp = snapshot.own;
        let id = RowId {
            table,
            row: self.tables[table].len(),
        };
        self.tables[table].push(Row {
            versions: vec![new_version(values, stamp)],
            locked_by: stamp.xid,
            waiting: VecDeque::new(),
        });
        let transaction = self.transaction(stamp.xid);
        transaction.changes.push(Change::Inserted(id));
        transaction.locks.push(id);
        Ok(Ok(id))
    }

    /// The row with this key. If another transaction has inserted or deleted it and not ended, the statement waits.
    fn with_key(
        &self,
        snapshot: Snapshot,
        table: usize,
        key: usize,
        value: &Value,
    ) -> Result<Option<RowId>, Stop> {
        for (number, row) in self.tables[table].iter().enumerate() {
            let Some(newest) = row
                .versions
                .last()
                .filter(|newest| newest.values[key] == *value)
            else {
                continue;
            };
            let id = RowId { table, row: number };
            let by_other = |stamp: Stamp| {
                stamp.xid != snapshot.own.xid && self.active.contains_key(&stamp.xid)
            };
            if by_other(newest.ended) || (by_other(newest.inserted) && row.versions.len() == 1) {
                return Err(Stop::Waits(id));
            }
            if newest.ended.xid == 0 {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    fn check(&self, table: usize, values: &[Value]) -> Result<(), SqlError> {
        let table = &self.schema.tables[table];
        match values.iter().position(Value::is_null) {
            None => Ok(()),
            Some(place) => {
                let (column, name) = (table.columns[place].0, table.name);
                let message = format!(
                    "null value in column \"{column}\" of relation \"{name}\" violates not-null constraint"
                );
                Err(failed("23502", &message))
            }
        }
    }

    /// The transaction that holds the lock of a row.
    pub(crate) fn holder(&self, id: RowId) -> Xid {
        self.tables[id.table][id.row].locked_by
    }

    /// Waits for the lock of a row, behind the others. `None` if it is free.
    pub(crate) fn wait(&mut self, id: RowId) -> Option<oneshot::Receiver<()>> {
        let row = self.row(id);
        (row.locked_by != 0).then(|| {
            let (sender, receiver) = oneshot::channel();
            row.waiting.push_back(sender);
            receiver
        })
    }

    /// A session that was woken, or does not wait any more, has not taken the lock: the next one may.
    pub(crate) fn pass_on(&mut self, id: RowId) {
        let row = self.row(id);
        if row.locked_by == 0 {
            wake_first(row);
        }
    }

    /// The values of a column of the committed rows of a table, in order of their insertion.
    pub(crate) fn all_committed(&mut self, table: usize) -> Vec<Rc<[Value]>> {
        let xid = self.begin();
        let snapshot = self.snapshot(xid);
        let rows = self.visible(table, snapshot).into_iter();
        let rows = rows.map(|(_, version)| version.values).collect();
        self.abort(xid);
        rows
    }
}

fn new_version(values: Vec<Value>, inserted: Stamp) -> Version {
    Version {
        values: values.into(),
        inserted,
        ended: Stamp::default(),
    }
}

/// Wakes the first session that still waits.
fn wake_first(row: &mut Row) {
    while let Some(next) = row.waiting.pop_front() {
        if next.send(()).is_ok() {
            return;
        }
    }
}
