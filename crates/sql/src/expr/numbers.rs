//! Numbers of type `numeric` in an expression.

use crate::type_name::TypeName;
use pg_query::protobuf::{
    AConst, AExpr, AExprKind, String as Text, TypeCast, TypeName as TypeNode, a_const::Val,
};
use pg_query::{Node, NodeEnum};

/// Operators whose result is `numeric` if an operand is.
const ARITHMETIC: [&str; 5] = ["+", "-", "*", "/", "%"];

/// The type of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NumberKind {
    Integer,
    Numeric,
}

/// The type of a parameter, of a constant or of arithmetic with both; `None` for other expressions.
pub(super) fn number_kind(node: &NodeEnum, parameters: &[TypeName]) -> Option<NumberKind> {
    match node {
        NodeEnum::ParamRef(parameter) => {
            let name = TypeName::of(parameters, parameter.number.unsigned_abs())?;
            match name.sql.as_str() {
                "smallint" | "integer" | "bigint" => Some(NumberKind::Integer),
                "numeric" => Some(NumberKind::Numeric),
                _ => None,
            }
        }
        NodeEnum::AConst(constant) => of_constant(constant),
        NodeEnum::AExpr(expr) => of_arithmetic(expr, parameters),
        _ => None,
    }
}

fn of_constant(constant: &AConst) -> Option<NumberKind> {
    match constant.val.as_ref()? {
        Val::Ival(_) => Some(NumberKind::Integer),
        Val::Fval(_) => Some(NumberKind::Numeric),
        _ => None,
    }
}

fn of_arithmetic(expr: &AExpr, parameters: &[TypeName]) -> Option<NumberKind> {
    let is_arithmetic = match expr.name.last().and_then(|name| name.node.as_ref()) {
        Some(NodeEnum::String(name)) => ARITHMETIC.contains(&name.sval.as_str()),
        _ => false,
    };
    if expr.kind() != AExprKind::AexprOp || !is_arithmetic {
        return None;
    }
    let kind = |side: &Node| number_kind(side.node.as_ref()?, parameters);
    let right = kind(expr.rexpr.as_deref()?)?;
    match expr.lexpr.as_deref() {
        Some(left) => Some(right.max(kind(left)?)),
        None => Some(right),
    }
}

/// The value as `double precision`.
pub(super) fn as_float(node: NodeEnum) -> NodeEnum {
    let names = ["pg_catalog", "float8"].map(|name| Node {
        node: Some(NodeEnum::String(Text {
            sval: name.to_owned(),
        })),
    });
    NodeEnum::TypeCast(Box::new(TypeCast {
        arg: Some(Box::new(Node { node: Some(node) })),
        type_name: Some(TypeNode {
            names: names.to_vec(),
            typemod: -1,
            ..TypeNode::default()
        }),
        location: 0,
    }))
}
