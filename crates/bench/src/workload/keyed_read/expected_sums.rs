//! The expected answers, computed from the definition of the rows without a query, so that a target cannot confirm its own
//! errors.

use super::fares::{Fares, Layout};
use super::verifier;
use bytes::BytesMut;
use paceline_wire::backend;
use paceline_wire::frame::HEADER_LEN;

const SECONDS_PER_DAY: i64 = 86_400;
/// The day before the first fare is January 1 of this year.
const FIRST_YEAR: u32 = 2017;
/// Seconds from 2000-01-01, the epoch of PostgreSQL, to that day.
const FIRST_SECOND: i64 = 6_210 * SECONDS_PER_DAY;

/// The format of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Binary,
}

/// The sum over the rows (see [`verifier::add`]) of each key, from key 1.
pub(super) fn sums(fares: &Fares, format: Format) -> Vec<u64> {
    let mut writer = Writer::new(fares.rows(), format);
    let mut sum_of = |key| match fares.layout {
        Layout::Jsonb => writer.sum_of_jsonb(key, fares.ids(key)),
        _ => writer.sum(key, fares.ids(key)),
    };
    (1..=fares.keys).map(&mut sum_of).collect()
}

/// Writes rows as PostgreSQL does.
struct Writer {
    format: Format,
    /// The days from the one before the first fare to that of the last.
    days: Vec<String>,
    row: BytesMut,
}

impl Writer {
    fn new(rows: i64, format: Format) -> Self {
        let days = usize::try_from(rows / SECONDS_PER_DAY + 1).unwrap_or_default();
        Self {
            format,
            days: Day::FIRST.onwards().take(days).collect(),
            row: BytesMut::new(),
        }
    }

    fn sum(&mut self, key: i64, ids: impl Iterator<Item = i64>) -> u64 {
        let mut sum = 0;
        for id in ids {
            let info = format!("fare {id:x}");
            match self.format {
                Format::Text => {
                    let (id, key, at) = (id.to_string(), key.to_string(), self.time(id, ' '));
                    let texts = [&id, &info, &key, &at, &at];
                    self.add(&mut sum, texts.map(|text| text.as_bytes()));
                }
                Format::Binary => {
                    let at = ((FIRST_SECOND + id) * 1_000_000).to_be_bytes();
                    let [id, key] = [id, key].map(int4);
                    self.add(&mut sum, [&id, info.as_bytes(), &key, &at, &at]);
                }
            }
        }
        sum
    }

    /// jsonb sorts the keys of an object by length.
    fn sum_of_jsonb(&mut self, key: i64, ids: impl Iterator<Item = i64>) -> u64 {
        let objects: Vec<String> = ids
            .map(|id| {
                let at = self.time(id, 'T');
                format!(
                    r#"{{"id": {id}, "info": "fare {id:x}", "typeid": {key}, "crt_time": "{at}", "mod_time": "{at}"}}"#
                )
            })
            .collect();
        let array = format!("[{}]", objects.join(", "));
        let mut sum = 0;
        self.add(&mut sum, [key.to_string().as_bytes(), array.as_bytes()]);
        sum
    }

    fn add<const N: usize>(&mut self, sum: &mut u64, values: [&[u8]; N]) {
        self.row.clear();
        backend::write_row(&mut self.row, values.map(Some).into_iter());
        verifier::add(sum, self.row.get(HEADER_LEN..).unwrap_or_default());
    }

    /// The time `seconds` after the beginning of the first day.
    fn time(&self, seconds: i64, between: char) -> String {
        let day = usize::try_from(seconds / SECONDS_PER_DAY).ok();
        let day = day.and_then(|day| self.days.get(day));
        let day = day.map_or("", String::as_str);
        let second = seconds % SECONDS_PER_DAY;
        let (hour, minute) = (second / 3_600, second / 60 % 60);
        format!("{day}{between}{hour:02}:{minute:02}:{:02}", second % 60)
    }
}

fn int4(value: i64) -> [u8; 4] {
    i32::try_from(value).unwrap_or_default().to_be_bytes()
}

/// A day of the calendar.
#[derive(Debug, Clone, Copy)]
struct Day {
    year: u32,
    month: u32,
    day: u32,
}

impl Day {
    const FIRST: Self = Self {
        year: FIRST_YEAR,
        month: 1,
        day: 1,
    };

    /// This day and all following days in ISO 8601.
    fn onwards(self) -> impl Iterator<Item = String> {
        let days = std::iter::successors(Some(self), |day| Some(day.next()));
        days.map(|Self { year, month, day }| format!("{year}-{month:02}-{day:02}"))
    }

    fn next(self) -> Self {
        let Self { year, month, day } = self;
        match (month, day) {
            (12, 31) => Self {
                year: year + 1,
                ..Self::FIRST
            },
            _ if day == self.days_of_month() => Self {
                month: month + 1,
                day: 1,
                ..self
            },
            _ => Self {
                day: day + 1,
                ..self
            },
        }
    }

    fn days_of_month(self) -> u32 {
        let year = self.year;
        let is_leap =
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        match self.month {
            2 => 28 + u32::from(is_leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_the_calendar() {
        let days: Vec<_> = Day::FIRST.onwards().take(11_575).collect();
        for (number, day) in [
            (0, "2017-01-01"),
            (58, "2017-02-28"),
            (59, "2017-03-01"),
            (364, "2017-12-31"),
            (365, "2018-01-01"),
            (365 * 3 + 59, "2020-02-29"),
            (11_574, "2048-09-09"),
        ] {
            assert_eq!(days[number], day);
        }
    }

    #[test]
    fn the_rows_of_a_key_depend_on_the_layout() {
        let ids = |layout, key| Fares::of(layout, 30).ids(key).collect::<Vec<_>>();
        assert_eq!(ids(Layout::Clustered, 2), [4, 5, 6]);
        assert_eq!(ids(Layout::Scattered, 1), [10, 20, 30]);
        assert_eq!(ids(Layout::Scattered, 2), [1, 11, 21]);
    }

    #[test]
    fn the_first_row_is_written_as_postgresql_does() {
        let writer = |format| Writer::new(1, format);
        let mut sum = 0;
        let text = b"\0\x05\0\0\0\x011\0\0\0\x06fare 1\0\0\0\x011\
            \0\0\0\x132017-01-01 00:00:01\0\0\0\x132017-01-01 00:00:01";
        verifier::add(&mut sum, text);
        assert_eq!(writer(Format::Text).sum(1, 1..=1), sum);
        let mut sum = 0;
        let binary = b"\0\x05\0\0\0\x04\0\0\0\x01\0\0\0\x06fare 1\0\0\0\x04\0\0\0\x01\
            \0\0\0\x08\0\x01\xe7\xfb\xe2\x96\x02\x40\0\0\0\x08\0\x01\xe7\xfb\xe2\x96\x02\x40";
        verifier::add(&mut sum, binary);
        assert_eq!(writer(Format::Binary).sum(1, 1..=1), sum);
    }
}
