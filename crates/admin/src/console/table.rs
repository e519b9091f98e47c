//! Tables that the console answers with: columns with PostgreSQL's types, and values in text or binary format, as they are
//! asked for.

use bytes::{BufMut, BytesMut};
use paceline_wire::backend::{self, Field};

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `text`.
    Text,
    /// `int4`.
    Int4,
    /// `int8`.
    Int8,
    /// `numeric`, here always whole.
    Numeric,
    /// `float8`.
    Float8,
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    /// Its name.
    pub(super) name: &'static str,
    /// Its type.
    pub(super) kind: Kind,
}

/// A value; what is too large for its column is the largest that fits.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Text(String),
    Number(u64),
    Float(f64),
}

/// A value for each column.
pub(super) type Row = Vec<Value>;

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl From<Option<String>> for Value {
    fn from(text: Option<String>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }
}

impl Kind {
    /// The type of a letter: `s` text, `i` int4, `q` int8, `N` numeric, `f` float8.
    fn of(letter: char) -> Self {
        match letter {
            'i' => Self::Int4,
            'q' => Self::Int8,
            'N' => Self::Numeric,
            'f' => Self::Float8,
            _ => Self::Text,
        }
    }

    /// OID and length, negative for variable.
    fn type_of(self) -> (u32, i16) {
        match self {
            Self::Text => (25, -1),
            Self::Int4 => (23, 4),
            Self::Int8 => (20, 8),
            Self::Numeric => (1700, -1),
            Self::Float8 => (701, 8),
        }
    }
}

/// Columns with their types, a letter each.
pub(super) fn columns(kinds: &str, names: &[&'static str]) -> Vec<Column> {
    let kinds = kinds.chars().map(Kind::of);
    let columns = names.iter().zip(kinds);
    columns.map(|(name, kind)| Column { name, kind }).collect()
}

/// Appends the `RowDescription`; `formats` are as in `Bind`.
pub(super) fn write_columns(columns: &[Column], formats: &[i16], out: &mut BytesMut) {
    let field = |column: &Column| {
        let (type_oid, type_len) = column.kind.type_of();
        Field {
            name: column.name.as_bytes().to_vec(),
            table: 0,
            column: 0,
            type_oid,
            type_len,
            type_modifier: -1,
        }
    };
    let fields: Vec<Field> = columns.iter().map(field).collect();
    backend::write_fields(out, &fields, formats);
}

/// Appends a `DataRow`.
pub(super) fn write_row(columns: &[Column], formats: &[i16], row: &Row, out: &mut BytesMut) {
    let format = |place: usize| match formats {
        [] => 0,
        [one] => *one,
        all => all.get(place).copied().unwrap_or(0),
    };
    let values = columns.iter().zip(row).enumerate();
    let values = values.map(|(place, (column, value))| value.encode(column.kind, format(place)));
    let values: Vec<Option<Vec<u8>>> = values.collect();
    backend::write_row(out, values.iter().map(Option::as_deref));
}

impl Value {
    /// Its bytes; `None` for NULL.
    fn encode(&self, kind: Kind, format: i16) -> Option<Vec<u8>> {
        let number = match self {
            Self::Null => return None,
            Self::Text(text) => return Some(text.clone().into_bytes()),
            Self::Float(number) if format == 1 => return Some(number.to_be_bytes().to_vec()),
            Self::Float(number) => return Some(number.to_string().into_bytes()),
            Self::Number(number) => *number,
        };
        Some(match (kind, format) {
            (Kind::Int4, 1) => at_most_i32(number).to_be_bytes().to_vec(),
            (Kind::Int4, _) => at_most_i32(number).to_string().into_bytes(),
            (Kind::Int8, 1) => at_most_i64(number).to_be_bytes().to_vec(),
            (Kind::Int8, _) => at_most_i64(number).to_string().into_bytes(),
            (Kind::Numeric, 1) => numeric(number),
            _ => number.to_string().into_bytes(),
        })
    }
}

fn at_most_i32(number: u64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn at_most_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A whole number in the binary format of `numeric`: digits to the base of 10,000, the first one's weight, sign, scale.
fn numeric(number: u64) -> Vec<u8> {
    const BASE: u64 = 10_000;
    let mut digits = Vec::new();
    let mut rest = number;
    while rest > 0 {
        digits.push(u16::try_from(rest % BASE).unwrap_or_default());
        rest /= BASE;
    }
    let count = u16::try_from(digits.len()).unwrap_or_default();
    let mut out = Vec::new();
    for word in [count, count.saturating_sub(1), 0, 0] {
        out.put_u16(word);
    }
    digits.iter().rev().for_each(|digit| out.put_u16(*digit));
    out
}

/// Columns and a letter for the type of each .
pub(super) struct Columns {
    pub(super) kinds: &'static str,
    pub(super) names: &'static [&'static str],
}

impl Columns {
    pub(super) fn columns(&self) -> Vec<Column> {
        columns(self.kinds, self.names)
    }
}
