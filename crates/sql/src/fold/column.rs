//! Columns and their types: which columns can form a key, which can be assigned, and which values a cast would
//! truncate.

use super::refusal::FoldRefusal;
use crate::expr::Expr;
use crate::facts::{Column, TableFacts};
use crate::literals::LiteralKind;
use crate::operator::LE;
use crate::type_name::TypeName;
use crate::update::KeyEquality;
use crate::value::KeyValue;

/// The comparison that recognizes equal values of a key column without PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyClass {
    /// int2, int4, int8: compared as numbers, sent in canonical text format.
    Integer,
    /// uuid: compared as 16 bytes, sent in canonical text format.
    Uuid,
    /// text, varchar under a deterministic collation: equal values have the same bytes.
    Text,
    /// The same if PostgreSQL converts texts between encodings: only of ASCII characters do equal values have the same
    /// bytes. A request with another value runs alone.
    Ascii,
    /// Other types: values with different bytes may be equal, so that a group has one row only.
    Opaque,
}

/// A column of the key and the source of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyColumn {
    /// Name of the column.
    pub name: String,
    /// Number of the template's parameter, from 1, or a constant of the template.
    pub value: KeyValue,
    /// The comparison of values.
    pub class: KeyClass,
    /// OID of the column's data type.
    pub type_oid: u32,
}

/// `int2`, `int4`, `int8`.
const INTEGERS: [u32; 3] = [21, 23, 20];
const UUID: u32 = 2950;
const TEXTS: [u32; 2] = [25, 1043];
/// The same types by name. Conversions between them do not change the value.
const TEXT_NAMES: [&str; 2] = ["text", "character varying"];
/// Types by name. Each type can represent all values of the types before it in its row.
const WIDENING: [&[&str]; 2] = [
    &["smallint", "integer", "bigint", "numeric"],
    &["real", "double precision"],
];
/// Types whose precision only rounds values: time, timestamp, timestamptz, timetz.
const ROUNDED: [u32; 4] = [1083, 1114, 1184, 1266];
/// Types for which an explicit cast truncates silently where an assignment raises an error: bpchar, bit, varbit.
const CUT_BY_CASTS: [u32; 3] = [1042, 1560, 1562];
const VARCHAR: u32 = 1043;
/// `interval`: with a type modifier, its literals have another meaning than parameters.
const INTERVAL: u32 = 1186;
/// The type modifier of varchar(n) is n plus these four bytes (`VARHDRSZ`).
const VARHDRSZ: i32 = 4;

/// The key column, with the way in which its values are compared.
pub(crate) fn key_column(
    column: &Column,
    value: &KeyValue,
    parameters: &[TypeName],
) -> Result<KeyColumn, FoldRefusal> {
    let class = match column.type_oid {
        oid if INTEGERS.contains(&oid) => KeyClass::Integer,
        UUID => KeyClass::Uuid,
        oid if TEXTS.contains(&oid) && column.deterministic => match column.converted {
            true => KeyClass::Ascii,
            false => KeyClass::Text,
        },
        _ if column.deterministic && column.builtin => KeyClass::Opaque,
        _ => return Err(FoldRefusal::KeyType(column.name.clone())),
    };
    let fits = match value {
        KeyValue::Parameter(n) => {
            let name = &parameter_type(parameters, *n)?.sql;
            match class {
                KeyClass::Integer => ["smallint", "integer", "bigint"].contains(&name.as_str()),
                KeyClass::Text | KeyClass::Ascii => TEXT_NAMES.contains(&name.as_str()),
                KeyClass::Uuid | KeyClass::Opaque => *name == column.bare_type_name,
            }
        }
        KeyValue::Constant { kind, .. } => match class {
            KeyClass::Integer => *kind != LiteralKind::Numeric,
            _ => *kind == LiteralKind::Unknown,
        },
    };
    if !fits {
        return Err(FoldRefusal::KeyType(column.name.clone()));
    }
    Ok(KeyColumn {
        name: column.name.clone(),
        value: value.clone(),
        class,
        type_oid: column.type_oid,
    })
}

/// The type of a parameter, by its number from 1.
pub(crate) fn parameter_type(
    parameters: &[TypeName],
    number: u32,
) -> Result<&TypeName, FoldRefusal> {
    let name = TypeName::of(parameters, number);
    name.ok_or_else(|| FoldRefusal::Type(format!("parameter ${number}")))
}

/// Columns and the values that they are equal to.
pub(crate) type Equalities<'a> = Vec<(&'a Column, &'a KeyValue)>;

