//! Values and types of the simulated PostgreSQL, and their representations in messages.

use super::error::{SqlError, failed};
use bytes::{BufMut, BytesMut};
use std::cmp::Ordering;
use std::fmt::Write as _;
use std::rc::Rc;

/// A type that the simulation knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Bool,
    Int4,
    Int8,
    Text,
    /// Only the times of analyses, and of transactions.
    Timestamp,
    BoolArray,
    Int4Array,
    Int8Array,
    TextArray,
    /// A literal or parameter whose type the context decides.
    Unknown,
}

const TYPES: [(Type, u32, i16); 9] = [
    (Type::Bool, 16, 1),
    (Type::Int8, 20, 8),
    (Type::Int4, 23, 4),
    (Type::Text, 25, -1),
    (Type::Timestamp, 1184, 8),
    (Type::BoolArray, 1000, -1),
    (Type::Int4Array, 1007, -1),
    (Type::Int8Array, 1016, -1),
    (Type::TextArray, 1009, -1),
];

/// The time at which each statement was analyzed.
pub(crate) const ANALYZED_AT: i64 = 1;

/// The time at which each transaction begins: after all analyses.
pub(crate) const BEGUN_AT: i64 = 2;

impl Type {
    pub(crate) fn of_oid(oid: u32) -> Self {
        let known = TYPES.iter().find(|(_, known, _)| *known == oid);
        known.map_or(Self::Unknown, |(of, _, _)| *of)
    }

    pub(crate) fn oid(self) -> u32 {
        self.entry().1
    }

    /// The size in a row description.
    pub(crate) fn size(self) -> i16 {
        self.entry().2
    }

    fn entry(self) -> (Self, u32, i16) {
        let known = TYPES.iter().find(|(of, _, _)| *of == self);
        *known.unwrap_or(&TYPES[3])
    }

    /// By the name in a cast.
    pub(crate) fn named(name: &str, array: bool) -> Option<Self> {
        Some(match (name, array) {
            ("bool" | "boolean", false) => Self::Bool,
            ("int4" | "int" | "integer", false) => Self::Int4,
            ("int8" | "bigint" | "xid", false) => Self::Int8,
            ("text" | "varchar" | "tsquery", false) => Self::Text,
            ("timestamptz", false) => Self::Timestamp,
            ("bool" | "boolean", true) => Self::BoolArray,
            ("int4" | "int" | "integer", true) => Self::Int4Array,
            ("int8" | "bigint", true) => Self::Int8Array,
            ("text" | "varchar", true) => Self::TextArray,
            _ => return None,
        })
    }

    pub(crate) fn element(self) -> Self {
        match self {
            Self::BoolArray => Self::Bool,
            Self::Int4Array => Self::Int4,
            Self::Int8Array => Self::Int8,
            Self::TextArray => Self::Text,
            other => other,
        }
    }

    fn is_array(self) -> bool {
        self.element() != self
    }
}

/// The row of a table to which a version belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RowId {
    pub(crate) table: usize,
    pub(crate) row: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int4(i32),
    Int8(i64),
    Text(Rc<str>),
    Array(Rc<Vec<Value>>),
    Row(RowId),
}

impl Value {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(Rc::from(text))
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub(crate) fn is_true(&self) -> bool {
        matches!(self, Self::Bool(true))
    }

    pub(crate) fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int4(number) => Some(i64::from(*number)),
            Self::Int8(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Null, _) | (_, Self::Null) => None,
            (Self::Text(one), Self::Text(other)) => Some(one.cmp(other)),
            (Self::Bool(one), Self::Bool(other)) => Some(one.cmp(other)),
            (one, other) => Some(one.as_int()?.cmp(&other.as_int()?)),
        }
    }

    /// As text; `None` for null.
    pub(crate) fn to_text(&self) -> Option<String> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(true) => "t".to_owned(),
            Self::Bool(false) => "f".to_owned(),
            Self::Int4(number) => number.to_string(),
            Self::Int8(number) => number.to_string(),
            Self::Text(text) => text.to_string(),
            Self::Array(items) => array_text(items),
            Self::Row(id) => format!("(0,{})", id.row),
        })
    }

    pub(crate) fn cast(&self, to: Type) -> Result<Self, SqlError> {
        Ok(match (self, to) {
            (Self::Null, _) => Self::Null,
            (Self::Bool(_), Type::Bool)
            | (Self::Int4(_), Type::Int4)
            | (Self::Int8(_), Type::Int8 | Type::Timestamp)
            | (Self::Text(_), Type::Text)
            | (_, Type::Unknown) => self.clone(),
            (Self::Bool(yes), Type::Text) => Self::text(if *yes { "true" } else { "false" }),
            (Self::Int4(number), Type::Int8) => Self::Int8(i64::from(*number)),
            (Self::Int8(number), Type::Int4) => match i32::try_from(*number) {
                Ok(number) => Self::Int4(number),
                Err(_) => return Err(failed("22003", "integer out of range")),
            },
            (Self::Text(text), _) => read_text(text, to)?,
            (Self::Array(items), _) if to.is_array() => {
                let items = items.iter().map(|item| item.cast(to.element()));
                Self::Array(Rc::new(items.collect::<Result<_, _>>()?))
            }
            (other, Type::Text) => other.to_text().map_or(Self::Null, |text| Self::text(&text)),
            (other, to) => panic!("a cast of {other:?} to {to:?} is not simulated"),
        })
    }

    /// Writes the value with its length, as in a DataRow.
    pub(crate) fn write(&self, binary: bool, out: &mut BytesMut) {
        if self.is_null() {
            return out.put_i32(-1);
        }
        let mut bytes = BytesMut::new();
        match (binary, self) {
            (true, Self::Bool(yes)) => bytes.put_u8(u8::from(*yes)),
            (true, Self::Int4(number)) => bytes.put_i32(*number),
            (true, Self::Int8(number)) => bytes.put_i64(*number),
            (true, Self::Array(_)) => panic!("binary arrays are not sent"),
            (_, other) => bytes.put_slice(other.to_text().unwrap_or_default().as_bytes()),
        }
        out.put_i32(i32::try_from(bytes.len()).unwrap());
        out.put_slice(&bytes);
    }
}

