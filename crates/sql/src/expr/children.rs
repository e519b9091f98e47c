//! The child nodes of an expression.

use pg_query::{Node, NodeEnum};

/// The direct child nodes of an expression, in order; `None` for other kinds of nodes.
pub(super) fn children(node: &mut NodeEnum) -> Option<Vec<&mut Node>> {
    fn some<const N: usize>(nodes: [&mut Option<Box<Node>>; N]) -> Vec<&mut Node> {
        nodes.into_iter().filter_map(Option::as_deref_mut).collect()
    }
    Some(match node {
        NodeEnum::ColumnRef(_)
        | NodeEnum::ParamRef(_)
        | NodeEnum::AConst(_)
        | NodeEnum::SqlvalueFunction(_) => Vec::new(),
        NodeEnum::AExpr(e) => some([&mut e.lexpr, &mut e.rexpr]),
        NodeEnum::BoolExpr(e) => e.args.iter_mut().collect(),
        NodeEnum::NullTest(e) => some([&mut e.arg]),
        NodeEnum::BooleanTest(e) => some([&mut e.arg]),
        NodeEnum::CaseExpr(e) => {
            let first = some([&mut e.arg]).into_iter().chain(&mut e.args);
            first.chain(some([&mut e.defresult])).collect()
        }
        NodeEnum::CaseWhen(e) => some([&mut e.expr, &mut e.result]),
        NodeEnum::CoalesceExpr(e) => e.args.iter_mut().collect(),
        NodeEnum::MinMaxExpr(e) => e.args.iter_mut().collect(),
        NodeEnum::FuncCall(e) => e.args.iter_mut().collect(),
        NodeEnum::NamedArgExpr(e) => some([&mut e.arg]),
        NodeEnum::TypeCast(e) => some([&mut e.arg]),
        NodeEnum::CollateClause(e) => some([&mut e.arg]),
        NodeEnum::AArrayExpr(e) => e.elements.iter_mut().collect(),
        NodeEnum::AIndirection(e) => {
            let indices = e.indirection.iter_mut().filter(|step| is_index(step));
            some([&mut e.arg]).into_iter().chain(indices).collect()
        }
        NodeEnum::AIndices(e) => some([&mut e.lidx, &mut e.uidx]),
        NodeEnum::RowExpr(e) => e.args.iter_mut().collect(),
        NodeEnum::List(e) => e.items.iter_mut().collect(),
        _ => return None,
    })
}

/// Whether a step of an indirection is an index.
pub(super) fn is_index(step: &Node) -> bool {
    matches!(step.node, Some(NodeEnum::AIndices(_)))
}
