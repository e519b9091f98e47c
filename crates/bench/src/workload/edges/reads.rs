//! The reads of users: the newest edges of an id, membership, and the degree. Verifies that no answer belongs to another
//! client.

use super::graph::Graph;
use crate::connection::{Connection, Result};
use crate::statement::{Protocol, Statement, Value};
use crate::workload::values::{array, row};
use rand::RngExt;
use rand::rngs::StdRng;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: &str = "SELECT id, unixnano FROM paceline_lab.edge \
     WHERE id = $1 AND status = 0 ORDER BY unixnano DESC LIMIT 20";
const MEMBERS: &str = "SELECT id, target FROM paceline_lab.edge \
     WHERE id = $1 AND target = ANY($2) AND status = 0";
const DEGREE: &str = "SELECT id, degree FROM paceline_lab.degree WHERE id = $1";
/// Number of targets per test of membership.
const ASKED: usize = 10;

/// The three reads, and the number of wrong answers.
#[derive(Debug)]
pub(super) struct Reads {
    page: Statement,
    members: Statement,
    degree: Statement,
    wrong: AtomicU64,
}

impl Reads {
    /// Number 0 is the statement of the write.
    pub(super) fn new(protocol: Protocol) -> Self {
        Self {
            page: Statement::new(1, PAGE, protocol),
            members: Statement::new(2, MEMBERS, protocol),
            degree: Statement::new(3, DEGREE, protocol),
            wrong: AtomicU64::new(0),
        }
    }

    /// Number of wrong answers: a row of another id, or a page that is not sorted.
    pub(super) fn wrong(&self) -> u64 {
        self.wrong.load(Ordering::Relaxed)
    }

    /// Executes one of the three reads of a random id. Every row must have this id, and a page must be sorted.
    pub(super) async fn run(
        &self,
        conn: &mut Connection,
        graph: &Graph,
        rng: &mut StdRng,
    ) -> Result<()> {
        let id = graph.id(rng);
        let (statement, targets) = match rng.random_range(0..3) {
            0 => (&self.page, None),
            1 => (
                &self.members,
                Some(array((0..ASKED).map(|_| graph.target(rng)))),
            ),
            _ => (&self.degree, None),
        };
        let targets = targets.as_deref().map(Value::Text);
        let values: Vec<Value<'_>> = [Value::Int(id)].into_iter().chain(targets).collect();
        let is_page = statement.number == self.page.number;
        let (mut right, mut before) = (true, i64::MAX);
        let look = |body: &[u8]| match row(body) {
            Some([of, value]) => {
                right &= of == id && (!is_page || value < before);
                before = value;
            }
            None => right = false,
        };
        conn.run(statement, &values, look).await?;
        self.wrong.fetch_add(u64::from(!right), Ordering::Relaxed);
        Ok(())
    }
}
