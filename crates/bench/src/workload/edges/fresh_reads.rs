//! The reads of the variant `planes`: the newest edges of an id, and the edges that the client has written. Each row is compared
//! with what the client knows of it.

use super::graph::Graph;
use super::verifier::Edge;
use crate::connection::{Connection, Result};
use crate::statement::{Protocol, Statement, Value};
use crate::workload::known::{CheckedReads, Known};
use crate::workload::values::{array, row};
use rand::RngExt;
use rand::rngs::StdRng;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: &str = "SELECT id, target, unixnano FROM paceline_lab.edge \
     WHERE id = $1 AND status = 0 ORDER BY unixnano DESC LIMIT 20";
const EDGES: &str = "SELECT id, target, unixnano FROM paceline_lab.edge \
     WHERE id = $1 AND target = ANY($2)";
/// Number of targets per read of edges.
const ASKED: usize = 10;

/// The edges that a client knows. The newest write to an edge applies, so the time of an edge only grows.
#[derive(Debug, Default)]
pub(super) struct ClientEdges {
    known: Known<Edge, i64>,
    last_written: Option<Edge>,
}

impl ClientEdges {
    /// Records an acknowledged write.
    pub(super) fn written(&mut self, edge: Edge, unixnano: i64) {
        self.known.learn(edge, unixnano);
        self.last_written = Some(edge);
    }

    /// Compares an answer about the edges `asked` by name with what the client knows. Returns whether it is stale.
    fn is_stale(&mut self, asked: &[Edge], found: &[(Edge, i64)]) -> bool {
        let is_missing = |edge: &&Edge| !found.iter().any(|(of, _)| of == *edge);
        let missing = asked.iter().filter(is_missing).map(|edge| (*edge, None));
        let found = found
            .iter()
            .map(|(edge, unixnano)| (*edge, Some(*unixnano)));
        let compared = found.chain(missing);
        compared.fold(false, |is_stale, (edge, unixnano)| {
            self.known.is_stale(edge, unixnano) || is_stale
        })
    }
}

/// The two reads, and the numbers of answers.
#[derive(Debug)]
pub(super) struct FreshReads {
    page: Statement,
    edges: Statement,
    wrong: AtomicU64,
    pub(super) checked: CheckedReads,
}

impl FreshReads {
    /// Number 0 is the statement of the write.
    pub(super) fn new(protocol: Protocol) -> Self {
        Self {
            page: Statement::new(1, PAGE, protocol),
            edges: Statement::new(2, EDGES, protocol),
            wrong: AtomicU64::new(0),
            checked: CheckedReads::default(),
        }
    }

    /// Number of wrong answers: a row of another id, or a page that is not sorted.
    pub(super) fn wrong(&self) -> u64 {
        self.wrong.load(Ordering::Relaxed)
    }

    /// Reads the newest edges of a random id, or some edges of the id that the client has written last, that one included.
    pub(super) async fn run(
        &self,
        conn: &mut Connection,
        graph: &Graph,
        client: &mut ClientEdges,
        rng: &mut StdRng,
    ) -> Result<()> {
        let is_page = rng.random();
        let asked: Vec<Edge> = match (is_page, client.last_written) {
            (true, _) => Vec::new(),
            (false, last) => {
                let first = last.unwrap_or_else(|| (graph.id(rng), graph.target(rng)));
                let others = (1..ASKED).map(|_| (first.0, graph.target(rng)));
                std::iter::once(first).chain(others).collect()
            }
        };
        let id = asked.first().map_or_else(|| graph.id(rng), |edge| edge.0);
        let targets = array(asked.iter().map(|edge| edge.1));
        let (statement, values) = match is_page {
            true => (&self.page, vec![Value::Int(id)]),
            false => (&self.edges, vec![Value::Int(id), Value::Text(&targets)]),
        };
        let (mut right, mut before, mut found) = (true, i64::MAX, Vec::new());
        let look = |body: &[u8]| match row(body) {
            Some([of, target, unixnano]) => {
                right &= of == id && (!is_page || unixnano < before);
                before = unixnano;
                found.push(((of, target), unixnano));
            }
            None => right = false,
        };
        conn.run(statement, &values, look).await?;
        self.wrong.fetch_add(u64::from(!right), Ordering::Relaxed);
        self.checked.count(client.is_stale(&asked, &found));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGE: Edge = (1, 7);
    const OTHER: Edge = (1, 8);

    #[test]
    fn an_edge_that_was_asked_for_must_be_there_as_the_client_knows_it() {
        for (asked, found, is_stale) in [
            (vec![EDGE], vec![(EDGE, 5)], false),
            (vec![EDGE, OTHER], vec![(EDGE, 6)], false),
            (vec![EDGE, OTHER], vec![(OTHER, 6), (EDGE, 4)], true),
            (vec![EDGE, OTHER], vec![(OTHER, 6)], true),
            // A page may leave it out: another client may have unset it.
            (vec![], vec![(OTHER, 6)], false),
            (vec![], vec![(EDGE, 4)], true),
        ] {
            let mut client = ClientEdges::default();
            client.written(EDGE, 5);
            assert_eq!(
                client.is_stale(&asked, &found),
                is_stale,
                "{asked:?} {found:?}"
            );
        }
    }

    #[test]
    fn a_client_knows_all_rows_of_an_answer() {
        let mut client = ClientEdges::default();
        assert!(!client.is_stale(&[], &[(EDGE, 4), (OTHER, 5)]));
        // The first row is stale, and the second one still counts.
        assert!(client.is_stale(&[], &[(EDGE, 3), (OTHER, 9)]));
        assert!(client.is_stale(&[OTHER], &[(OTHER, 8)]));
    }
}
