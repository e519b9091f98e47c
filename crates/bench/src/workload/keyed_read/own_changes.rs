//! The variant `replicas`: a client changes a key from time to time and then reads it. The change is one of the first row of the
//! key, so that all changes of a key have an order: a client that knows one must see it in every later read of the key.

use crate::connection::{Connection, Result};
use crate::statement::{Statement, Value};
use crate::workload::known::{CheckedReads, Known};
use paceline_wire::backend;
use rand::RngExt;
use rand::rngs::StdRng;

/// One turn of this number is a change.
const CHANGE_EVERY: u32 = 16;
/// Place of `mod_time` in a row.
const MOD_TIME: usize = 4;

/// The keys that a client knows: `mod_time` of their first rows in the ISO date style, whose texts have the order of the times.
#[derive(Debug, Default)]
pub(super) struct ClientKeys {
    known: Known<i64, Vec<u8>>,
    /// The key that the client has changed and not read since.
    changed: Option<i64>,
}

impl ClientKeys {
    /// The key that the client must read next; `None`: any.
    pub(super) fn next(&mut self) -> Option<i64> {
        self.changed.take()
    }

    /// Whether the next turn is a change.
    pub(super) fn is_to_change(&self, rng: &mut StdRng) -> bool {
        self.changed.is_none() && rng.random_ratio(1, CHANGE_EVERY)
    }

    /// Changes the first row of a key by this statement, which returns `mod_time`. Returns the number of changed rows.
    pub(super) async fn change(
        &mut self,
        conn: &mut Connection,
        statement: &Statement,
        (key, row): (i64, i64),
    ) -> Result<u64> {
        let mut time = None;
        let on_row = |body: &[u8]| time = value(body, 0);
        let answer = conn.run(statement, &[Value::Int(row)], on_row).await?;
        if let Some(time) = time {
            self.known.learn(key, time);
        }
        self.changed = Some(key);
        Ok(answer.affected)
    }
}

/// The first row of a key, which a client looks for in an answer.
#[derive(Debug)]
pub(super) struct FirstRow {
    id: String,
    time: Option<Vec<u8>>,
}

impl FirstRow {
    pub(super) fn new(id: i64) -> Self {
        Self {
            id: id.to_string(),
            time: None,
        }
    }

    /// Looks at a row of the answer. It costs little: there are ten thousand of them.
    pub(super) fn look(&mut self, body: &[u8]) {
        // The number of values, and the length of the first one.
        let first = body.get(6..).and_then(|values| values.get(..self.id.len()));
        let length = body.get(2..6).and_then(|bytes| bytes.try_into().ok());
        let length = length.map(i32::from_be_bytes);
        let is_it = first == Some(self.id.as_bytes())
            && length.and_then(|length| usize::try_from(length).ok()) == Some(self.id.len());
        if is_it {
            self.time = value(body, MOD_TIME);
        }
    }

    /// Compares what was found with what the client knows of the key, and counts the read.
    pub(super) fn compare(self, key: i64, client: &mut ClientKeys, reads: &CheckedReads) {
        reads.count(client.known.is_stale(key, self.time));
    }
}

/// A value of a row.
fn value(body: &[u8], place: usize) -> Option<Vec<u8>> {
    let values = backend::row_values(body).ok()?;
    Some(values.get(place).copied()??.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use paceline_wire::frame::HEADER_LEN;

    fn row(id: &str, time: &str) -> Vec<u8> {
        let mut out = BytesMut::new();
        let values = [id, "fare", "3", "2017-01-01 00:00:00", time];
        backend::write_row(&mut out, values.iter().map(|value| Some(value.as_bytes())));
        out[HEADER_LEN..].to_vec()
    }

    fn read(client: &mut ClientKeys, rows: &[(&str, &str)]) -> bool {
        let (mut first, reads) = (FirstRow::new(21), CheckedReads::default());
        for (id, time) in rows {
            first.look(&row(id, time));
        }
        first.compare(3, client, &reads);
        reads.stale() == 1
    }

    #[test]
    fn only_the_first_row_of_the_key_counts() {
        let mut client = ClientKeys::default();
        let [early, late] = ["2017-01-01 00:00:09", "2017-01-01 00:00:10"];
        assert!(!read(&mut client, &[("211", early), ("21", late)]));
        assert!(read(
            &mut client,
            &[("21", early), ("211", late), ("2", late)]
        ));
        assert!(!read(&mut client, &[("22", early), ("21", late)]));
        assert!(read(&mut client, &[("22", late)]), "the row is missing");
    }
}
