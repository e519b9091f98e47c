//! The values of key columns in a request, as PostgreSQL reads them.

use super::refusal::RouteRefusal;
use paceline_relay::request::{Request, Values};
use paceline_shards::{KeyColumn, KeyType, KeyValue, LeafId, Route, ShardedTable, decode};
use paceline_sql::keyed::{KeySource, KeyValues, KeyedStatement};
use paceline_sql::{LiteralKind, Name};

/// The leaf of all rows of a request.
pub(super) fn leaf(
    table: &ShardedTable,
    statement: &KeyedStatement,
    request: &Request,
) -> Result<LeafId, RouteRefusal> {
    let read = |source, column: &KeyColumn, is_stored| {
        Reading {
            statement,
            request,
            is_stored,
        }
        .value(source, column)
    };
    match &statement.values {
        // If the text compares a column with several values, no row satisfies it unless they are equal, so any of them will do.
        KeyValues::Conjuncts(found) => found_leaf(table.route(|column| {
            let mut of_column = found.iter().filter(|found| found.column == column.name);
            of_column.find_map(|found| read(&found.value, column, false))
        })),
        KeyValues::Rows { columns, rows } => {
            let mut all = None;
            for row in rows {
                let leaf = found_leaf(table.route(|column| {
                    let place = match columns.is_empty() {
                        true => table.columns.iter().position(|c| c.name == column.name),
                        false => columns.iter().position(|name| *name == column.name),
                    };
                    read(row.get(place?)?.as_ref()?, column, true)
                }))?;
                if all.replace(leaf).is_some_and(|other| other != leaf) {
                    return Err(RouteRefusal::SeveralPartitions);
                }
            }
            all.ok_or(RouteRefusal::SeveralPartitions)
        }
    }
}

fn found_leaf(route: Route) -> Result<LeafId, RouteRefusal> {
    match route {
        Route::Shard(leaf) => Ok(leaf),
        Route::Coordinator(why) => Err(why.into()),
    }
}

/// Reads the values of a request.
#[derive(Clone, Copy)]
struct Reading<'r> {
    statement: &'r KeyedStatement,
    request: &'r Request,
    /// Whether the value is inserted, so that NULL is one; NULL equals nothing.
    is_stored: bool,
}

impl<'r> Reading<'r> {
    /// The value; `None` if PostgreSQL might read another one, or compare it by another operator than that of the column's type.
    fn value(self, source: &'r KeySource, column: &KeyColumn) -> Option<KeyValue<'r>> {
        let (value, cast) = match source {
            KeySource::Null => return self.null(),
            KeySource::Negative(number) => return self.negative(*number, column.key_type),
            KeySource::Value { value, cast } => (value, cast.as_ref()),
        };
        let cast = match cast {
            Some(name) => {
                Some(type_of_name(name).filter(|cast| are_alike(*cast, column.key_type))?)
            }
            None => None,
        };
        if column.key_type == KeyType::Text && !self.request.settings.is_utf8() {
            return None;
        }
        let read_as = cast.unwrap_or(column.key_type);
        match value {
            paceline_sql::KeyValue::Constant { kind, text } => literal(*kind, text, read_as),
            paceline_sql::KeyValue::Parameter(number) => match &self.request.values {
                Values::Literals(literals) => {
                    let literal_of = literals.get((*number as usize).checked_sub(1)?)?;
                    literal(literal_of.kind, &literal_of.text, read_as)
                }
                Values::Bound(_) => self.bound(*number, read_as),
            },
        }
    }

    /// A literal behind a minus sign. A parameter there has a type that PostgreSQL chooses by the operator.
    fn negative(self, number: u32, read_as: KeyType) -> Option<KeyValue<'r>> {
        let Values::Literals(literals) = &self.request.values else {
            return None;
        };
        let literal = literals.get((number as usize).checked_sub(1)?)?;
        if !matches!(literal.kind, LiteralKind::Int4 | LiteralKind::Int8) || !is_integer(read_as) {
            return None;
        }
        let value = literal.text.parse::<i64>().ok()?;
        fits(KeyValue::Int(value.checked_neg()?), read_as)
    }

