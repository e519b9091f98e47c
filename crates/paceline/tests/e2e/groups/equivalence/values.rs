//! Types, their values, and the literal of a value.

use crate::harness::Rng;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Int2,
    Int4,
    Int8,
    Positive,
    Numeric,
    Price,
    Float8,
    Text,
    Varchar,
    Short,
    Uuid,
    Timestamptz,
    Bool,
    Jsonb,
    IntArray,
    TextArray,
}

/// The use of a parameter, which decides its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A whole number.
    Int,
    /// A number with a fraction.
    Decimal,
    Text,
    Interval,
    Json,
    Bool,
    /// A value of the column's own type.
    Own(Kind),
    /// Part of the key: column number.
    Key(usize),
}

/// A parameter's value; `None` is NULL.
pub(super) type Value = Option<String>;

impl Kind {
    pub(super) const ALL: &[Kind] = &[
        Kind::Int2,
        Kind::Int4,
        Kind::Int4,
        Kind::Int8,
        Kind::Positive,
        Kind::Numeric,
        Kind::Price,
        Kind::Float8,
        Kind::Text,
        Kind::Varchar,
        Kind::Short,
        Kind::Uuid,
        Kind::Timestamptz,
        Kind::Bool,
        Kind::Jsonb,
        Kind::IntArray,
        Kind::TextArray,
    ];

    pub(super) fn sql(self) -> &'static str {
        match self {
            Kind::Int2 => "int2",
            Kind::Int4 => "int4",
            Kind::Int8 => "int8",
            Kind::Positive => "positive",
            Kind::Numeric => "numeric",
            Kind::Price => "numeric(8,2)",
            Kind::Float8 => "float8",
            Kind::Text => "text",
            Kind::Varchar => "varchar(10)",
            Kind::Short => "short",
            Kind::Uuid => "uuid",
            Kind::Timestamptz => "timestamptz",
            Kind::Bool => "bool",
            Kind::Jsonb => "jsonb",
            Kind::IntArray => "int[]",
            Kind::TextArray => "text[]",
        }
    }

    pub(super) fn is_integer(self) -> bool {
        matches!(self, Kind::Int2 | Kind::Int4 | Kind::Int8 | Kind::Positive)
    }

    pub(super) fn is_number(self) -> bool {
        self.is_integer() || matches!(self, Kind::Numeric | Kind::Price | Kind::Float8)
    }

    pub(super) fn is_text(self) -> bool {
        matches!(self, Kind::Text | Kind::Varchar | Kind::Short)
    }

    /// The key of row `row`.
    pub(super) fn key(self, row: usize) -> String {
        match self {
            Kind::Uuid => format!("00000000-0000-4000-8000-00000000000{row}"),
            kind if kind.is_number() => row.to_string(),
            _ => format!("key '{row}'"),
        }
    }

    /// A value that violates nothing.
    pub(super) fn initial(self, rng: &mut Rng) -> String {
        match self {
            kind if kind.is_number() => rng.between(0, 100).to_string(),
            kind => kind.sample(rng),
        }
    }

    /// A value that may violate something.
    pub(super) fn sample(self, rng: &mut Rng) -> String {
        let list: &[&str] = match self {
            kind if kind.is_integer() => return whole(rng),
            kind if kind.is_number() => return decimal(rng),
            kind if kind.is_text() => &["a", "bc", "", "é✓", "it's", "six ch"],
            Kind::Uuid => &[
                "11111111-2222-4333-8444-555555555555",
                "A0EEBC999C0B4EF8BB6D6BB9BD380A11",
            ],
            Kind::Timestamptz => &[
                "2024-02-29 12:00:00+02",
                "1999-12-31 23:59:59.123456+00",
                "infinity",
            ],
            Kind::Bool => &["true", "false"],
            Kind::Jsonb => &[r#"{"a": 1}"#, r#"{"b": [1, null]}"#, "[1, 2]", "3", "null"],
            Kind::IntArray => &["{1,2}", "{}", "{NULL,7}"],
            _ => &["{a,b}", "{}", r#"{"x,y",NULL}"#],
        };
        (*rng.pick(list)).to_owned()
    }
}

impl Role {
    /// A value for the role; the row decides the key.
    pub(super) fn sample(self, rng: &mut Rng) -> Value {
        if rng.chance(7) {
            return None;
        }
        let list: &[&str] = match self {
            Role::Int => return Some(whole(rng)),
            Role::Decimal => return Some(decimal(rng)),
            Role::Own(kind) => return Some(kind.sample(rng)),
            Role::Key(_) => return None,
            Role::Text => &["x", "", "ü", "it's", "back\\slash", "longer than ten", "%"],
            Role::Interval => &["1 day", "-2 hours", "1 mon 3 days", "0"],
            Role::Json => &[r#"{"a": 2}"#, r#"[3]"#, "4", r#"{"c": "it's"}"#, "null"],
            Role::Bool => &["true", "false"],
        };
        Some((*rng.pick(list)).to_owned())
    }

    /// Whether a value can be written without quotes in a simple query, beside `'…'`.
    fn allows_bare(self) -> bool {
        match self {
            Role::Int | Role::Decimal | Role::Bool => true,
            Role::Own(kind) => kind.is_number() || kind == Kind::Bool,
            _ => false,
        }
    }
}

fn whole(rng: &mut Rng) -> String {
    match rng.below(20) {
        0 => "0".to_owned(),
        1 => "-3".to_owned(),
        2 => (*rng.pick(&["32767", "2147483647", "3000000000", "9223372036854775807"])).to_owned(),
        _ => rng.between(0, 9).to_string(),
    }
}

fn decimal(rng: &mut Rng) -> String {
    let rare = [
        "0",
        "-2.25",
        "99999999.99",
        "1e3",
        "-0.005",
        "123456789012345678901234567890.5",
    ];
    match rng.below(10) {
        0 => (*rng.pick(&rare)).to_owned(),
        _ => format!("{}.{}", rng.below(9), rng.below(100)),
    }
}

/// A string literal, or NULL.
pub(super) fn quoted(value: Option<&str>) -> String {
    match value {
        None => "NULL".to_owned(),
        Some(text) => format!("'{}'", text.replace('\'', "''")),
    }
}

/// The value as a literal of some kind, and the kind's name.
pub(super) fn literal(
    role: Role,
    key_is_number: bool,
    value: &Value,
    rng: &mut Rng,
) -> (String, &'static str) {
    let Some(text) = value else {
        return ("NULL".to_owned(), "null");
    };
    let bare = role.allows_bare() || (matches!(role, Role::Key(_)) && key_is_number);
    if bare && rng.chance(75) {
        return (text.clone(), number_kind(text));
    }
    match rng.below(10) {
        0 => (
            format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "\\'")),
            "escaped",
        ),
        1 if !text.contains('$') => (format!("$q${text}$q$"), "dollar"),
        _ => (quoted(Some(text)), "string"),
    }
}

/// Literals of different sizes have different types.
fn number_kind(text: &str) -> &'static str {
    match text.parse::<i64>() {
        Ok(number) if i32::try_from(number).is_ok() => "int4",
        Ok(_) => "int8",
        Err(_) => "other",
    }
}
