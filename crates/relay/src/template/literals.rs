//! The literals of simple queries: their types in the format of `Parse`, and whether queries that differ in them share a template.

use paceline_sql::{Effect, Literal, LiteralKind, Named, Statement};
use paceline_wire::frontend;

const INT4: u32 = 23;
const INT8: u32 = 20;
const NUMERIC: u32 = 1700;

/// The types of these literals.
pub(super) fn literal_types(literals: &[Literal]) -> Vec<u8> {
    let mut types = Vec::new();
    write_literal_types(literals, &mut types);
    types
}

pub(super) fn write_literal_types(literals: &[Literal], out: &mut Vec<u8>) {
    let oids = literals.iter().map(|literal| match literal.kind {
        LiteralKind::Int4 => INT4,
        LiteralKind::Int8 => INT8,
        LiteralKind::Numeric => NUMERIC,
        LiteralKind::Unknown => 0,
    });
    frontend::write_parameter_types(oids, out);
}

/// The kinds of literals that have these types, if all are strings and `int4`.
pub(super) fn short_literal_kinds(types: &[u8]) -> Option<Vec<LiteralKind>> {
    let (oids, []) = types.get(2..)?.as_chunks() else {
        return None;
    };
    let kind = |oid: &[u8; 4]| match u32::from_be_bytes(*oid) {
        0 => Some(LiteralKind::Unknown),
        INT4 => Some(LiteralKind::Int4),
        _ => None,
    };
    oids.iter().map(kind).collect()
}

/// Whether the literals of a query decide what it does, so that it must be found by its whole text. `normal`: the text with parameters in
/// place of literals, whose statement this is; a client may have prepared it, and PostgreSQL may reject it.
pub(super) fn literals_matter(statement: Option<&Statement>, normal: &str, text: &str) -> bool {
    statement.is_none_or(|statement| {
        matches!(statement.effect, Effect::Session(_)) || moves_name(statement, normal, text)
    })
}

/// Whether a statement with other literals may have another effect. `statement` is that of a text whose literals PostgreSQL does not
/// accept as parameters, so that it shows only what these literals do. `normal` is the text without them.
pub(super) fn hidden_literals_matter(statement: &Statement, normal: &str) -> bool {
    let mut functions = statement.functions.iter();
    // A literal may be the name of a setting, or say how long its value lasts.
    functions.any(|function| ["current_setting", "set_config"].contains(&&*function.name))
        // It may be the name of a database (CREATE DATABASE … TEMPLATE).
        || statement.exclusive.is_some()
        // It may say whether the statement is executed (ANALYZE).
        || statement.effect == Effect::Other && normal.to_ascii_lowercase().contains("explain")
}

/// Whether a literal precedes the name of the statement that is executed.
fn moves_name(statement: &Statement, normal: &str, text: &str) -> bool {
    match &statement.named {
        Some(Named::Execute { at, .. }) => normal.get(..at.end) != text.get(..at.end),
        _ => false,
    }
}
