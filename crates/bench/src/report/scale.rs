//! From figures to places on an axis: from zero where they are near one another, by powers of ten where they lie far apart.

/// From here on the smallest could not be told from zero on a linear axis.
const FAR_APART: f64 = 20.0;
/// About so many ticks stand on an axis.
const TICKS: f64 = 4.0;
/// More decades than this, and only every other has a tick.
const DECADES_MAX: i32 = 5;

/// An axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Scale {
    /// On which all of `values` have a place; `None` without any value.
    pub(super) fn of(values: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        let high = values.clone().reduce(f64::max)?;
        let low = values.reduce(f64::min)?;
        Some(match low > 0.0 && high / low >= FAR_APART {
            true => Self::log(low, high),
            false => Self::linear(high),
        })
    }

    /// Ends at the values themselves, which have the ticks: numbers of clients.
    pub(super) fn through(values: &[f64]) -> Option<Self> {
        let high = values.iter().copied().reduce(f64::max)?;
        let low = values.iter().copied().reduce(f64::min)?;
        Some(Self {
            low,
            high,
            // Twice as many is as far everywhere.
            is_log: low > 0.0,
        })
    }

    /// From zero to `high` exactly: a time.
    pub(super) fn until(high: f64) -> Self {
        Self {
            low: 0.0,
            high,
            is_log: false,
        }
    }

    fn linear(high: f64) -> Self {
        let step = step(high);
        Self {
            low: 0.0,
            high: (high / step).ceil().max(1.0) * step,
            is_log: false,
        }
    }

    fn log(low: f64, high: f64) -> Self {
        let round = |value: f64, pick: fn(&[f64; 4], f64) -> f64| {
            let decade = 10_f64.powf(value.log10().floor());
            pick(&[1.0, 2.0, 5.0, 10.0], value / decade) * decade
        };
        let below = |steps: &[f64; 4], value| {
            let mut below = steps.iter().copied().rev();
            below.find(|step| *step <= value).unwrap_or(1.0)
        };
        let above = |steps: &[f64; 4], value| {
            let mut steps = steps.iter().copied();
            steps.find(|step| *step >= value).unwrap_or(10.0)
        };
        Self {
            low: round(low, below),
            high: round(high, above),
            is_log: true,
        }
    }

    /// Where `value` is: 0 at the low end, 1 at the high one.
    pub(super) fn place(&self, value: f64) -> f64 {
        let (low, high, value) = match self.is_log {
            true => (self.low.ln(), self.high.ln(), value.max(self.low).ln()),
            false => (self.low, self.high, value),
        };
        match high > low {
            true => ((value - low) / (high - low)).clamp(0.0, 1.0),
            // A single value stands in the middle.
            false => 0.5,
        }
    }

    /// Whether equal distances are equal ratios.
    pub(super) fn is_log(&self) -> bool {
        self.is_log
    }

    /// Round values to be written at the axis.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.is_log {
            true => self.log_ticks(),
            false => self.linear_ticks(),
        }
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let step = step(self.high);
        let ticks = (0..).map(|count| f64::from(count) * step);
        // What sums of fractions add must not take the last one away.
        ticks
            .take_while(|tick| *tick <= self.high * 1.001)
            .collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let decade = |value: f64| value.log10().floor();
        let decades = decade(self.high) - decade(self.low);
        let mantissas: &[f64] = match decades < 2.0 {
            true => &[1.0, 2.0, 5.0],
            false => &[1.0],
        };
        let every = if decades > f64::from(DECADES_MAX) {
            2.0
        } else {
            1.0
        };
        let mut ticks = Vec::new();
        let mut exponent = decade(self.low);
        while exponent <= decade(self.high) {
            ticks.extend(mantissas.iter().map(|m| m * 10_f64.powf(exponent)));
            exponent += every;
        }
        ticks.retain(|tick| (self.low * 0.999..=self.high * 1.001).contains(tick));
        ticks
    }
}

/// 1, 2 or 5 times a power of ten, so that about [`TICKS`] of them come to `high`.
fn step(high: f64) -> f64 {
    let rough = match high > 0.0 {
        true => high / TICKS,
        false => 1.0 / TICKS,
    };
    let decade = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].into_iter();
    let mut steps = steps.map(|step| step * decade);
    steps
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(decade * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Scale {
        Scale::of(values.iter().copied()).unwrap()
    }

    #[test]
    fn figures_near_one_another_start_at_zero() {
        let scale = of(&[700.0, 1_030.0]);
        assert!(!scale.is_log());
        assert_eq!(scale.ticks(), [0.0, 500.0, 1_000.0, 1_500.0]);
        assert_eq!((scale.place(0.0), scale.place(1_500.0)), (0.0, 1.0));
        assert_eq!(of(&[0.0]).place(0.0), 0.0);
        assert_eq!(of(&[0.3]).ticks().len(), 4);
    }

    #[test]
    fn figures_far_apart_go_by_ratios() {
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
    fn what_is_zero_has_no_place_among_ratios() {
        assert!(!of(&[0.0, 1e6]).is_log());
        assert_eq!(Scale::of(std::iter::empty()), None);
    }

    #[test]
    fn a_single_number_of_clients_stands_in_the_middle() {
        let scale = Scale::through(&[256.0]).unwrap();
        assert_eq!(scale.place(256.0), 0.5);
    }
}
