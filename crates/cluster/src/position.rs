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

/// The reason why a text is not a position, or not the part of one that was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PositionError {
    /// The whole.
    #[error("a position is a system identifier, a timeline and an LSN with colons between them")]
    Parts,
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

/// The sizes on which positions in the log depend, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalSizes {
    /// `wal_block_size`: a page. Each begins with a header.
    pub block: u64,
    /// `wal_segment_size`: a file. The header of its first page is longer.
    pub segment: u64,
}

/// Size of the header of a page (`SizeOfXLogShortPHD` in PostgreSQL's `xlog_internal.h`).
const PAGE_HEADER: u64 = 24;

/// The same for the first page of a segment (`SizeOfXLogLongPHD`).
const SEGMENT_HEADER: u64 = 40;

impl Lsn {
    /// The end of the last record, if this is the position at which the next one will be inserted. If the last record ends with its
    /// page, the next one is inserted behind the header of the following page, a position that replay does not reach before
    /// there is a further record.
    #[must_use]
    pub fn end_of_last_record(self, sizes: WalSizes) -> Self {
        let within = |size: u64| self.0.checked_rem(size);
        let header = match within(sizes.segment) {
            Some(SEGMENT_HEADER) => SEGMENT_HEADER,
            Some(offset) if offset < sizes.block => return self,
            _ => PAGE_HEADER,
        };
        match within(sizes.block) == Some(header) {
            true => Self(self.0 - header),
            false => self,
        }
    }

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

/// `SYSTEM:TIMELINE:LSN`
impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}:{}", self.system, self.timeline, self.lsn)
    }
}

impl FromStr for Position {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, PositionError> {
        let mut parts = text.splitn(3, ':');
        let mut part = || parts.next().ok_or(PositionError::Parts);
        Ok(Self {
            system: part()?.parse()?,
            timeline: part()?.parse()?,
            lsn: part()?.parse()?,
        })
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
    fn a_record_ends_before_the_header_of_the_next_page() {
        let sizes = WalSizes {
            block: 8_192,
            segment: 16 * 1_024 * 1_024,
        };
        let segment = 3 * sizes.segment;
        for (insert, end) in [
            // Behind the headers of a page and of a segment.
            (segment + 8_192 + 24, segment + 8_192),
            (segment + 40, segment),
            // In the midst of a page: the header has another length there.
            (segment + 24, segment + 24),
            (segment + 8_192 + 40, segment + 8_192 + 40),
            (segment + 8_192 + 32, segment + 8_192 + 32),
            (segment + 8_000, segment + 8_000),
        ] {
            assert_eq!(Lsn(insert).end_of_last_record(sizes), Lsn(end), "{insert}");
        }
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
            let position = Position {
                system: SystemId(system),
                timeline: Timeline(timeline),
                lsn: Lsn(lsn),
            };
            prop_assert_eq!(position.to_string().parse(), Ok(position));
        }

        #[test]
        fn no_text_panics(text in "[0-9a-fg:/+é]{0,24}") {
            let _ = (text.parse::<SystemId>(), text.parse::<Timeline>(), text.parse::<Lsn>());
        }
    }
}
