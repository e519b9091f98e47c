//! Keys of rows in a form in which equal keys are equal bytes, without evaluating anything: see [`KeyClass`].

use crate::unit::Unit;
use paceline_sql::KeyValue;
use paceline_sql::fold::{KeyClass, KeyColumn};

/// A column's value in a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct KeyPart {
    pub(super) binary: bool,
    pub(super) bytes: Vec<u8>,
}

impl KeyPart {
    pub(super) fn read(column: &KeyColumn, parameters: &[u32], unit: &Unit) -> Option<Self> {
        let (binary, bytes) = match &column.value {
            KeyValue::Parameter(number) => {
                let (binary, value) = unit.parameter(*number)?;
                (binary, value?)
            }
            KeyValue::Constant { text, .. } => (false, text.as_bytes()),
        };
        let text = |bytes: Vec<u8>| Self {
            binary: false,
            bytes,
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
                (named && whole).then(|| text(value.to_string().into_bytes()))
            }
            KeyClass::Uuid => read_uuid(binary, bytes).map(text),
            KeyClass::Text => Some(text(bytes.to_vec())),
            KeyClass::Opaque => Some(Self {
                binary,
                bytes: bytes.to_vec(),
            }),
        }
    }
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
