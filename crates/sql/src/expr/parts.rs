//! Parts of an expression that depend on no column.

use crate::type_name::TypeName;
use pg_query::protobuf::TypeCast;
use pg_query::{Node, NodeEnum};

/// Returns the largest parts of an expression that compute a value and depend on no column.
pub(super) fn collect(
    node: &NodeEnum,
    parameters: &[TypeName],
    is_column: &dyn Fn(u32) -> bool,
) -> Vec<NodeEnum> {
    let mut collector = Collector {
        parameters,
        is_column,
        parts: Vec::new(),
    };
    if !collector.depends(node) {
        collector.push(node);
    }
    collector.parts
}

struct Collector<'a> {
    parameters: &'a [TypeName],
    /// Whether a parameter represents a column.
    is_column: &'a dyn Fn(u32) -> bool,
    parts: Vec<NodeEnum>,
}

impl Collector<'_> {
    /// Whether a node depends on a column. If so, the parts of the node that do not, but compute a value, are
    /// collected.
    fn depends(&mut self, node: &NodeEnum) -> bool {
        match node {
            NodeEnum::ColumnRef(_) => return true,
            NodeEnum::ParamRef(parameter) => {
                return (self.is_column)(parameter.number.unsigned_abs());
            }
            _ => {}
        }
        let mut independent = Vec::new();
        let mut depends = false;
        for child in children(node) {
            match self.depends(child) {
                true => depends = true,
                false => independent.push(child),
            }
        }
        // A node that is not an expression cannot be computed separately.
        let is_expression = !matches!(
            node,
            NodeEnum::List(_)
                | NodeEnum::CaseWhen(_)
                | NodeEnum::NamedArgExpr(_)
                | NodeEnum::RowExpr(_)
                | NodeEnum::AIndices(_)
        );
        if depends || !is_expression {
            independent.into_iter().for_each(|child| self.push(child));
        }
        depends || !is_expression
    }

    /// Adds a part if it computes a value.
    fn push(&mut self, node: &NodeEnum) {
        if self.computes(node) {
            self.parts.push(node.clone());
        }
    }

    fn computes(&self, node: &NodeEnum) -> bool {
        let itself = match node {
            NodeEnum::AExpr(_) | NodeEnum::FuncCall(_) => true,
            NodeEnum::TypeCast(cast) => self.converts(cast),
            _ => false,
        };
        itself || children(node).into_iter().any(|child| self.computes(child))
    }

    /// Whether a cast may change a value. The conversion of a constant succeeds or fails for all members alike.
    fn converts(&self, cast: &TypeCast) -> bool {
        let target = cast.type_name.as_ref();
        match cast.arg.as_ref().and_then(|arg| arg.node.as_ref()) {
            Some(NodeEnum::ParamRef(parameter)) => {
                let index = parameter.number.unsigned_abs().checked_sub(1);
                let name = index.and_then(|index| self.parameters.get(index as usize));
                !name
                    .zip(target)
                    .is_some_and(|(name, target)| name.is(target))
            }
            Some(NodeEnum::TypeCast(_)) => true,
            _ => false,
        }
    }
}

/// The direct child nodes that an expression may have.
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
