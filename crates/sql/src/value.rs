//! Parameters and constants in a text.

use crate::literals::{LiteralKind, integer_kind};
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
            // The scanner does not consider it an `int4`, but its sign may make it one.
            Val::Fval(number) => constant(integer_kind(&number.fval), number.fval.clone()),
            Val::Sval(text) => constant(LiteralKind::Unknown, text.sval.clone()),
            Val::Boolval(_) | Val::Bsval(_) => None,
        },
        _ => None,
    }
}
