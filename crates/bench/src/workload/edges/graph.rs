//! Random edges and writes. Ids follow a power law: one of them is a celebrity.

use super::verifier::{Edge, SET, UNSET, Write};
use crate::power_law::PowerLaw;
use rand::RngExt;
use rand::rngs::StdRng;
use std::sync::atomic::{AtomicI64, Ordering};

/// Number of ids.
pub(super) const IDS: i64 = 100_000;
/// Number of targets; small enough that edges are written repeatedly.
const TARGETS: i64 = 10_000;
/// Exponent of the power law; about every fifth write is to the celebrity.
const EXPONENT: f64 = 1.2;
/// Maximum number of writes by which a write is late, as if from another server with another clock.
const LATE_MAX: i64 = 1_000;
/// Low bits of a time that make it unique.
const TICK_BITS: u32 = 32;

/// Draws edges and writes, also for [failovers](crate::workload::failover). All clients of a run share it.
#[derive(Debug)]
pub(in crate::workload) struct Graph {
    ids: PowerLaw,
    /// Number of writes.
    tick: AtomicI64,
}

impl Graph {
    pub(in crate::workload) fn new() -> Self {
        Self {
            ids: PowerLaw::new(IDS.unsigned_abs(), EXPONENT),
            tick: AtomicI64::new(LATE_MAX),
        }
    }

    /// Draws an id; the celebrity is the most frequent.
    pub(in crate::workload) fn id(&self, rng: &mut StdRng) -> i64 {
        self.ids.draw(rng)
    }

    /// Draws a target.
    pub(in crate::workload) fn target(&self, rng: &mut StdRng) -> i64 {
        rng.random_range(1..=TARGETS)
    }

    /// Draws a write. Three of four set an edge. Times are unique and increase, but not from each write to the next.
    pub(super) fn write(&self, rng: &mut StdRng) -> (Edge, Write) {
        let tick = self.tick.fetch_add(1, Ordering::Relaxed);
        let moment = tick - rng.random_range(0..=LATE_MAX);
        let own = tick & ((1 << TICK_BITS) - 1);
        let write = Write {
            unixnano: (moment << TICK_BITS) | own,
            status: if rng.random_ratio(3, 4) { SET } else { UNSET },
        };
        ((self.id(rng), self.target(rng)), write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use std::collections::HashSet;

    fn drawn() -> Vec<(Edge, Write)> {
        let (graph, mut rng) = (Graph::new(), StdRng::seed_from_u64(7));
        (0..50_000).map(|_| graph.write(&mut rng)).collect()
    }

    #[test]
    fn times_of_writes_are_unique_and_some_are_late() {
        let drawn = drawn();
        let times: Vec<i64> = drawn.iter().map(|(_, write)| write.unixnano).collect();
        assert_eq!(times.iter().collect::<HashSet<_>>().len(), times.len());
        let late = times.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert!((20_000..30_000).contains(&late), "{late} came late");
    }

    #[test]
    fn one_id_is_hot_and_the_others_are_not() {
        let drawn = drawn();
        let of = |id| drawn.iter().filter(|((of, _), _)| *of == id).count();
        assert!(
            (9_000..11_000).contains(&of(1)),
            "the celebrity has {}",
            of(1)
        );
        let ids: HashSet<i64> = drawn.iter().map(|((id, _), _)| *id).collect();
        assert!(ids.len() > 5_000, "only {} ids", ids.len());
        assert!(ids.iter().all(|id| (1..=IDS).contains(id)));
        let set = drawn.iter().filter(|(_, write)| write.is_set());
        assert!((36_500..38_500).contains(&set.count()));
    }
}
