//! The search for the limit with the greatest power: successive halving (Z. Karnin, T. Koren, O. Somekh, "Almost optimal
//! exploration in multi-armed bandits", 2013). In each round every limit that remains is tried once; those that are clearly worse
//! than the best are dropped, and the longer a limit remains, the less it may be worse.

use super::epoch::Measurement;

/// After each round, limits with less than this share of the best power are dropped.
const KEPT: [f64; 4] = [0.5, 0.72, 0.85, 1.0];

/// A limit, and its power.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    limit: usize,
    power: f64,
}

/// A search under way.
#[derive(Debug)]
pub(super) struct Search {
    candidates: Vec<Candidate>,
    /// The candidate that is being tried.
    place: usize,
    round: u32,
    best: f64,
}

/// The next step of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchStep {
    /// Tries this limit.
    Try(usize),
    /// This limit is the best.
    Found(usize),
}

impl Search {
    /// Tries 1, 2, 4, … and `connections_max`.
    pub(super) fn new(connections_max: usize) -> Self {
        let double =
            |limit: &usize| (*limit < connections_max).then(|| (limit * 2).min(connections_max));
        let limits = std::iter::successors(Some(1), double);
        Self {
            candidates: limits
                .map(|limit| Candidate { limit, power: 0.0 })
                .collect(),
            place: 0,
            round: 0,
            best: 0.0,
        }
    }

    /// The limit that is being tried.
    pub(super) fn trying(&self) -> usize {
        self.candidates
            .get(self.place)
            .map_or(1, |candidate| candidate.limit)
    }

    /// Completed rounds.
    pub(super) fn round(&self) -> u32 {
        self.round
    }

    /// The greatest mean power up to now.
    pub(super) fn best(&self) -> f64 {
        self.best
    }

    /// The limit that is being tried has given this.
    pub(super) fn measured(&mut self, measured: &Measurement) -> SearchStep {
        let rounds = f64::from(self.round + 1);
        if let Some(candidate) = self.candidates.get_mut(self.place) {
            candidate.power += (measured.power - candidate.power) / rounds;
            self.best = self.best.max(candidate.power);
            // A limit that is never reached is as good as a higher one.
            if self.round == 0 && measured.in_flight < candidate.limit {
                self.candidates.truncate(self.place + 1);
            }
        }
        self.place += 1;
        if self.place < self.candidates.len() {
            return SearchStep::Try(self.trying());
        }
        self.end_round()
    }

    fn end_round(&mut self) -> SearchStep {
        let powers = self.candidates.iter().map(|candidate| candidate.power);
        self.best = powers.fold(0.0, f64::max);
        let kept = KEPT.get(self.round as usize).copied().unwrap_or(1.0);
        let least = kept * self.best;
        self.candidates.retain(|candidate| candidate.power >= least);
        self.place = 0;
        self.round += 1;
        match self.candidates.len() > 1 && (self.round as usize) < KEPT.len() {
            true => SearchStep::Try(self.trying()),
            false => SearchStep::Found(self.trying()),
        }
    }
}
