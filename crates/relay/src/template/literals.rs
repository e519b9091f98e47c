//! The types that PostgreSQL gives literals, in the format of `Parse`.

use paceline_sql::{Literal, LiteralKind};
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