/// The equalities on the shortest unique key that they cover, and the other equalities.
pub(crate) fn split_equalities<'a>(
    of_where: &'a [KeyEquality],
    table: &'a TableFacts,
) -> Result<(Equalities<'a>, Equalities<'a>), FoldRefusal> {
    let mut equalities: Equalities<'a> = Vec::new();
    for equality in of_where {
        let column = table.column(&equality.column);
        let column = column.ok_or_else(|| FoldRefusal::Column(equality.column.clone()))?;
        equalities.push((column, &equality.value));
    }
    let covered = |key: &&Vec<String>| {
        key.iter()
            .all(|k| equalities.iter().any(|(c, _)| c.name == *k))
    };
    let key = table.keys.iter().filter(covered).min_by_key(|k| k.len());
    let key = key.ok_or(FoldRefusal::Key)?;
    let mut chosen = Vec::new();
    for name in key {
        let place = equalities
            .iter()
            .position(|(c, _)| c.name == *name)
            .ok_or(FoldRefusal::Key)?;
        chosen.push(equalities.remove(place));
    }
    Ok((chosen, equalities))
}

pub(super) fn assignable<'a>(table: &'a TableFacts, name: &str) -> Result<&'a Column, FoldRefusal> {
    let column = table
        .column(name)
        .ok_or_else(|| FoldRefusal::Column(name.to_owned()))?;
    if column.fixed {
        return Err(FoldRefusal::Assigned(name.to_owned()));
    }
    if is_cut(column) {
        return Err(FoldRefusal::Type(name.to_owned()));
    }
    Ok(column)
}

/// Whether a cast to the column's type may truncate a value that an assignment rejects, or has another meaning than
/// an assignment.
pub(crate) fn is_cut(column: &Column) -> bool {
    let limited = column.type_modifier != -1;
    let of_domain = column.type_oid != column.base_type_oid;
    match column.base_type_oid {
        VARCHAR => limited && of_domain,
        INTERVAL => limited,
        other => CUT_BY_CASTS.contains(&other) || (limited && column.array),
    }
}

/// Whether the conversion of `expr`, which reads no column, to the type of `column` cannot fail for one member only.
/// A parameter fits if the column can represent all values of its type. The conversion of a constant fails for all
/// members when PostgreSQL plans the statement; but the casts of a fold do not include a limit of characters.
pub(crate) fn fits(expr: &Expr, column: &Column, parameters: &[TypeName]) -> bool {
    match (expr.as_value(), char_limit(column)) {
        (Some(KeyValue::Parameter(number)), _) => {
            parameter_type(parameters, number).is_ok_and(|name| holds_all_of(column, &name.sql))
        }
        // A text has at most as many characters as bytes.
        (Some(KeyValue::Constant { kind, text }), Some(chars)) => {
            let short = i32::try_from(text.len()).is_ok_and(|bytes| bytes <= chars);
            kind == LiteralKind::Unknown && short
        }
        (_, Some(_)) => expr.is_null(),
        (_, None) => expr.parameters().is_empty(),
    }
}

/// Whether `column` accepts each value of the type with this name, with rounding at most.
fn holds_all_of(column: &Column, name: &str) -> bool {
    let (own, limited) = (column.bare_type_name.as_str(), column.type_modifier != -1);
    let both_texts = [own, name].iter().all(|text| TEXT_NAMES.contains(text));
    let widens = WIDENING.iter().any(|row| {
        let place = |name: &str| row.iter().position(|known| *known == name);
        let places = place(name).zip(place(own));
        places.is_some_and(|(from, to)| from <= to)
    });
    match limited {
        true => own == name && ROUNDED.contains(&column.type_oid),
        false => own == name || both_texts || widens,
    }
}

/// SQL condition that a `value` must satisfy if `column` limits its characters. Unlike [`converted`], it raises no
/// error.
pub(crate) fn is_short(value: &str, column: &Column) -> Option<String> {
    char_limit(column).map(|chars| {
        format!(
            "coalesce(pg_catalog.char_length(({value})::pg_catalog.varchar) {LE} {chars}, true)"
        )
    })
}

/// SQL that converts a `value` to the type of `column`, with the errors of an assignment.
pub(crate) fn converted(value: &str, column: &Column) -> String {
    match char_limit(column) {
        // A cast would truncate.
        Some(_) => format!(
            "pg_catalog.\"varchar\"(({value})::pg_catalog.varchar, {}, false)",
            column.type_modifier
        ),
        None => format!("({value})::{}", column.type_name),
    }
}

/// The maximum number of characters of a varchar(n) column.
pub(crate) fn char_limit(column: &Column) -> Option<i32> {
    let limited = column.type_oid == VARCHAR && column.type_modifier >= VARHDRSZ;
    limited.then(|| column.type_modifier - VARHDRSZ)
}

/// The type of a column between steps: varchar(n) loses its limit, because a cast would truncate silently; the limit
/// is checked like a constraint.
pub(crate) fn state_type(column: &Column) -> &str {
    match char_limit(column) {
        Some(_) => &column.bare_type_name,
        None => &column.type_name,
    }
}
