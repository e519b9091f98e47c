//! The expected answers, computed from the definition of the rows without a query, so that a target cannot confirm its own
//! errors.

use super::fares::{Fares, Layout};
use super::verifier;
use crate::show;
use bytes::BytesMut;
use paceline_wire::backend;
use paceline_wire::frame::HEADER_LEN;

const SECONDS_PER_DAY: i64 = 86_400;
/// Days from 1970-01-01 to the day before the first fare, 2017-01-01.
const FIRST_DAY: i64 = 17_167;
/// Seconds from 2000-01-01, the epoch of PostgreSQL, to that day.
const FIRST_SECOND: i64 = 6_210 * SECONDS_PER_DAY;

/// The sum over the rows (see [`verifier::add`]) of each key, from key 1.
pub(super) fn sums(fares: &Fares, is_binary: bool) -> Vec<u64> {
    let mut writer = Writer::new(fares.rows());
    let mut sum_of = |key| match fares.layout {
        Layout::Jsonb => writer.sum_of_jsonb(key, fares.ids(key)),
        _ => writer.sum(key, fares.ids(key), is_binary),
    };
    (1..=fares.keys).map(&mut sum_of).collect()
}

/// Writes rows as PostgreSQL does.
struct Writer {
    /// The days from the one before the first fare to that of the last.
    days: Vec<String>,
    row: BytesMut,
}

impl Writer {
    fn new(rows: i64) -> Self {
        let days = FIRST_DAY..=FIRST_DAY + rows / SECONDS_PER_DAY;
        Self {
            days: days.map(show::date).collect(),
            row: BytesMut::new(),
        }
    }

    fn sum(&mut self, key: i64, ids: impl Iterator<Item = i64>, is_binary: bool) -> u64 {
        let mut sum = 0;
        for id in ids {
            let info = format!("fare {id:x}");
            if is_binary {
                let at = ((FIRST_SECOND + id) * 1_000_000).to_be_bytes();
                let [id, key] = [id, key].map(int4);
                self.add(&mut sum, [&id, info.as_bytes(), &key, &at, &at]);
            } else {
                let (id, key, at) = (id.to_string(), key.to_string(), self.time(id, ' '));
                let texts = [&id, &info, &key, &at, &at];
                self.add(&mut sum, texts.map(|text| text.as_bytes()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_the_calendar() {
        let days = Writer::new(11_574 * SECONDS_PER_DAY).days;
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
        let mut writer = Writer::new(1);
        let mut sum = 0;
        let text = b"\0\x05\0\0\0\x011\0\0\0\x06fare 1\0\0\0\x011\
            \0\0\0\x132017-01-01 00:00:01\0\0\0\x132017-01-01 00:00:01";
        verifier::add(&mut sum, text);
        assert_eq!(writer.sum(1, 1..=1, false), sum);
        let mut sum = 0;
        let binary = b"\0\x05\0\0\0\x04\0\0\0\x01\0\0\0\x06fare 1\0\0\0\x04\0\0\0\x01\
            \0\0\0\x08\0\x01\xe7\xfb\xe2\x96\x02\x40\0\0\0\x08\0\x01\xe7\xfb\xe2\x96\x02\x40";
        verifier::add(&mut sum, binary);
        assert_eq!(writer.sum(1, 1..=1, true), sum);
    }
}
