//! Keys of rows in a form in which equal keys are equal bytes, so that no expression is evaluated to compare them (see
//! [`KeyClass`]).

use crate::line::{GroupId, LineKey, LineKeys};
use paceline_relay::request::Request;
use paceline_sql::fold::{KeyClass, KeyColumn};
use paceline_sql::{KeyValue, TableFacts, depends_on_parse_time};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The columns by which requests of a template identify a row.
#[derive(Debug)]
pub(super) struct RowKeys {
    columns: Vec<KeyColumn>,
    /// OIDs of the template's parameters.
    parameters: Vec<u32>,
    /// Hash of the table and of the types of the key columns, with which the hash of a key begins. For two keys of a table that
    /// have the same types, equal values have the same hash: then requests wait for each other although they need not.
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

    /// Number of columns.
    pub(super) fn len(&self) -> usize {
        self.columns.len()
    }

    /// OIDs of the columns' types.
    pub(super) fn type_oids(&self) -> impl Iterator<Item = u32> {
        self.columns.iter().map(|column| column.type_oid)
    }

    /// Whether only PostgreSQL can compare two keys.
    pub(super) fn are_opaque(&self) -> bool {
        let mut columns = self.columns.iter();
        columns.any(|column| column.class == KeyClass::Opaque)
    }

    /// The key of a request's row. `None` if it is NULL, not in the form in which PostgreSQL prints it, or a text whose conversion
    /// between encodings may make it equal to another one.
    pub(super) fn of(&self, request: &Request) -> Option<RowKey> {
        let columns = self.columns.iter();
        columns
            .map(|column| KeyPart::read(column, &self.parameters, request))
            .collect()
    }

    /// The key of a row of a result in binary format.
    pub(super) fn returned(&self, values: &[Option<&[u8]>]) -> Option<RowKey> {
        let columns = self.columns.iter().zip(values);
        columns
            .map(|(column, value)| KeyPart::returned(column, (*value)?))
            .collect()
    }

    /// Whether a column may store another key, because varchar(n) removes excess blanks at the end.
    pub(super) fn may_be_trimmed(&self, row: &RowKey) -> bool {
        let text = |column: &KeyColumn| matches!(column.class, KeyClass::Text | KeyClass::Ascii);
        let parts = self.columns.iter().zip(row);
        let mut texts = parts.filter(|(column, _)| text(column));
        texts.any(|(_, part)| part.bytes.ends_with(b" "))
    }

    /// The group and the key in the line of a request on this row. If only PostgreSQL can compare keys, a group has requests with
    /// the same bytes only.
    pub(super) fn group_on_row(&self, group: GroupId, row: &RowKey) -> (GroupId, LineKeys) {
        let key = self.line_key(row);
        let cohort = match self.are_opaque() {
            true => key.cohort(),
            false => group.cohort,
        };
        (GroupId { cohort, ..group }, LineKeys::One(key))
    }

    /// The key by which the line orders requests on this row.
    pub(super) fn line_key(&self, row: &RowKey) -> LineKey {
        let mut hasher = DefaultHasher::new();
        (self.seed, row).hash(&mut hasher);
        LineKey(hasher.finish())
    }
}

/// The value of one column of a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPart {
    pub(super) binary: bool,
    pub(super) bytes: Vec<u8>,
}

/// The value as text; in hexadecimal digits if only PostgreSQL can read its binary form.
impl fmt::Display for KeyPart {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.binary {
            return out.write_str(&String::from_utf8_lossy(&self.bytes));
        }
        out.write_str("\\x")?;
        self.bytes
            .iter()
            .try_for_each(|byte| write!(out, "{byte:02x}"))
    }
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
            KeyClass::Text | KeyClass::Ascii | KeyClass::Opaque => bytes.to_vec(),
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
            KeyClass::Ascii if !bytes.is_ascii() => None,
            KeyClass::Text | KeyClass::Ascii => Some(Self::text(bytes.to_vec())),
            // 'now' means another time for each request.
            KeyClass::Opaque if !binary && depends_on_parse_time(bytes) => None,
            KeyClass::Opaque => Some(Self {
                binary,
                bytes: bytes.to_vec(),
            }),
        }
    }
}

/// Reads an integer. `None` if it is text in another form than PostgreSQL prints.
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

/// Length of an integer in binary format (bytes).
fn integer_len(type_oid: u32) -> usize {
    match type_oid {
        INT2 => 2,
        INT4 => 4,
        _ => 8,
    }
}

/// Whether the type has this value.
fn fits_integer(type_oid: u32, value: i64) -> bool {
    match type_oid {
        INT2 => i16::try_from(value).is_ok(),
        INT4 => i32::try_from(value).is_ok(),
        _ => true,
    }
}

/// Reads a uuid as lower case text with hyphens. `None` if text has another form, apart from its case.
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
