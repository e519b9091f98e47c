//! Durations as PgBouncer and PostgreSQL write them: a bare number in the key's own unit, or a number with its unit.

use std::time::Duration;

/// What a number without a unit means.
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

    fn in_seconds(self) -> f64 {
        match self {
            BareUnit::Seconds => 1.0,
            BareUnit::Milliseconds => 1e-3,
            BareUnit::Microseconds => 1e-6,
        }
    }
}

/// Reads `text` such as `2.5`, `250ms`, `2 min`; `None` when it is not a duration. Never negative; finer than a microsecond is rounded.
pub(super) fn parse(text: &str, bare: BareUnit) -> Option<Duration> {
    let text = text.trim();
    let number_ends = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(number_ends)?;
    let in_seconds = match unit.trim() {
        "" => bare.in_seconds(),
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok()? * in_seconds;
    // Whole microseconds, so that 0.1 s is 100ms and not 100.000001ms.
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    let nanoseconds_over = u64::from(duration.subsec_nanos() % 1000);
    let down = duration.checked_sub(Duration::from_nanos(nanoseconds_over))?;
    if nanoseconds_over >= 500 {
        down.checked_add(Duration::from_micros(1))
    } else {
        Some(down)
    }
}

/// Writes `duration` with the largest unit that needs no fraction; zero in the key's own unit.
pub(super) fn show(duration: Duration, bare: BareUnit) -> String {
    const UNITS: [(u128, &str); 5] = [
        (3_600_000_000, "h"),
        (60_000_000, "min"),
        (1_000_000, "s"),
        (1_000, "ms"),
        (1, "us"),
    ];
    let microseconds = duration.as_micros();
    if microseconds == 0 {
        return match bare {
            BareUnit::Seconds => "0s".to_owned(),
            BareUnit::Milliseconds => "0ms".to_owned(),
            BareUnit::Microseconds => "0us".to_owned(),
        };
    }
    let whole = UNITS
        .iter()
        .find(|(size, _)| microseconds.is_multiple_of(*size));
    let (size, unit) = whole.copied().unwrap_or((1, "us"));
    format!("{}{unit}", microseconds / size)
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
