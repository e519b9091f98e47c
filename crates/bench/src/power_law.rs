//! Random ranks that follow a power law (Zipf): the probability of rank `k` is proportional to `k^-exponent`.

use rand::rngs::StdRng;
use rand_distr::{Distribution, Zipf};

/// A power law over the ranks from 1 to a maximum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PowerLaw(Option<Zipf<f64>>);

impl PowerLaw {
    /// Without ranks, or if the exponent is negative or not a number, only rank 1 is drawn.
    pub(crate) fn new(ranks: u64, exponent: f64) -> Self {
        Self(Zipf::new(ranks as f64, exponent).ok())
    }

    /// Draws a rank, counted from 1.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the distribution draws whole numbers between 1 and the last rank"
    )]
    pub(crate) fn draw(&self, rng: &mut StdRng) -> i64 {
        self.0.map_or(1, |law| law.sample(rng) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn low_ranks_are_most_frequent() {
        let law = PowerLaw::new(100, 1.5);
        let mut rng = StdRng::seed_from_u64(7);
        let mut counts = [0_u32; 101];
        for _ in 0..20_000 {
            counts[usize::try_from(law.draw(&mut rng)).unwrap()] += 1;
        }
        // 1 / (sum of k^-1.5 up to 100) is 0.415; rank 4 is an eighth as frequent.
        assert_eq!(counts[0], 0);
        assert!((7_800..8_800).contains(&counts[1]), "{}", counts[1]);
        assert!((900..1_200).contains(&counts[4]), "{}", counts[4]);
        assert_eq!(PowerLaw::new(0, 1.5).draw(&mut rng), 1);
    }
}
