//! Ranks drawn by a power law (Zipf): rank 1 most often, rank `k` as `k^-exponent`.

use rand::rngs::StdRng;
use rand_distr::{Distribution, Zipf};

/// A power law over the ranks from 1 to a last one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PowerLaw(Zipf<f64>);

impl PowerLaw {
    /// `None` without ranks, or for an exponent that is negative or no number.
    pub(crate) fn new(ranks: u64, exponent: f64) -> Option<Self> {
        Zipf::new(ranks as f64, exponent).ok().map(Self)
    }

    /// A rank, from 1.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the distribution draws whole numbers between 1 and the last rank"
    )]
    pub(crate) fn draw(&self, rng: &mut StdRng) -> i64 {
        self.0.sample(rng) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn low_ranks_come_most_often() {
        let law = PowerLaw::new(100, 1.5).unwrap();
        let mut rng = StdRng::seed_from_u64(7);
        let mut counts = [0_u32; 101];
        for _ in 0..20_000 {
            counts[usize::try_from(law.draw(&mut rng)).unwrap()] += 1;
        }
        // 1 / (sum of k^-1.5 up to 100) is 0.415; rank 4 comes an eighth as often.
        assert_eq!(counts[0], 0);
        assert!((7_800..8_800).contains(&counts[1]), "{}", counts[1]);
        assert!((900..1_200).contains(&counts[4]), "{}", counts[4]);
        assert!(PowerLaw::new(0, 1.5).is_none());
    }
}
