//! A position in the write-ahead log of one database cluster, in PostgreSQL's text forms.
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

/// A position of one database cluster: `7012345678901234567:2:0/16B3748`, as `SHOW paceline.position` returns it and
/// `SET paceline.after` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    /// The database cluster.
    pub system: SystemId,
    /// The timeline on which the position was seen.
    pub timeline: Timeline,
    /// The end of the last record before it.
    pub lsn: Lsn,
}

/// Why a text is not a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PositionError {
    /// There are not three parts.
    #[error("a position has three parts, as in 7012345678901234567:1:0/16B3748")]
    Parts,
    /// The first part.
    #[error(
        "the system identifier of a position is a decimal number from 1 to 18446744073709551615"
    )]
    System,
    /// The second part.
    #[error("the timeline of a position is a decimal number from 1 to 4294967295")]
    Timeline,
    /// The third part.
    #[error(
        "the LSN of a position is two hexadecimal numbers of at most 8 digits with a slash between them, as in 0/16B3748"
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

impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}:{}", self.system, self.timeline, self.lsn)
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

impl FromStr for Position {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, PositionError> {
        let mut parts = text.trim().split(':');
        let (Some(system), Some(timeline), Some(lsn), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(PositionError::Parts);
        };
        Ok(Self {
            system: system.parse()?,
            timeline: timeline.parse()?,
            lsn: lsn.parse()?,
        })
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
        let position: Position = " 7012345678901234567:2:0/16B3748 ".parse().unwrap();
        assert_eq!(position.to_string(), "7012345678901234567:2:0/16B3748");
    }

    #[test]
    fn a_wrong_part_is_named() {
        for (text, error) in [
            ("", PositionError::Parts),
            ("1:0/1", PositionError::Parts),
            ("1:1:0/1:1", PositionError::Parts),
            (":1:0/1", PositionError::System),
            ("0:1:0/1", PositionError::System),
            ("+1:1:0/1", PositionError::System),
            ("18446744073709551616:1:0/1", PositionError::System),
            ("1:0:0/1", PositionError::Timeline),
            ("1:4294967296:0/1", PositionError::Timeline),
            ("1:1:01", PositionError::Lsn),
            ("1:1:/1", PositionError::Lsn),
            ("1:1:0/", PositionError::Lsn),
            ("1:1:0/g", PositionError::Lsn),
            ("1:1:+0/1", PositionError::Lsn),
            ("1:1:0/123456789", PositionError::Lsn),
        ] {
            assert_eq!(text.parse::<Position>(), Err(error), "{text}");
        }
    }

    proptest! {
        #![proptest_config(paceline_testing::cases(256))]

        #[test]
        fn every_position_is_read_back(system in 1u64.., timeline in 1u32.., lsn: u64) {
            let position = Position { system: SystemId(system), timeline: Timeline(timeline), lsn: Lsn(lsn) };
            prop_assert_eq!(position.to_string().parse(), Ok(position));
        }

        #[test]
        fn no_text_panics(text in "[0-9a-fg:/+é]{0,24}") {
            let _ = text.parse::<Position>();
        }
    }
}
