//! Tables of the console.
//!
//! `CONTRIBUTING.md` lists the steps to add a column.
//!
//! # Adding a table
//! Write a file under `show/` with a [`ConsoleTable`], and add the table to the list in `show.rs` and to the text of `SHOW HELP`
//! in `execute.rs`.

use bytes::{BufMut, BytesMut};
use paceline_proxy::proxy::Proxy;
use paceline_wire::backend::{self, Field};
use std::fmt;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnType {
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

/// Name, type and value of a column. `R` is the record that a row is made of.
pub(super) type ConsoleColumn<R> = (&'static str, ColumnType, fn(&R) -> ConsoleValue);

/// A table whose rows are made of records of type `R`.
pub(super) struct ConsoleTable<R: 'static> {
    /// The word after `SHOW`, in lower case.
    name: &'static str,
    /// The columns. The parts follow each other, so that tables can share some.
    columns: &'static [&'static [ConsoleColumn<R>]],
    /// Collects the records.
    pub(super) records: fn(&Proxy) -> Vec<R>,
}

/// A [`ConsoleTable`] of any record type.
pub(crate) trait AnyTable: Sync {
    /// The word after `SHOW`, in lower case.
    fn name(&self) -> &'static str;
    /// Names and types of the columns.
    fn headings(&self) -> Vec<Heading>;
    /// The rows at this moment.
    fn rows(&self, proxy: &Proxy) -> Vec<ConsoleRow>;
}

/// Compares tables by their names, which are unique.
impl PartialEq for dyn AnyTable {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn AnyTable {}

impl fmt::Debug for dyn AnyTable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Name and type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heading {
    pub(crate) name: &'static str,
    pub(crate) column_type: ColumnType,
}

/// A value. A number that does not fit into the type of its column is written as the largest number that fits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ConsoleValue {
    Null,
    Text(String),
    Number(u64),
    Float(f64),
}

/// A row: one value for each column.
pub(crate) type ConsoleRow = Vec<ConsoleValue>;

impl From<&str> for ConsoleValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for ConsoleValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<usize> for ConsoleValue {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

macro_rules! from_number {
    ($($number:ty),*) => {
        $(impl From<$number> for ConsoleValue {
            fn from(number: $number) -> Self {
                Self::Number(number.into())
            }
        })*
    };
}

// As in PgBouncer, false is 0 and true is 1.
from_number!(u64, u32, u16, bool);

impl From<Option<String>> for ConsoleValue {
    fn from(text: Option<String>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }
}

impl From<Option<u64>> for ConsoleValue {
    fn from(number: Option<u64>) -> Self {
        number.map_or(Self::Null, Self::Number)
    }
}

/// The value of a column that is 0 in every row.
pub(super) fn zero<R>(_: &R) -> ConsoleValue {
    ConsoleValue::Number(0)
}

/// The value of a column that is NULL in every row.
pub(super) fn null<R>(_: &R) -> ConsoleValue {
    ConsoleValue::Null
}

impl<R> ConsoleTable<R> {
    pub(super) const fn new(
        name: &'static str,
        columns: &'static [&'static [ConsoleColumn<R>]],
        records: fn(&Proxy) -> Vec<R>,
    ) -> Self {
        Self {
            name,
            columns,
            records,
        }
    }

    fn all_columns(&self) -> impl Iterator<Item = &'static ConsoleColumn<R>> {
        self.columns.iter().copied().flatten()
    }
}

impl<R> AnyTable for ConsoleTable<R> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn headings(&self) -> Vec<Heading> {
        let heading = |(name, column_type, _): &ConsoleColumn<R>| Heading {
            name,
            column_type: *column_type,
        };
        self.all_columns().map(heading).collect()
    }

    fn rows(&self, proxy: &Proxy) -> Vec<ConsoleRow> {
        let cells = |record: &R| {
            let columns = self.all_columns();
            columns.map(|(.., value)| value(record)).collect()
        };
        (self.records)(proxy).iter().map(cells).collect()
    }
}

impl ColumnType {
    /// OID and length; the length is negative if it varies.
    fn oid_and_len(self) -> (u32, i16) {
        match self {
            Self::Text => (25, -1),
            Self::Int4 => (23, 4),
            Self::Int8 => (20, 8),
            Self::Numeric => (1700, -1),
            Self::Float8 => (701, 8),
        }
    }
}

/// Appends the `RowDescription`; `formats` are as in `Bind`.
pub(super) fn write_headings(headings: &[Heading], formats: &[i16], out: &mut BytesMut) {
    let field = |heading: &Heading| {
        let (type_oid, type_len) = heading.column_type.oid_and_len();
        Field {
            name: heading.name.as_bytes().to_vec(),
            table: 0,
            column: 0,
            type_oid,
            type_len,
            type_modifier: -1,
        }
    };
    let fields: Vec<Field> = headings.iter().map(field).collect();
    backend::write_fields(out, &fields, formats);
}

/// Appends a `DataRow`.
pub(super) fn write_row(
    headings: &[Heading],
    formats: &[i16],
    row: &ConsoleRow,
    out: &mut BytesMut,
) {
    let format = |index: usize| match formats {
        [] => 0,
        [one] => *one,
        all => all.get(index).copied().unwrap_or(0),
    };
    let values = headings.iter().zip(row).enumerate();
    let values =
        values.map(|(index, (heading, value))| value.encode(heading.column_type, format(index)));
    let values: Vec<Option<Vec<u8>>> = values.collect();
    backend::write_row(out, values.iter().map(Option::as_deref));
}

impl ConsoleValue {
    /// The value in the format (0: text, 1: binary); `None` for NULL.
    fn encode(&self, column_type: ColumnType, format: i16) -> Option<Vec<u8>> {
        let number = match self {
            Self::Null => return None,
            Self::Text(text) => return Some(text.clone().into_bytes()),
            Self::Float(number) if format == 1 => return Some(number.to_be_bytes().to_vec()),
            Self::Float(number) => return Some(number.to_string().into_bytes()),
            Self::Number(number) => *number,
        };
        Some(match (column_type, format) {
            (ColumnType::Int4, 1) => at_most_i32(number).to_be_bytes().to_vec(),
            (ColumnType::Int4, _) => at_most_i32(number).to_string().into_bytes(),
            (ColumnType::Int8, 1) => at_most_i64(number).to_be_bytes().to_vec(),
            (ColumnType::Int8, _) => at_most_i64(number).to_string().into_bytes(),
            (ColumnType::Numeric, 1) => numeric(number),
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

/// A whole number in the binary format of `numeric`: number of digits to the base of 10,000, weight of the first, sign, scale,
/// digits.
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
