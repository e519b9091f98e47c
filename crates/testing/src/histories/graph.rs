//! A graph of moments, and its shortest cycles.

use super::anomaly::{Anomaly, Name};
use super::history::Tick;
use super::versions::Place;
use petgraph::Direction::Outgoing;
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use std::collections::{HashMap, HashSet, VecDeque};

/// Something that happens at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Moment {
    /// The clock of the test.
    Tick(Tick),
    /// A statement, by its number, takes its snapshot or locks its row.
    Statement(Place, usize),
    Commit(Place),
}

/// The reason why one moment is before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edge {
    /// By the program of one client, or by the clock of the test.
    Time,
    /// The second overwrites what the first has written.
    WriteWrite,
    /// The second reads what the first has written.
    WriteRead,
    /// The second overwrites what the first has read.
    ReadWrite,
}

impl Moment {
    fn transaction(self) -> Option<Place> {
        match self {
            Self::Tick(_) => None,
            Self::Statement(place, _) | Self::Commit(place) => Some(place),
        }
    }
}

#[derive(Default)]
pub(super) struct Graph {
    graph: DiGraph<Moment, Edge>,
    nodes: HashMap<Moment, NodeIndex>,
}

impl Graph {
    pub(super) fn add(&mut self, from: Moment, to: Moment, edge: Edge) {
        let [from, to] = [from, to].map(|moment| {
            let add = || self.graph.add_node(moment);
            *self.nodes.entry(moment).or_insert_with(add)
        });
        self.graph.add_edge(from, to, edge);
    }

    /// The shortest cycle of each part of the graph that has one.
    pub(super) fn cycles(&self) -> Vec<Anomaly> {
        // Tarjan's algorithm in petgraph recurses: long chains of moments overflow the stack.
        let parts = kosaraju_scc(&self.graph);
        let circular = parts.into_iter().filter(|part| part.len() > 1);
        circular.filter_map(|part| self.shortest(&part)).collect()
    }

    fn shortest(&self, part: &[NodeIndex]) -> Option<Anomaly> {
        /// Nodes from which the way around is looked for; more only take time.
        const TRIED: usize = 20;
        let within: HashSet<_> = part.iter().copied().collect();
        let around = |node: &NodeIndex| self.way_around(*node, &within);
        let spread = part.iter().step_by(part.len().div_ceil(TRIED));
        let cycles = spread.filter_map(around);
        let cycle = cycles.min_by_key(Vec::len)?;
        let edges: Vec<_> = cycle.iter().map(|(_, edge)| *edge).collect();
        let moments = cycle.iter().map(|(node, _)| self.graph[*node]);
        let steps = moments.clone().zip(&edges);
        let steps: Vec<_> = steps
            .map(|(moment, edge)| format!("{moment:?} -{edge:?}->"))
            .collect();
        Some(Anomaly {
            name: name(&edges),
            transactions: moments.filter_map(Moment::transaction).collect(),
            description: steps.join(" "),
        })
    }

    /// The shortest way from a node back to it: each node with the edge that leaves it.
    fn way_around(
        &self,
        start: NodeIndex,
        within: &HashSet<NodeIndex>,
    ) -> Option<Vec<(NodeIndex, Edge)>> {
        let mut came_from = HashMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for edge in self.graph.edges_directed(node, Outgoing) {
                let next = edge.target();
                if within.contains(&next) && !came_from.contains_key(&next) {
                    came_from.insert(next, (node, *edge.weight()));
                    queue.push_back(next);
                }
            }
            if came_from.contains_key(&start) {
                break;
            }
        }
        let mut step = *came_from.get(&start)?;
        let mut cycle = vec![step];
        while step.0 != start {
            step = came_from[&step.0];
            cycle.push(step);
        }
        cycle.reverse();
        Some(cycle)
    }
}

fn name(cycle: &[Edge]) -> Name {
    let count = |kind| cycle.iter().filter(|edge| **edge == kind).count();
    match (count(Edge::ReadWrite), count(Edge::WriteRead)) {
        (0, 0) => Name::G0,
        (0, _) => Name::G1c,
        (1, _) => Name::GSingle,
        _ => Name::G2Item,
    }
}
