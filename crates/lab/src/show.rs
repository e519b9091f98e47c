//! Figures as people read them: 51,642; 3.1 ms; 74 ×.

/// A number with its thousands set apart; small ones keep a digit or two behind the point.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let rest = rest.trim_end_matches('0').trim_end_matches('.');
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

/// A whole number with its thousands set apart.
pub(crate) fn count(value: u64) -> String {
    number(value as f64)
}

/// A time in the unit that suits it.
pub(crate) fn duration(micros: f64) -> String {
    match micros {
        size if size < 1_000.0 => format!("{} µs", number(size.round())),
        size if size < 1_000_000.0 => format!("{} ms", number(three_digits(size / 1_000.0))),
        size => format!("{} s", number(three_digits(size / 1_000_000.0))),
    }
}

/// How many times as much: `74 ×`, `1.3 ×`.
pub(crate) fn times(ratio: f64) -> String {
    match ratio {
        size if size >= 20.0 => format!("{size:.0} ×"),
        size => format!("{size:.1} ×"),
    }
}

fn three_digits(value: f64) -> f64 {
    let scale = match value.abs() {
        size if size >= 100.0 => 1.0,
        size if size >= 10.0 => 10.0,
        _ => 100.0,
    };
    (value * scale).round() / scale
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
        assert_eq!(
            (times(74.4), times(1.27)),
            ("74 ×".to_owned(), "1.3 ×".to_owned())
        );
    }
}
