//! The parts of an expression that depend on no column.

use crate::tree::Record;
use pg_query::{Node, NodeEnum};

/// Does a node depend on a column? If it does, those of its parts that do not, and compute something, are collected.
pub(super) fn collect(
    node: &NodeEnum,
    is_column: &dyn Fn(u32) -> bool,
    parts: &mut Vec<NodeEnum>,
) -> bool {
    match node {
        NodeEnum::ColumnRef(_) => return true,
        NodeEnum::ParamRef(parameter) => return is_column(parameter.number.unsigned_abs()),
        _ => {}
    }
    let children = children(node);
    let mut free = Vec::new();
    let mut depends = false;
    for child in &children {
        match collect(child, is_column, parts) {
            true => depends = true,
            false => free.push(*child),
        }
    }
    // What is no expression by itself cannot be computed by itself.
    let is_expression = !matches!(
        node,
        NodeEnum::List(_)
            | NodeEnum::CaseWhen(_)
            | NodeEnum::NamedArgExpr(_)
            | NodeEnum::RowExpr(_)
            | NodeEnum::AIndices(_)
    );
    if depends || !is_expression {
        free.into_iter().for_each(|child| push(child, parts));
    }
    depends || !is_expression
}

/// Adds a part, unless it is a value or a single cast of one.
pub(super) fn push(node: &NodeEnum, parts: &mut Vec<NodeEnum>) {
    let tree = Record::of(&Node {
        node: Some(node.clone()),
    });
    let mut computes = false;
    tree.walk(&mut |part| {
        let casts_twice = || {
            let inner = part.record("arg");
            part.kind == "TypeCast" && inner.is_some_and(|inner| inner.contains(&["TypeCast"]))
        };
        computes |= matches!(part.kind, "AExpr" | "FuncCall") || casts_twice();
    });
    if computes {
        parts.push(node.clone());
    }
}

/// The nodes right below one that an expression may hold.
fn children(node: &NodeEnum) -> Vec<&NodeEnum> {
    let nodes: Vec<&Node> = match node {
        NodeEnum::AExpr(e) => [&e.lexpr, &e.rexpr]
            .into_iter()
            .flatten()
            .map(|node| &**node)
            .collect(),
        NodeEnum::BoolExpr(e) => e.args.iter().collect(),
        NodeEnum::NullTest(e) => e.arg.iter().map(|node| &**node).collect(),
        NodeEnum::BooleanTest(e) => e.arg.iter().map(|node| &**node).collect(),
        NodeEnum::CaseExpr(e) => {
            let ends = [&e.arg, &e.defresult]
                .into_iter()
                .flatten()
                .map(|node| &**node);
            ends.chain(&e.args).collect()
        }
        NodeEnum::CaseWhen(e) => [&e.expr, &e.result]
            .into_iter()
            .flatten()
            .map(|node| &**node)
            .collect(),
        NodeEnum::CoalesceExpr(e) => e.args.iter().collect(),
        NodeEnum::MinMaxExpr(e) => e.args.iter().collect(),
        NodeEnum::FuncCall(e) => e.args.iter().collect(),
        NodeEnum::NamedArgExpr(e) => e.arg.iter().map(|node| &**node).collect(),
        NodeEnum::TypeCast(e) => e.arg.iter().map(|node| &**node).collect(),
        NodeEnum::CollateClause(e) => e.arg.iter().map(|node| &**node).collect(),
        NodeEnum::AArrayExpr(e) => e.elements.iter().collect(),
        NodeEnum::AIndirection(e) => e
            .arg
            .iter()
            .map(|node| &**node)
            .chain(&e.indirection)
            .collect(),
        NodeEnum::AIndices(e) => [&e.lidx, &e.uidx]
            .into_iter()
            .flatten()
            .map(|node| &**node)
            .collect(),
        NodeEnum::RowExpr(e) => e.args.iter().collect(),
        NodeEnum::List(e) => e.items.iter().collect(),
        _ => Vec::new(),
    };
    nodes
        .into_iter()
        .filter_map(|node| node.node.as_ref())
        .collect()
}
