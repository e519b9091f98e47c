//! Dates and times in ISO 8601, with a year of at least four digits: so PostgreSQL does not ask `DateStyle` which field is the year.

use std::ops::Range;

/// The days that PostgreSQL has: from 4714-11-24 BC to 5874897-12-31.
pub(super) const DATE_RANGE: Range<i64> = -2_451_545..2_145_031_949;

/// The microseconds that PostgreSQL has: from 4714-11-24 BC to 294276-12-31.
pub(super) const TIMESTAMP_RANGE: Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;

/// Maximum number of digits of a year.
const YEAR_DIGITS_MAX: usize = 7;

const DAY: i64 = 86_400_000_000;
const HOUR: i64 = 3_600_000_000;
const MINUTE: i64 = 60_000_000;
const SECOND: i64 = 1_000_000;

/// `2024-02-29`, `0044-03-15 BC`, `infinity`
pub(super) fn date(text: &str) -> Option<i32> {
    match text {
        "infinity" => return Some(i32::MAX),
        "-infinity" => return Some(i32::MIN),
        _ => {}
    }
    let (text, is_before_christ) = without_era(text);
    let (days, rest) = day(text, is_before_christ)?;
    let fits = rest.is_empty() && DATE_RANGE.contains(&days);
    fits.then(|| days.try_into().ok()).flatten()
}

/// `2024-02-29 12:00:00.5`, `2024-02-29T12:00`, `2024-02-29`, `infinity`
pub(super) fn timestamp(text: &str) -> Option<i64> {
    if let Some(infinity) = infinity(text) {
        return Some(infinity);
    }
    let (microseconds, rest) = local(text)?;
    let fits = rest.is_empty() && TIMESTAMP_RANGE.contains(&microseconds);
    fits.then_some(microseconds)
}

/// The same with an offset from UTC: `2024-02-29 12:00:00+01`, `2024-02-29T12:00:00Z`
pub(super) fn timestamptz(text: &str) -> Option<i64> {
    if let Some(infinity) = infinity(text) {
        return Some(infinity);
    }
    // PostgreSQL reads an offset behind a date in other ways.
    let (microseconds, rest) = local(text).filter(|_| text.contains(':'))?;
    let utc = microseconds.checked_sub(offset(rest)?)?;
    TIMESTAMP_RANGE.contains(&utc).then_some(utc)
}

fn infinity(text: &str) -> Option<i64> {
    match text {
        "infinity" => Some(i64::MAX),
        "-infinity" => Some(i64::MIN),
        _ => None,
    }
}

/// The text without its end ` BC`, and whether it had one.
fn without_era(text: &str) -> (&str, bool) {
    match text.strip_suffix(" BC") {
        Some(text) => (text, true),
        None => (text, false),
    }
}

/// A date with or without a time of day, and the rest of the text.
fn local(text: &str) -> Option<(i64, &str)> {
    let (text, is_before_christ) = without_era(text);
    let (days, rest) = day(text, is_before_christ)?;
    let midnight = days.checked_mul(DAY)?;
    match rest.strip_prefix([' ', 'T']) {
        None => Some((midnight, rest)),
        Some(rest) => {
            let (time, rest) = time(rest)?;
            Some((midnight.checked_add(time)?, rest))
        }
    }
}

/// A date in days since 2000-01-01, and the rest of the text.
fn day(text: &str, is_before_christ: bool) -> Option<(i64, &str)> {
    let (year, rest) = number(text, 4..=YEAR_DIGITS_MAX)?;
    let (month, rest) = number(rest.strip_prefix('-')?, 2..=2)?;
    let (day, rest) = number(rest.strip_prefix('-')?, 2..=2)?;
    if year == 0 {
        return None;
    }
    // The year before 1 is 1 BC.
    let year = if is_before_christ { 1 - year } else { year };
    let is_day = (1..=days_of(year, month)?).contains(&day);
    is_day.then(|| (days_since_2000(year, month, day), rest))
}

/// `None` if there is no such month.
fn days_of(year: i64, month: i64) -> Option<i64> {
    let is_leap_year = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => Some(31),
        4 | 6 | 9 | 11 => Some(30),
        2 if is_leap_year => Some(29),
        2 => Some(28),
        _ => None,
    }
}

/// Days in the Gregorian calendar, also before it was introduced. Years begin in March, so that a leap day is the last day of one.
fn days_since_2000(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days_before_month = (153 * month + 2) / 5;
    year * 365 + leap_days + days_before_month + day - 1 - FIRST_OF_2000
}

/// Days from March 1 of the year 0, which is 1 BC, to January 1, 2000.
const FIRST_OF_2000: i64 = 2000 * 365 + 500 - 20 + 5 - 31 - 29;

/// A time of day in microseconds, and the rest of the text. PostgreSQL also reads 24:00 and 60 seconds, and rounds further digits.
fn time(text: &str) -> Option<(i64, &str)> {
    let (hours, rest) = number(text, 2..=2)?;
    let (minutes, rest) = number(rest.strip_prefix(':')?, 2..=2)?;
    let ((seconds, fraction), rest) = match rest.strip_prefix(':') {
        Some(rest) => seconds(rest)?,
        None => ((0, 0), rest),
    };
    let is_time = hours < 24 && minutes < 60 && seconds < 60;
    is_time.then(|| {
        let whole = hours * HOUR + minutes * MINUTE + seconds * SECOND;
        (whole + fraction, rest)
    })
}

/// Seconds, their fraction in microseconds, and the rest of the text.
fn seconds(text: &str) -> Option<((i64, i64), &str)> {
    let (seconds, rest) = number(text, 2..=2)?;
    match rest.strip_prefix('.') {
        Some(rest) => {
            let (fraction, rest) = fraction(rest)?;
            Some(((seconds, fraction), rest))
        }
        None => Some(((seconds, 0), rest)),
    }
}

/// Up to six digits, in microseconds, and the rest of the text.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let (value, rest) = number(text, 1..=6)?;
    let digits = u32::try_from(text.len() - rest.len()).ok()?;
    Some((value * 10_i64.pow(6 - digits), rest))
}

/// An offset from UTC in microseconds, to the east: `Z`, `+01`, `-05:30`.
fn offset(text: &str) -> Option<i64> {
    /// PostgreSQL allows more; no place has more.
    const HOURS_MAX: i64 = 14;
    if text == "Z" {
        return Some(0);
    }
    let (sign, rest) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(rest), _) => (1, rest),
        (None, Some(rest)) => (-1, rest),
        (None, None) => return None,
    };
    let (hours, rest) = number(rest, 2..=2)?;
    let (minutes, rest) = match rest.strip_prefix(':') {
        Some(rest) => number(rest, 2..=2)?,
        None => (0, rest),
    };
    let is_offset = rest.is_empty() && hours <= HOURS_MAX && minutes < 60;
    is_offset.then(|| sign * (hours * HOUR + minutes * MINUTE))
}

/// A number with this many digits, and the rest of the text.
fn number(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<(i64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (number, rest) = text.split_at(end.unwrap_or(text.len()));
    let number = digits.contains(&number.len()).then(|| number.parse().ok());
    Some((number.flatten()?, rest))
}
