//! The write before it was an upsert: a transaction that reads the edge, writes it, counts it and reads it again. Every
//! statement is a round trip, and the row with the celebrity's degree remains locked until the commit.

use super::verifier::{Edge, Write};
use crate::connection::{Connection, Failure};
use crate::statement::{Protocol, Statement, Value};
use crate::workload::values::row;

const LOOK: &str =
    "SELECT unixnano, status FROM paceline_lab.edge WHERE id = $1 AND target = $2 FOR UPDATE";
const INSERT: &str =
    "INSERT INTO paceline_lab.edge (id, target, unixnano, status) VALUES ($1, $2, $3, $4)";
/// For a write that does not change the status.
const TOUCH: &str = "UPDATE paceline_lab.edge SET unixnano = $3 WHERE id = $1 AND target = $2";
/// For a write that changes the status.
const CHANGE: &str = "UPDATE paceline_lab.edge SET unixnano = $3, status = $4 \
     WHERE id = $1 AND target = $2";
const COUNT: &str = "INSERT INTO paceline_lab.degree (id, degree) VALUES ($1, $2) \
     ON CONFLICT (id) DO UPDATE SET degree = degree.degree + $2";
const LOOK_AGAIN: &str =
    "SELECT unixnano, status FROM paceline_lab.edge WHERE id = $1 AND target = $2";

/// The statements of the transaction.
#[derive(Debug)]
pub(super) struct FiveStatements {
    look: Statement,
    insert: Statement,
    touch: Statement,
    change: Statement,
    count: Statement,
    look_again: Statement,
}

impl FiveStatements {
    pub(super) fn new(protocol: Protocol) -> Self {
        let statement = |number, sql| Statement::new(number, sql, protocol);
        Self {
            look: statement(0, LOOK),
            insert: statement(1, INSERT),
            touch: statement(2, TOUCH),
            change: statement(3, CHANGE),
            count: statement(4, COUNT),
            look_again: statement(5, LOOK_AGAIN),
        }
    }

    /// Writes one end of an edge. If two clients insert the same edge at the same time, one gets an error (23505), as in
    /// the source.
    pub(super) async fn run(
        &self,
        conn: &mut Connection,
        edge: Edge,
        write: Write,
    ) -> Result<(), Failure> {
        let key = [Value::Int(edge.0), Value::Int(edge.1)];
        conn.query("BEGIN").await?;
        let mut before = None;
        let found =
            |body: &[u8]| before = row(body).map(|[unixnano, status]| Write { unixnano, status });
        conn.run(&self.look, &key, found).await?;
        self.write_edge(conn, key, write, before).await?;
        let more = more_set(before, write);
        if more != 0 {
            let values = [Value::Int(edge.0), Value::Int(more)];
            conn.run(&self.count, &values, |_| ()).await?;
        }
        conn.run(&self.look_again, &key, |_| ()).await?;
        conn.query("COMMIT").await.map(drop)
    }

    async fn write_edge(
        &self,
        conn: &mut Connection,
        [id, target]: [Value<'_>; 2],
        write: Write,
        before: Option<Write>,
    ) -> Result<(), Failure> {
        let [unixnano, status] = [write.unixnano, write.status].map(Value::Int);
        let (statement, values): (_, &[Value<'_>]) = match before {
            None => (&self.insert, &[id, target, unixnano, status]),
            Some(before) if before > write => return Ok(()),
            Some(before) if before.status == write.status => (&self.touch, &[id, target, unixnano]),
            Some(_) => (&self.change, &[id, target, unixnano, status]),
        };
        conn.run(statement, values, |_| ()).await.map(drop)
    }
}

/// The change of the number of set edges by a write; 0 if a newer write exists.
fn more_set(before: Option<Write>, write: Write) -> i64 {
    match before {
        Some(before) if before > write => 0,
        before => i64::from(write.is_set()) - i64::from(before.is_some_and(Write::is_set)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::verifier::{SET, UNSET};
    use super::*;

    #[test]
    fn a_degree_changes_as_the_edge_does() {
        let at = |unixnano, status| Write { unixnano, status };
        let cases = [
            (None, at(1, SET), 1),
            (None, at(1, UNSET), 0),
            (Some(at(1, SET)), at(2, SET), 0),
            (Some(at(1, SET)), at(2, UNSET), -1),
            (Some(at(1, UNSET)), at(2, SET), 1),
            (Some(at(3, SET)), at(2, UNSET), 0),
            (Some(at(3, UNSET)), at(2, SET), 0),
        ];
        for (before, write, more) in cases {
            assert_eq!(more_set(before, write), more, "{before:?}, then {write:?}");
        }
    }
}
