//! Parts of an expression that depend on no column.

use super::children::children;
use crate::type_name::TypeName;
use pg_query::NodeEnum;
use pg_query::protobuf::TypeCast;

/// Returns the largest parts of an expression that compute a value and depend on no column.
pub(super) fn collect(
    mut node: NodeEnum,
    parameters: &[TypeName],
    is_column: &dyn Fn(u32) -> bool,
) -> Vec<NodeEnum> {
    let mut collector = Collector {
        parameters,
        is_column,
        parts: Vec::new(),
    };
    if !collector.depends(&mut node) {
        collector.push(&mut node);
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
    fn depends(&mut self, node: &mut NodeEnum) -> bool {
        match node {
            NodeEnum::ColumnRef(_) => return true,
            NodeEnum::ParamRef(parameter) => {
                return (self.is_column)(parameter.number.unsigned_abs());
            }
            _ => {}
        }
        let is_expression = is_expression(node);
        let mut independent = Vec::new();
        let mut depends = false;
        for child in child_nodes(node) {
            match self.depends(child) {
                true => depends = true,
                false => independent.push(child),
            }
        }
        if depends || !is_expression {
            independent.into_iter().for_each(|child| self.push(child));
        }
        depends || !is_expression
    }

    /// Adds a part if it computes a value.
    fn push(&mut self, node: &mut NodeEnum) {
        if self.computes(node) {
            self.parts.push(node.clone());
        }
    }

    fn computes(&self, node: &mut NodeEnum) -> bool {
        let itself = match node {
            NodeEnum::AExpr(_) | NodeEnum::FuncCall(_) => true,
            NodeEnum::TypeCast(cast) => self.converts(cast),
            _ => false,
        };
        itself || child_nodes(node).any(|child| self.computes(child))
    }

    /// Whether a cast may change a value. The conversion of a constant succeeds or fails for all members alike.
    fn converts(&self, cast: &TypeCast) -> bool {
        let target = cast.type_name.as_ref();
        match cast.arg.as_ref().and_then(|arg| arg.node.as_ref()) {
            Some(NodeEnum::ParamRef(parameter)) => {
                let name = TypeName::of(self.parameters, parameter.number.unsigned_abs());
                let same = |(name, target): (&TypeName, _)| name.is(target);
                !name.zip(target).is_some_and(same)
            }
            Some(NodeEnum::TypeCast(_)) => true,
            _ => false,
        }
    }
}

fn child_nodes(node: &mut NodeEnum) -> impl Iterator<Item = &mut NodeEnum> {
    let children = children(node).unwrap_or_default().into_iter();
    children.filter_map(|child| child.node.as_mut())
}

/// Whether a node can be computed separately.
fn is_expression(node: &NodeEnum) -> bool {
    !matches!(
        node,
        NodeEnum::List(_)
            | NodeEnum::CaseWhen(_)
            | NodeEnum::NamedArgExpr(_)
            | NodeEnum::RowExpr(_)
            | NodeEnum::AIndices(_)
    )
}
