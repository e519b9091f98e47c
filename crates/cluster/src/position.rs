//! A position in the write-ahead log of one database cluster, and its parts in PostgreSQL's text forms.
//!
//! Two positions are comparable only if they share a system identifier and a part of the log:
//! [`TimelineHistories::compare`](crate::TimelineHistories::compare).

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Most hexadecimal digits on each side of the slash of an LSN.
const LSN_DIGITS_MAX: usize = 8;

/// The identifier that `initdb` gives to a database cluster and that all its physical replicas share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SystemId(pub u64);

/// The number of a timeline. Each promotion begins a higher one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timeline(pub u32);

/// A byte position in the write-ahead log: `0/16B3748`. The order of two of them has a meaning on one timeline only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// A position of one database cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    /// The database cluster.
    pub system: SystemId,
    /// The timeline on which the position was seen.
    pub timeline: Timeline,
    /// The end of the last record before it.
    pub lsn: Lsn,
}

/// Why a text is not the part of a position that was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PositionError {
    /// The system identifier.
    #[error("a system identifier is a decimal number from 1 to 18446744073709551615")]
    System,
    /// The timeline.
    #[error("a timeline is a decimal number from 1 to 4294967295")]
    Timeline,
    /// The LSN.
    #[error(
        "an LSN is two hexadecimal numbers of at most 8 digits with a slash between them, as in 0/16B3748"
    )]
    Lsn,
}

impl Lsn {
    /// The beginning of every log.
    pub const ZERO: Self = Self(0);
    /// Past every log.
    pub const MAX: Self = Self(u64::MAX);

    /// The bytes from `earlier` to here; 0 if `earlier` is later.
    #[must_use]
    pub fn bytes_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for SystemId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

impl FromStr for SystemId {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, PositionError> {
        let number = decimal(text).and_then(|digits| digits.parse().ok());
        let number = number.filter(|number| *number > 0);
        number.map(Self).ok_or(PositionError::System)
    }
}

impl FromStr for Timeline {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, PositionError> {
        let number = decimal(text).and_then(|digits| digits.parse().ok());
        let number = number.filter(|number| *number > 0);
        number.map(Self).ok_or(PositionError::Timeline)
    }
}

impl FromStr for Lsn {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, PositionError> {
        let half = |text| half_of_lsn(text).ok_or(PositionError::Lsn);
        let (high, low) = text.split_once('/').ok_or(PositionError::Lsn)?;
        Ok(Self(half(high)? << 32 | half(low)?))
    }
}

/// `text`, if it consists of decimal digits: `parse` accepts a sign, too.
fn decimal(text: &str) -> Option<&str> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(text)
}

fn half_of_lsn(text: &str) -> Option<u64> {
    let digits = text.len() <= LSN_DIGITS_MAX && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_text_forms_are_those_of_postgresql() {
        assert_eq!(Lsn(0x16B_3748).to_string(), "0/16B3748");
        assert_eq!(Lsn(0x1_0000_0000).to_string(), "1/0");
        assert_eq!("a/B".parse(), Ok(Lsn(0xA_0000_000B)));
        assert_eq!("FFFFFFFF/FFFFFFFF".parse(), Ok(Lsn::MAX));
        assert_eq!(
            "7012345678901234567".parse(),
            Ok(SystemId(7_012_345_678_901_234_567))
        );
        assert_eq!("2".parse(), Ok(Timeline(2)));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "0", "+1", " 1", "18446744073709551616"] {
            assert_eq!(
                text.parse::<SystemId>(),
                Err(PositionError::System),
                "{text}"
            );
        }
        for text in ["", "0", "+1", "4294967296"] {
            assert_eq!(
                text.parse::<Timeline>(),
                Err(PositionError::Timeline),
                "{text}"
            );
        }
        for text in ["", "01", "/1", "0/", "0/g", "+0/1", "0/123456789"] {
            assert_eq!(text.parse::<Lsn>(), Err(PositionError::Lsn), "{text}");
        }
    }

    proptest! {
        #![proptest_config(paceline_testing::cases(256))]

        #[test]
        fn every_part_is_read_back(system in 1u64.., timeline in 1u32.., lsn: u64) {
            prop_assert_eq!(SystemId(system).to_string().parse(), Ok(SystemId(system)));
            prop_assert_eq!(Timeline(timeline).to_string().parse(), Ok(Timeline(timeline)));
            prop_assert_eq!(Lsn(lsn).to_string().parse(), Ok(Lsn(lsn)));
        }

        #[test]
        fn no_text_panics(text in "[0-9a-fg:/+é]{0,24}") {
            let _ = (text.parse::<SystemId>(), text.parse::<Timeline>(), text.parse::<Lsn>());
        }
    }
}
