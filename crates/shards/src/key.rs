//! The types of partition keys that Paceline compares itself, and their values.

use std::borrow::Cow;
use std::fmt;

/// A type whose values Paceline hashes and compares exactly as PostgreSQL does, with PostgreSQL's default operator classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `uuid`
    Uuid,
    /// `boolean`
    Bool,
    /// `date`
    Date,
    /// `timestamp without time zone`
    Timestamp,
    /// `timestamp with time zone`
    Timestamptz,
    /// `text` with a deterministic collation, in a database with encoding UTF8: by hash and list only
    Text,
}

/// A value of a key column.
///
/// Two values are equal if and only if PostgreSQL's `=` for the type says so. Values order as PostgreSQL orders them, except texts,
/// whose order depends on the collation, and NULL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyValue<'a> {
    /// NULL, as a row has it. No row satisfies `key = NULL`.
    Null,
    /// For the integer types.
    Int(i64),
    /// In the order of the text, as PostgreSQL stores it.
    Uuid([u8; 16]),
    /// For `boolean`.
    Bool(bool),
    /// Days since 2000-01-01. `-infinity` is [`i32::MIN`], `infinity` is [`i32::MAX`].
    Date(i32),
    /// Microseconds since 2000-01-01 00:00:00, in UTC for `timestamptz`. `-infinity` is [`i64::MIN`], `infinity` is [`i64::MAX`].
    Timestamp(i64),
    /// In UTF-8, the encoding of the database.
    Text(Cow<'a, str>),
}

impl KeyType {
    /// The type with this OID; `None` for every other type.
    #[must_use]
    pub fn from_oid(oid: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|key_type| key_type.oid() == oid)
    }

    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Int2,
        Self::Int4,
        Self::Int8,
        Self::Uuid,
        Self::Bool,
        Self::Date,
        Self::Timestamp,
        Self::Timestamptz,
        Self::Text,
    ];

    /// The OID of the type.
    #[must_use]
    pub fn oid(self) -> u32 {
        match self {
            Self::Bool => 16,
            Self::Int8 => 20,
            Self::Int2 => 21,
            Self::Int4 => 23,
            Self::Text => 25,
            Self::Date => 1082,
            Self::Timestamp => 1114,
            Self::Timestamptz => 1184,
            Self::Uuid => 2950,
        }
    }

    /// Whether a column of this type can have the value. NULL fits every type.
    #[must_use]
    pub fn has(self, value: &KeyValue<'_>) -> bool {
        match (self, value) {
            (_, KeyValue::Null)
            | (Self::Int8, KeyValue::Int(_))
            | (Self::Uuid, KeyValue::Uuid(_))
            | (Self::Bool, KeyValue::Bool(_))
            | (Self::Date, KeyValue::Date(_))
            | (Self::Timestamp | Self::Timestamptz, KeyValue::Timestamp(_))
            | (Self::Text, KeyValue::Text(_)) => true,
            (Self::Int2, KeyValue::Int(value)) => i16::try_from(*value).is_ok(),
            (Self::Int4, KeyValue::Int(value)) => i32::try_from(*value).is_ok(),
            _ => false,
        }
    }

    /// Whether Paceline knows the order of the values: then it supports partitions by range.
    #[must_use]
    pub fn is_ordered(self) -> bool {
        self != Self::Text
    }
}

impl KeyValue<'_> {
    /// The same value, independent of its source.
    #[must_use]
    pub fn into_owned(self) -> KeyValue<'static> {
        match self {
            Self::Null => KeyValue::Null,
            Self::Int(value) => KeyValue::Int(value),
            Self::Uuid(value) => KeyValue::Uuid(value),
            Self::Bool(value) => KeyValue::Bool(value),
            Self::Date(value) => KeyValue::Date(value),
            Self::Timestamp(value) => KeyValue::Timestamp(value),
            Self::Text(value) => KeyValue::Text(Cow::Owned(value.into_owned())),
        }
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Int2 => "smallint",
            Self::Int4 => "integer",
            Self::Int8 => "bigint",
            Self::Uuid => "uuid",
            Self::Bool => "boolean",
            Self::Date => "date",
            Self::Timestamp => "timestamp without time zone",
            Self::Timestamptz => "timestamp with time zone",
            Self::Text => "text",
        })
    }
}
