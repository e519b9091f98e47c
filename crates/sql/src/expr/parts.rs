//! Parts of an expression that depend on no column.

use super::children::children;
use super::numbers::{NumberKind, as_float, number_kind};
use crate::type_name::TypeName;
use pg_query::NodeEnum;
use pg_query::protobuf::TypeCast;

/// Returns the largest parts of an expression that compute a value and depend on no column.
pub(super) fn collect(mut node: NodeEnum, terms: Terms<'_>) -> Vec<NodeEnum> {
    let mut collector = Collector {
        terms,
        parts: Vec::new(),
    };
    if !collector.depends(&mut node) {
        collector.push(&mut node);
    }
    collector.parts
}

/// The parameters and columns of an expression.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// The types of the parameters.
    pub(crate) parameters: &'a [TypeName],
    /// Whether a parameter represents a column.
    pub(crate) is_column: &'a dyn Fn(u32) -> bool,
    /// Whether a column may be of type `real` or `double precision`.
    pub(crate) floats: bool,
}

struct Collector<'a> {
    terms: Terms<'a>,
    parts: Vec<NodeEnum>,
}

impl Collector<'_> {
    /// Whether a node depends on a column. If so, the parts of the node that do not, but compute a value, are
    /// collected.
    fn depends(&mut self, node: &mut NodeEnum) -> bool {
        match node {
            NodeEnum::ColumnRef(_) => return true,
            NodeEnum::ParamRef(parameter) => {
                return (self.terms.is_column)(parameter.number.unsigned_abs());
            }
            _ => {}
        }
        let mut independent = Vec::new();
        let mut depends = false;
        for child in child_nodes(node) {
            match self.depends(child) {
                true => depends = true,
                false => independent.push(child),
            }
        }
        if depends {
            let operands = independent.into_iter();
            operands.for_each(|child| self.push_operand(child));
        }
        depends
    }

    /// Adds a part beside one that depends on a column. PostgreSQL converts a value of type `numeric` beside one of type
    /// `double precision`, whose range is smaller.
    fn push_operand(&mut self, node: &mut NodeEnum) {
        if !is_expression(node) {
            return child_nodes(node).for_each(|child| self.push_operand(child));
        }
        self.push(node);
        let kind = number_kind(node, self.terms.parameters);
        if self.terms.floats && kind == Some(NumberKind::Numeric) && has_parameter(node) {
            self.parts.push(as_float(node.clone()));
        }
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

    /// Whether a cast may fail for some members only. The conversion of a constant succeeds or fails for all alike.
    fn converts(&self, cast: &TypeCast) -> bool {
        let target = cast.type_name.as_ref();
        match cast.arg.as_ref().and_then(|arg| arg.node.as_ref()) {
            Some(NodeEnum::ParamRef(parameter)) => {
                let name = TypeName::of(self.terms.parameters, parameter.number.unsigned_abs());
                let same = |(name, target): (&TypeName, _)| name.is(target);
                !name.zip(target).is_some_and(same)
            }
            Some(NodeEnum::AConst(_)) => false,
            _ => true,
        }
    }
}

fn child_nodes(node: &mut NodeEnum) -> impl Iterator<Item = &mut NodeEnum> {
    let children = children(node).unwrap_or_default().into_iter();
    children.filter_map(|child| child.node.as_mut())
}

fn has_parameter(node: &mut NodeEnum) -> bool {
    matches!(node, NodeEnum::ParamRef(_)) || child_nodes(node).any(has_parameter)
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
