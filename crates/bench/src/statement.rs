//! A statement of a workload, and how it is sent: by the simple protocol, or by the extended protocol, parsed every time
//! or once per connection (pgbench's `-M simple|extended|prepared`).

use bytes::BytesMut;
use paceline_wire::frontend::{self, Parse};
use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

/// The protocol of statements, as pgbench's `--protocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// One `Query` message with the values in its text.
    Simple,
    /// `Parse`, `Bind` and `Execute` of the unnamed statement every time.
    Extended,
    /// `Parse` once per connection, then `Bind` and `Execute`.
    #[default]
    Prepared,
}

impl Protocol {
    /// The name on the command line and in records.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Extended => "extended",
            Self::Prepared => "prepared",
        }
    }
}

/// The value of a parameter; it is sent in text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// An integer.
    Int(i64),
    /// Any other value.
    Text(&'a str),
}

/// A statement with parameters `$1`, `$2`, …
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    sql: String,
    protocol: Protocol,
    /// The number of the statement within its workload, counted from 0. A connection uses it to remember which statements
    /// it has prepared.
    pub(crate) number: usize,
    /// The name of the prepared statement. It is unique per run, because a pooler may have left statements of another run
    /// on its server.
    name: String,
    /// Whether the result is in binary format.
    binary: bool,
}

impl Statement {
    /// Creates the statement with this `number` within its workload, counted from 0.
    pub(crate) fn new(number: usize, sql: impl Into<String>, protocol: Protocol) -> Self {
        let sql = sql.into();
        let name = match protocol {
            Protocol::Prepared => format!("lab{:016x}", RandomState::new().hash_one(&sql)),
            Protocol::Simple | Protocol::Extended => String::new(),
        };
        Self {
            sql,
            protocol,
            number,
            name,
            binary: false,
        }
    }

    /// Requests the result in binary format; only the extended protocol supports that.
    pub(crate) fn in_binary(mut self) -> Self {
        self.binary = true;
        self
    }

    /// Whether the result is in binary format.
    pub(crate) fn is_in_binary(&self) -> bool {
        self.binary && self.protocol != Protocol::Simple
    }

    /// Whether a connection keeps the prepared statement.
    pub(crate) fn is_kept(&self) -> bool {
        self.protocol == Protocol::Prepared
    }

    /// Appends the messages that execute the statement once. `known` says whether this connection has prepared it.
    pub(crate) fn write(&self, values: &[Value<'_>], known: bool, out: &mut BytesMut) {
        if self.protocol == Protocol::Simple {
            return frontend::write_query(out, &in_place(&self.sql, values));
        }
        if !known {
            let parse = Parse {
                name: self.name.as_bytes(),
                text: self.sql.as_bytes(),
                types: &[0, 0],
            };
            parse.write(out);
        }
        let mut texts = String::new();
        let text = |value: &Value<'_>| {
            let start = texts.len();
            // Writing to a String does not fail.
            let _ = match value {
                Value::Int(number) => write!(texts, "{number}"),
                Value::Text(text) => texts.write_str(text),
            };
            start..texts.len()
        };
        let places: Vec<Range<usize>> = values.iter().map(text).collect();
        let bound = places.into_iter().map(|place| {
            let text = texts.get(place).unwrap_or_default();
            (false, Some(text.as_bytes()))
        });
        let bound: Vec<(bool, Option<&[u8]>)> = bound.collect();
        let formats: &[i16] = if self.binary { &[1] } else { &[] };
        frontend::write_bind(out, self.name.as_bytes(), &bound, formats);
        frontend::write_describe_portal(out);
        frontend::write_execute(out);
        frontend::write_sync(out);
    }
}

/// Inserts the values into the text.
fn in_place(sql: &str, values: &[Value<'_>]) -> String {
    let mut out = String::with_capacity(sql.len() + 16 * values.len());
    let mut parts = sql.split('$');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = part.split_at(digits);
        let place = number.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
        // Writing to a String does not fail.
        let _ = match place.and_then(|place| values.get(place)) {
            Some(Value::Int(number)) => write!(out, "{number}"),
            Some(Value::Text(text)) => write!(out, "'{}'", text.replace('\'', "''")),
            None => write!(out, "${number}"),
        };
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_wire::Frames;

    fn sent(statement: &Statement, values: &[Value<'_>], known: bool) -> (Vec<u8>, BytesMut) {
        let mut out = BytesMut::new();
        statement.write(values, known, &mut out);
        (Frames::new(&out).map(|frame| frame.tag).collect(), out)
    }

    #[test]
    fn a_prepared_statement_is_parsed_once() {
        let kept = Statement::new(0, "SELECT $1", Protocol::Prepared);
        assert_eq!(sent(&kept, &[Value::Int(1)], false).0, b"PBDES");
        assert_eq!(sent(&kept, &[Value::Int(1)], true).0, b"BDES");
        let passing = Statement::new(0, "SELECT $1", Protocol::Extended);
        assert!(kept.is_kept() && !passing.is_kept());
    }

    #[test]
    fn no_two_runs_use_the_same_name() {
        let named = |sql| Statement::new(0, sql, Protocol::Prepared).name;
        assert_ne!(named("SELECT $1"), named("SELECT $1 + 1"));
        assert_ne!(named("SELECT $1"), named("SELECT $1"));
    }

    #[test]
    fn values_in_the_text_are_quoted() {
        let sql = "UPDATE t SET a = $2 WHERE b = $1 AND c = $10";
        let values = [Value::Int(-7), Value::Text("it's")];
        let simple = Statement::new(0, sql, Protocol::Simple);
        let (tags, out) = sent(&simple, &values, false);
        assert_eq!(tags, b"Q");
        let text = String::from_utf8_lossy(&out).into_owned();
        assert!(
            text.contains("SET a = 'it''s' WHERE b = -7 AND c = $10"),
            "{text}"
        );
    }
}
