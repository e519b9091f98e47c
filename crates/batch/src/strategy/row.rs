//! LineKeys of rows in a form in which equal keys are equal bytes, without evaluating anything: see [`KeyClass`].

use crate::line::LineKey;
use paceline_relay::request::Request;
use paceline_sql::fold::{KeyClass, KeyColumn};
use paceline_sql::{KeyValue, TableFacts};
use std::hash::{DefaultHasher, Hash, Hasher};

/// How the rows of a table are told apart by the units of a template.
#[derive(Debug)]
pub(super) struct RowKeys {
    columns: Vec<KeyColumn>,
    /// OIDs of the template's parameters.
    parameters: Vec<u32>,
    /// TableId and key columns: what a key's hash starts with.
    seed: u64,
}

/// The key of a row.
pub(super) type RowKey = Vec<KeyPart>;

impl RowKeys {
    pub(super) fn new(columns: &[KeyColumn], table: &TableFacts, parameters: &[u32]) -> Self {
        let mut hasher = DefaultHasher::new();
        table.extent.tree.hash(&mut hasher);
        let oids = columns.iter().map(|column| column.type_oid);
        oids.for_each(|oid| oid.hash(&mut hasher));
        Self {
            columns: columns.to_vec(),
            parameters: parameters.to_vec(),
            seed: hasher.finish(),
        }
    }

    /// How many columns a key has.
    pub(super) fn len(&self) -> usize {
        self.columns.len()
    }

    /// OIDs of their types.
    pub(super) fn type_oids(&self) -> impl Iterator<Item = u32> {
        self.columns.iter().map(|column| column.type_oid)
    }

    /// Only PostgreSQL can tell whether two keys are equal.
    pub(super) fn are_opaque(&self) -> bool {
        let mut columns = self.columns.iter();
        columns.any(|column| column.class == KeyClass::Opaque)
    }

    /// The key of a unit's row. `None`: NULL, or not written in the usual way.
    pub(super) fn of(&self, request: &Request) -> Option<RowKey> {
        let columns = self.columns.iter();
        columns
            .map(|column| KeyPart::read(column, &self.parameters, request))
            .collect()
    }

    /// The key of a row that comes back in binary format.
    pub(super) fn returned(&self, values: &[Option<&[u8]>]) -> Option<RowKey> {
        let columns = self.columns.iter().zip(values);
        columns
            .map(|(column, value)| KeyPart::returned(column, (*value)?))
            .collect()
    }

    /// Blanks behind its end may get lost on the way into a column: varchar(n) cuts them off where they are too many.
    pub(super) fn may_be_trimmed(&self, row: &RowKey) -> bool {
        let text = |column: &KeyColumn| column.class == KeyClass::Text;
        let parts = self.columns.iter().zip(row);
        let mut texts = parts.filter(|(column, _)| text(column));
        texts.any(|(_, part)| part.bytes.ends_with(b" "))
    }

    /// As the line knows it.
    pub(super) fn line_key(&self, row: &RowKey) -> LineKey {
        let mut hasher = DefaultHasher::new();
        (self.seed, row).hash(&mut hasher);
        LineKey(hasher.finish())
    }
}

/// A column's value in a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPart {
    pub(super) binary: bool,
    pub(super) bytes: Vec<u8>,
}

impl KeyPart {
    fn text(bytes: Vec<u8>) -> Self {
        Self {
            binary: false,
            bytes,
        }
    }

    fn returned(column: &KeyColumn, bytes: &[u8]) -> Option<Self> {
        let bytes = match column.class {
            KeyClass::Integer => read_integer(true, bytes)?.to_string().into_bytes(),
            KeyClass::Uuid => read_uuid(true, bytes)?,
            KeyClass::Text | KeyClass::Opaque => bytes.to_vec(),
        };
        Some(Self::text(bytes))
    }

    fn read(column: &KeyColumn, parameters: &[u32], request: &Request) -> Option<Self> {
        let (binary, bytes) = match &column.value {
            KeyValue::Parameter(number) => {
                let (binary, value) = request.parameter(*number)?;
                (binary, value?)
            }
            KeyValue::Constant { text, .. } => (false, text.as_bytes()),
        };
        match column.class {
            KeyClass::Integer => {
                let value = read_integer(binary, bytes)?;
                let declared = match &column.value {
                    KeyValue::Parameter(number) => *parameters.get(*number as usize - 1)?,
                    KeyValue::Constant { .. } => column.type_oid,
                };
                let named = fits_integer(column.type_oid, value) && fits_integer(declared, value);
                let whole = !binary || bytes.len() == integer_len(declared);
                (named && whole).then(|| Self::text(value.to_string().into_bytes()))
            }
            KeyClass::Uuid => read_uuid(binary, bytes).map(Self::text),
            KeyClass::Text => Some(Self::text(bytes.to_vec())),
            // 'now' is another moment for everybody.
            KeyClass::Opaque if !binary && names_moment(bytes) => None,
            KeyClass::Opaque => Some(Self {
                binary,
                bytes: bytes.to_vec(),
            }),
        }
    }
}

fn names_moment(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(paceline_sql::names_moment)
}

/// An integer parameter; text only as PostgreSQL itself would print it.
fn read_integer(binary: bool, bytes: &[u8]) -> Option<i64> {
    if binary {
        return match *bytes {
            [a, b] => Some(i16::from_be_bytes([a, b]).into()),
            [a, b, c, d] => Some(i32::from_be_bytes([a, b, c, d]).into()),
            _ => bytes.try_into().ok().map(i64::from_be_bytes),
        };
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let value: i64 = text.parse().ok()?;
    (!text.starts_with('+')).then_some(value)
}

const INT2: u32 = 21;
const INT4: u32 = 23;

/// Bytes of an integer in binary format.
fn integer_len(type_oid: u32) -> usize {
    match type_oid {
        INT2 => 2,
        INT4 => 4,
        _ => 8,
    }
}

/// Does the type hold such a value?
fn fits_integer(type_oid: u32, value: i64) -> bool {
    match type_oid {
        INT2 => i16::try_from(value).is_ok(),
        INT4 => i32::try_from(value).is_ok(),
        _ => true,
    }
}

/// A uuid in lower case with hyphens; from text only if it is written that way but for its case.
fn read_uuid(binary: bool, bytes: &[u8]) -> Option<Vec<u8>> {
    const HYPHENS: [usize; 4] = [8, 13, 18, 23];
    if binary {
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        let parts = [
            hex.get(..8)?,
            hex.get(8..12)?,
            hex.get(12..16)?,
            hex.get(16..20)?,
            hex.get(20..32)?,
        ];
        return (bytes.len() == 16).then(|| parts.join("-").into_bytes());
    }
    let well_formed = bytes.len() == 36
        && bytes
            .iter()
            .enumerate()
            .all(|(n, b)| match HYPHENS.contains(&n) {
                true => *b == b'-',
                false => b.is_ascii_hexdigit(),
            });
    well_formed.then(|| bytes.to_ascii_lowercase())
}