    fn null(self) -> Option<KeyValue<'r>> {
        self.is_stored.then_some(KeyValue::Null)
    }

    /// A parameter that is compared with a value of this type, or stored as one.
    fn bound(self, number: u32, read_as: KeyType) -> Option<KeyValue<'r>> {
        let (binary, bytes) = self.request.parameter(number)?;
        let own_type = match self.declared_type(number) {
            0 if self.statement.has_once(number) => read_as,
            oid => type_of_oid(oid).filter(|own| are_alike(*own, read_as))?,
        };
        let Some(bytes) = bytes else {
            return self.null();
        };
        let value = match binary {
            true => decode::binary(own_type, bytes)?,
            false => decode::text(own_type, std::str::from_utf8(bytes).ok()?)?,
        };
        fits(value, read_as)
    }

    /// The type of a parameter, if the client has declared it or PostgreSQL has described it to the client; otherwise 0.
    fn declared_type(self, number: u32) -> u32 {
        let described = self.request.client_parse.as_ref();
        let described = described.and_then(|parse| parse.types.as_deref());
        let types = described.unwrap_or(&self.request.template.types);
        let place = 2 + 4 * (number as usize - 1);
        let oid = types.get(place..place + 4);
        let oid = oid.and_then(|oid| <[u8; 4]>::try_from(oid).ok());
        oid.map_or(0, u32::from_be_bytes)
    }
}

/// A literal that is compared with a value of this type, or stored as one.
fn literal<'r>(kind: LiteralKind, text: &'r str, read_as: KeyType) -> Option<KeyValue<'r>> {
    match kind {
        LiteralKind::Unknown => decode::text(read_as, text),
        LiteralKind::Int4 | LiteralKind::Int8 if is_integer(read_as) => {
            fits(decode::text(KeyType::Int8, text)?, read_as)
        }
        LiteralKind::Int4 | LiteralKind::Int8 | LiteralKind::Numeric => None,
    }
}

/// The value, if it is one of this type.
fn fits(value: KeyValue<'_>, key_type: KeyType) -> Option<KeyValue<'_>> {
    let fits = match (&value, key_type) {
        (KeyValue::Int(value), KeyType::Int2) => i16::try_from(*value).is_ok(),
        (KeyValue::Int(value), KeyType::Int4) => i32::try_from(*value).is_ok(),
        _ => true,
    };
    fits.then_some(value)
}

/// Whether PostgreSQL compares values of the two types without changing them.
fn are_alike(one: KeyType, other: KeyType) -> bool {
    one == other || (is_integer(one) && is_integer(other))
}

fn is_integer(key_type: KeyType) -> bool {
    matches!(key_type, KeyType::Int2 | KeyType::Int4 | KeyType::Int8)
}

fn type_of_oid(oid: u32) -> Option<KeyType> {
    Some(match oid {
        16 => KeyType::Bool,
        20 => KeyType::Int8,
        21 => KeyType::Int2,
        23 => KeyType::Int4,
        // text and varchar
        25 | 1043 => KeyType::Text,
        1082 => KeyType::Date,
        1114 => KeyType::Timestamp,
        1184 => KeyType::Timestamptz,
        2950 => KeyType::Uuid,
        _ => return None,
    })
}

/// The type of a cast, under the parser's name.
fn type_of_name(name: &Name) -> Option<KeyType> {
    if name
        .schema
        .as_deref()
        .is_some_and(|schema| schema != "pg_catalog")
    {
        return None;
    }
    Some(match name.name.as_str() {
        "bool" => KeyType::Bool,
        "int2" => KeyType::Int2,
        "int4" => KeyType::Int4,
        "int8" => KeyType::Int8,
        "text" => KeyType::Text,
        "date" => KeyType::Date,
        "timestamp" => KeyType::Timestamp,
        "timestamptz" => KeyType::Timestamptz,
        "uuid" => KeyType::Uuid,
        _ => return None,
    })
}
