//! Formats figures for people: 51,642; 3.1 ms; 74 ×.

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_1970: i64 = 719_468;

/// A number with thousands separators; small numbers have one to three decimal places.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    let text = fixed(value, digits);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A number with thousands separators and `digits` decimal places, so that the figures of a column are aligned.
pub(crate) fn fixed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, whole) = whole.split_at(whole.len() - whole.trim_start_matches('-').len());
    let mut out = sign.to_owned();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// An integer with thousands separators.
pub(crate) fn count(value: u64) -> String {
    number(value as f64)
}

/// Formats `1 client` or `8,000 clients`.
pub(crate) fn clients(number: usize) -> String {
    match number {
        1 => "1 client".to_owned(),
        _ => format!("{} clients", count(number as u64)),
    }
}

/// A duration in a suitable unit.
pub(crate) fn duration(micros: f64) -> String {
    match micros {
        size if size < 1e3 => format!("{} µs", number(size.round())),
        size if size < 1e6 => format!("{} ms", three_digits(size / 1e3)),
        size => format!("{} s", three_digits(size / 1e6)),
    }
}

/// A ratio: `74 ×`, `1.3 ×`.
pub(crate) fn times(ratio: f64) -> String {
    match ratio {
        size if size >= 20.0 => format!("{size:.0} ×"),
        size => format!("{size:.1} ×"),
    }
}

/// A number of bytes in a suitable unit.
pub(crate) fn bytes(bytes: f64) -> String {
    match bytes {
        size if size < 10_240.0 => format!("{} B", number(size.round())),
        size if size < 10_485_760.0 => format!("{} KiB", three_digits(size / 1_024.0)),
        size => format!("{} MiB", three_digits(size / 1_048_576.0)),
    }
}

/// Formats a time, given in seconds since 1970, as `2026-03-01 07:05 UTC`.
pub(crate) fn moment(unix_seconds: u64) -> String {
    let minutes = unix_seconds.cast_signed() / 60;
    let (hour, minute) = (minutes / 60 % 24, minutes % 60);
    format!("{} {hour:02}:{minute:02} UTC", date(minutes / 1_440))
}

/// Formats a day, given in days since 1970-01-01, in ISO 8601.
pub(crate) fn date(unix_days: i64) -> String {
    // The calendar repeats every 400 years. Years that begin in March have the leap day at their end.
    let days = unix_days + DAYS_BEFORE_1970;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..10 => (year, month + 3),
        _ => (year + 1, month - 9),
    };
    format!("{}-{month:02}-{day:02}", era * 400 + year)
}

fn three_digits(value: f64) -> String {
    let scale = match value.abs() {
        size if size >= 100.0 => 1.0,
        size if size >= 10.0 => 10.0,
        _ => 100.0,
    };
    number((value * scale).round() / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_readable() {
        let cases = [
            (51_642.4, "51,642"),
            (1_000_000.0, "1,000,000"),
            (999.6, "1,000"),
            (12.34, "12.3"),
            (1.5, "1.5"),
            (0.005_08, "0.005"),
            (0.0, "0"),
            (-1_234.0, "-1,234"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(duration(870.0), "870 µs");
        assert_eq!(duration(3_140.0), "3.14 ms");
        assert_eq!(duration(31_400.0), "31.4 ms");
        assert_eq!(duration(2_500_000.0), "2.5 s");
        assert_eq!(fixed(51_642.0, 2), "51,642.00");
        assert_eq!(
            (bytes(312.4), bytes(52_000.0)),
            ("312 B".to_owned(), "50.8 KiB".to_owned())
        );
        assert_eq!(
            (times(74.4), times(1.27)),
            ("74 ×".to_owned(), "1.3 ×".to_owned())
        );
    }

    #[test]
    fn times_follow_the_calendar() {
        let cases = [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_798_761_599, "2026-12-31 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ];
        for (seconds, text) in cases {
            assert_eq!(moment(seconds), text);
        }
    }
}