fn array_text(items: &[Value]) -> String {
    let mut text = String::from("{");
    for (place, item) in items.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        match item.to_text() {
            Some(item) => write!(text, "{comma}{item}").unwrap(),
            None => write!(text, "{comma}NULL").unwrap(),
        }
    }
    text + "}"
}

/// Reads a value in text format.
pub(crate) fn read_text(text: &str, of: Type) -> Result<Value, SqlError> {
    let invalid = |name: &str| {
        let message = format!("invalid input syntax for type {name}: \"{text}\"");
        failed("22P02", &message)
    };
    Ok(match of {
        Type::Text | Type::Unknown => Value::text(text),
        Type::Bool => match text {
            "t" | "true" | "on" => Value::Bool(true),
            "f" | "false" | "off" => Value::Bool(false),
            _ => return Err(invalid("boolean")),
        },
        Type::Int4 => Value::Int4(text.trim().parse().map_err(|_| invalid("integer"))?),
        Type::Int8 => Value::Int8(text.trim().parse().map_err(|_| invalid("bigint"))?),
        Type::Timestamp => Value::Int8(match text {
            "now" => ANALYZED_AT,
            "-infinity" => i64::MIN,
            _ => return Err(invalid("timestamp with time zone")),
        }),
        array => read_array(text, array.element())?,
    })
}

/// Reads `{a,"b",NULL}`.
fn read_array(text: &str, element: Type) -> Result<Value, SqlError> {
    let malformed = || failed("22P02", "malformed array literal");
    let inner = text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'));
    let mut chars = inner.ok_or_else(malformed)?.chars().peekable();
    let mut items = Vec::new();
    while chars.peek().is_some() {
        let (mut item, mut quoted) = (String::new(), false);
        while let Some(next) = chars.next() {
            match next {
                '"' => {
                    quoted = true;
                    while let Some(next) = chars.next().filter(|next| *next != '"') {
                        item.push(if next == '\\' {
                            chars.next().ok_or_else(malformed)?
                        } else {
                            next
                        });
                    }
                }
                ',' => break,
                other => item.push(other),
            }
        }
        items.push(match item == "NULL" && !quoted {
            true => Value::Null,
            false => read_text(&item, element)?,
        });
    }
    Ok(Value::Array(Rc::new(items)))
}

/// Reads a value in binary format.
pub(crate) fn read_binary(bytes: &[u8], of: Type) -> Result<Value, SqlError> {
    let wrong = || failed("08P01", "incorrect binary data format");
    Ok(match of {
        Type::Bool => Value::Bool(bytes.first() == Some(&1)),
        Type::Int4 => Value::Int4(i32::from_be_bytes(bytes.try_into().map_err(|_| wrong())?)),
        Type::Int8 | Type::Timestamp => {
            Value::Int8(i64::from_be_bytes(bytes.try_into().map_err(|_| wrong())?))
        }
        Type::Text | Type::Unknown => Value::text(std::str::from_utf8(bytes).map_err(|_| wrong())?),
        array => read_binary_array(bytes, array.element()).ok_or_else(wrong)??,
    })
}

fn read_binary_array(bytes: &[u8], element: Type) -> Option<Result<Value, SqlError>> {
    let int = |at: usize| Some(i32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (dimensions, oid) = (int(0)?, int(8)?);
    if dimensions == 0 {
        return Some(Ok(Value::Array(Rc::default())));
    }
    if dimensions != 1 || oid.cast_unsigned() != element.oid() {
        return None;
    }
    let (mut items, mut at) = (Vec::new(), 20);
    for _ in 0..int(12)? {
        let len = int(at)?;
        at += 4;
        items.push(match usize::try_from(len) {
            Err(_) => Value::Null,
            Ok(len) => {
                at += len;
                match read_binary(bytes.get(at - len..at)?, element) {
                    Ok(item) => item,
                    Err(error) => return Some(Err(error)),
                }
            }
        });
    }
    (at == bytes.len()).then_some(Ok(Value::Array(Rc::new(items))))
}
