//! Maps figures to positions on an axis: linear from zero if they are of similar size, logarithmic otherwise.

/// Ratio of maximum to minimum from which an axis is logarithmic.
const LOG_RATIO: f64 = 20.0;
/// Approximate number of ticks on an axis.
const TICKS: f64 = 4.0;
/// If an axis covers more decades, only every second decade has a tick.
const DECADES_MAX: f64 = 5.0;

/// An axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Scale {
    /// An axis that covers all `values`; `None` if there are none.
    pub(super) fn of(values: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        let high = values.clone().reduce(f64::max)?;
        let low = values.reduce(f64::min)?;
        let is_log = low > 0.0 && high / low >= LOG_RATIO;
        Some(if is_log {
            Self {
                low: round_down(low),
                high: round_up(high),
                is_log,
            }
        } else {
            Self::linear(high)
        })
    }

    /// An axis from the smallest to the largest of `values`, without rounding: numbers of clients.
    pub(super) fn through(values: &[f64]) -> Option<Self> {
        let high = values.iter().copied().reduce(f64::max)?;
        let low = values.iter().copied().reduce(f64::min)?;
        Some(Self {
            low,
            high,
            // Equal distances mean equal ratios.
            is_log: low > 0.0,
        })
    }

    /// An axis from zero to exactly `high`: a time.
    pub(super) fn until(high: f64) -> Self {
        Self {
            low: 0.0,
            high,
            is_log: false,
        }
    }

    fn linear(high: f64) -> Self {
        let step = step(high);
        Self::until((high / step).ceil().max(1.0) * step)
    }

    /// The position of `value`: 0 at the low end, 1 at the high end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let (low, high, value) = if self.is_log {
            (self.low.ln(), self.high.ln(), value.max(self.low).ln())
        } else {
            (self.low, self.high, value)
        };
        if high > low {
            ((value - low) / (high - low)).clamp(0.0, 1.0)
        } else {
            // A single value is in the middle.
            0.5
        }
    }

    /// Whether the axis is logarithmic.
    pub(super) fn is_log(&self) -> bool {
        self.is_log
    }

    /// Round values for the labels of the axis.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            self.log_ticks()
        } else {
            self.linear_ticks()
        }
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let step = step(self.high);
        let ticks = (0..).map(|count| f64::from(count) * step);
        // The tolerance keeps the last tick despite rounding errors.
        ticks
            .take_while(|tick| *tick <= self.high * 1.001)
            .collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let exponent = |value: f64| value.log10().floor();
        let (first, last) = (exponent(self.low), exponent(self.high));
        let (mantissas, every): (&[f64], _) = match last - first {
            decades if decades < 2.0 => (&[1.0, 2.0, 5.0], 1.0),
            decades if decades > DECADES_MAX => (&[1.0], 2.0),
            _ => (&[1.0], 1.0),
        };
        let decades = (0..).map(|count| first + f64::from(count) * every);
        let decades = decades.take_while(|exponent| *exponent <= last);
        decades
            .flat_map(|exponent| mantissas.iter().map(move |m| m * 10_f64.powf(exponent)))
            .filter(|tick| (self.low * 0.999..=self.high * 1.001).contains(tick))
            .collect()
    }
}

/// The steps within a decade.
const STEPS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];

/// The power of ten of the first digit.
fn decade(value: f64) -> f64 {
    10_f64.powf(value.log10().floor())
}

/// The largest 1, 2 or 5 times a power of ten that is not larger than `value`.
fn round_down(value: f64) -> f64 {
    let decade = decade(value);
    let mut steps = STEPS.into_iter().rev();
    steps.find(|step| *step <= value / decade).unwrap_or(1.0) * decade
}

/// The smallest 1, 2 or 5 times a power of ten that is not smaller than `value`.
fn round_up(value: f64) -> f64 {
    let decade = decade(value);
    let mut steps = STEPS.into_iter();
    steps.find(|step| *step >= value / decade).unwrap_or(10.0) * decade
}

/// A round distance, so that about [`TICKS`] of them reach `high`.
fn step(high: f64) -> f64 {
    let high = if high > 0.0 { high } else { 1.0 };
    // The tolerance keeps a round value despite rounding errors.
    round_up(high / TICKS * 0.999)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Scale {
        Scale::of(values.iter().copied()).unwrap()
    }

    #[test]
    fn similar_figures_start_at_zero() {
        let scale = of(&[700.0, 1_030.0]);
        assert!(!scale.is_log());
        assert_eq!(scale.ticks(), [0.0, 500.0, 1_000.0, 1_500.0]);
        assert_eq!((scale.place(0.0), scale.place(1_500.0)), (0.0, 1.0));
        assert_eq!(of(&[0.0]).place(0.0), 0.0);
        assert_eq!(of(&[0.3]).ticks().len(), 4);
    }

    #[test]
    fn figures_of_different_size_use_a_logarithmic_scale() {
        let scale = of(&[673.0, 51_642.0]);
        assert!(scale.is_log());
        assert_eq!(scale.ticks(), [1_000.0, 10_000.0, 100_000.0]);
        let place = |value| scale.place(value);
        let first = place(10_000.0) - place(1_000.0);
        let second = place(100_000.0) - place(10_000.0);
        assert!((first - second).abs() < 1e-9);
        assert!(place(673.0) > 0.0 && place(51_642.0) < 1.0);
        assert_eq!(of(&[90.0, 1_900.0]).ticks(), [100.0, 1_000.0]);
        assert_eq!(
            of(&[110.0, 2_400.0]).ticks(),
            [100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0]
        );
        assert_eq!(of(&[1.0, 1e9]).ticks().len(), 5);
    }

    #[test]
    fn zero_is_not_on_a_logarithmic_scale() {
        assert!(!of(&[0.0, 1e6]).is_log());
        assert_eq!(Scale::of(std::iter::empty()), None);
    }

    #[test]
    fn a_single_number_of_clients_is_in_the_middle() {
        let scale = Scale::through(&[256.0]).unwrap();
        assert_eq!(scale.place(256.0), 0.5);
    }
}
