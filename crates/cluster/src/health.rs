//! Whether a host is in use: a bad probe removes the host at once, and a series of good ones returns it.

use std::time::{Duration, Instant};

/// Successful probes in a row that return a removed host.
pub const PROBES_TO_RETURN: u32 = 3;
/// Time between the first and the last of them, at least.
pub const TIME_TO_RETURN: Duration = Duration::from_secs(5);

/// Whether a host is in use, and if not, the event that is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// The first probe.
    Unprobed,
    /// Nothing: the host is in use.
    InUse,
    /// A good probe.
    Removed,
    /// Further good probes.
    Returning {
        /// The first good probe.
        since: Instant,
        /// Good probes so far.
        probes: u32,
    },
}

impl Health {
    /// Takes a good probe, and returns whether it put the host into use.
    pub(crate) fn good(&mut self, now: Instant) -> bool {
        *self = match *self {
            Self::InUse => return false,
            Self::Unprobed => Self::InUse,
            Self::Removed => Self::Returning {
                since: now,
                probes: 1,
            },
            Self::Returning { since, probes } => {
                let probes = probes.saturating_add(1);
                let lasted = now.saturating_duration_since(since) >= TIME_TO_RETURN;
                match probes >= PROBES_TO_RETURN && lasted {
                    true => Self::InUse,
                    false => Self::Returning { since, probes },
                }
            }
        };
        *self == Self::InUse
    }

    /// Takes a bad probe, and returns whether the host was in use.
    pub(crate) fn bad(&mut self) -> bool {
        let was_in_use = *self == Self::InUse;
        *self = Self::Removed;
        was_in_use
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_good_probe_suffices() {
        let mut health = Health::Unprobed;
        assert!(health.good(Instant::now()));
        assert!(health.bad() && !health.bad());
    }

    #[test]
    fn a_removed_host_returns_after_three_probes_over_five_seconds() {
        let start = Instant::now();
        let returns = |seconds: &[u64]| {
            let mut health = Health::Removed;
            let times = seconds
                .iter()
                .map(|second| start + Duration::from_secs(*second));
            times.map(|now| health.good(now)).collect::<Vec<_>>()
        };
        assert_eq!(
            returns(&[0, 1, 2, 4, 5, 6]),
            [false, false, false, false, true, false]
        );
        assert_eq!(returns(&[0, 9, 10]), [false, false, true]);
    }

    #[test]
    fn a_bad_probe_begins_the_series_again() {
        let start = Instant::now();
        let mut health = Health::Removed;
        health.good(start);
        health.good(start + TIME_TO_RETURN);
        health.bad();
        assert!(!health.good(start + TIME_TO_RETURN * 2));
    }
}
