//! Parameters and constants in a text.

use crate::literals::LiteralKind;
use pg_query::NodeEnum;
use pg_query::protobuf::a_const::Val;

/// The value of a key column.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum KeyValue {
    /// `$n`
    Parameter(u32),
    /// A number (with its sign) or a string; never NULL.
    Constant {
        /// The type that PostgreSQL gives the constant.
        kind: LiteralKind,
        /// The value as a text-format parameter.
        text: String,
    },
}

/// The value of a node that is a parameter or constant.
pub(crate) fn key_value(node: &NodeEnum) -> Option<KeyValue> {
    let constant = |kind, text| Some(KeyValue::Constant { kind, text });
    match node {
        NodeEnum::ParamRef(parameter) => {
            Some(KeyValue::Parameter(u32::try_from(parameter.number).ok()?))
        }
        NodeEnum::AConst(value) if !value.isnull => match value.val.as_ref()? {
            Val::Ival(number) => constant(LiteralKind::Int4, number.ival.to_string()),
            Val::Fval(number) => constant(kind_of_large(&number.fval), number.fval.clone()),
            Val::Sval(text) => constant(LiteralKind::Unknown, text.sval.clone()),
            Val::Boolval(_) | Val::Bsval(_) => None,
        },
        _ => None,
    }
}

/// The type of a number that the scanner does not consider an `int4`. Its sign may make it one.
fn kind_of_large(number: &str) -> LiteralKind {
    if number.parse::<i32>().is_ok() {
        LiteralKind::Int4
    } else if number.parse::<i64>().is_ok() {
        LiteralKind::Int8
    } else {
        LiteralKind::Numeric
    }
}
