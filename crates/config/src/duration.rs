//! Durations as PgBouncer and PostgreSQL write them: a bare number in the key's own unit, or a number with its unit.

use std::time::Duration;

/// The unit of a number without a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BareUnit {
    /// As in PgBouncer.
    Seconds,
    /// As PgBouncer's `tcp_user_timeout`.
    Milliseconds,
    /// As PolarDB's `hotspot_update_max_wait_time`.
    Microseconds,
}

impl BareUnit {
    /// The unit's name in the plural, for messages and documentation.
    pub(super) fn name(self) -> &'static str {
        match self {
            BareUnit::Seconds => "seconds",
            BareUnit::Milliseconds => "milliseconds",
            BareUnit::Microseconds => "microseconds",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            BareUnit::Seconds => "s",
            BareUnit::Milliseconds => "ms",
            BareUnit::Microseconds => "us",
        }
    }
}

/// The units, and their microseconds. [`show`] uses the first that needs no fraction, so never those after `us`.
const UNITS: [(&str, u64); 7] = [
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
    ("µs", 1),
    ("d", 86_400_000_000),
];

/// Reads `text` such as `2.5`, `250ms`, `2 min`; `None` when it is not a duration. Never negative; finer than a microsecond is rounded.
pub(super) fn parse(text: &str, bare: BareUnit) -> Option<Duration> {
    let text = text.trim();
    let number_ends = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(number_ends)?;
    let unit = match unit.trim() {
        "" => bare.unit(),
        unit => unit,
    };
    let (_, microseconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let seconds = number.parse::<f64>().ok()? * Duration::from_micros(*microseconds).as_secs_f64();
    // Whole microseconds, so that 0.1 s is 100ms and not 100.000001ms.
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    let nanoseconds_over = u64::from(duration.subsec_nanos() % 1000);
    let down = duration.checked_sub(Duration::from_nanos(nanoseconds_over))?;
    match nanoseconds_over {
        0..500 => Some(down),
        _ => down.checked_add(Duration::from_micros(1)),
    }
}

/// Writes `duration` with the largest unit that needs no fraction; zero in the key's own unit.
pub(super) fn show(duration: Duration, bare: BareUnit) -> String {
    let microseconds = duration.as_micros();
    if microseconds == 0 {
        return format!("0{}", bare.unit());
    }
    let fits = |(_, size): &&(&str, u64)| microseconds.is_multiple_of(u128::from(*size));
    let (unit, size) = UNITS.iter().find(fits).unwrap_or(&("us", 1));
    format!("{}{unit}", microseconds / u128::from(*size))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::BareUnit::{Microseconds, Seconds};
    use super::{parse, show};

    #[test]
    fn every_unit_is_read() {
        for (text, microseconds) in [
            ("0us", 0),
            ("100us", 100),
            ("250ms", 250_000),
            ("10s", 10_000_000),
            ("2min", 120_000_000),
            ("1h", 3_600_000_000),
            ("1d", 86_400_000_000),
            ("1.5s", 1_500_000),
            (" 2 min ", 120_000_000),
        ] {
            assert_eq!(
                parse(text, Seconds),
                Some(Duration::from_micros(microseconds)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_bare_number_is_in_the_unit_of_its_key() {
        assert_eq!(parse("15", Seconds), Some(Duration::from_secs(15)));
        assert_eq!(parse("0.1", Seconds), Some(Duration::from_millis(100)));
        assert_eq!(parse("15", Microseconds), Some(Duration::from_micros(15)));
        assert_eq!(parse("15s", Microseconds), Some(Duration::from_secs(15)));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "s",
            "-1",
            "-1s",
            "1e3",
            "NaN",
            "inf",
            "1.2.3",
            "5 weeks",
            "1m",
            "10 s s",
            "9".repeat(400).as_str(),
        ] {
            assert_eq!(parse(text, Seconds), None, "{text}");
        }
    }

    #[test]
    fn the_shortest_form_is_shown() {
        assert_eq!(show(Duration::ZERO, Seconds), "0s");
        assert_eq!(show(Duration::ZERO, Microseconds), "0us");
        assert_eq!(show(Duration::from_secs(120), Seconds), "2min");
        assert_eq!(show(Duration::from_secs(90), Seconds), "90s");
        assert_eq!(show(Duration::from_micros(1500), Seconds), "1500us");
    }

    proptest! {
        #![proptest_config(paceline_testing::cases(256))]

        #[test]
        fn what_is_shown_is_read_back(microseconds in 0u64..10_000_000_000_000) {
            let duration = Duration::from_micros(microseconds);
            prop_assert_eq!(parse(&show(duration, Seconds), Seconds), Some(duration));
        }

        #[test]
        fn no_text_panics(text in "[0-9.a-zµ -]{0,12}") {
            let _ = parse(&text, Seconds);
        }
    }
}
