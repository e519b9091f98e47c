//! The values that a text gives to columns.

use crate::literals::LiteralKind;
use crate::name::Name;
use crate::parser::{is_equality, string};
use crate::tree::Record;
use crate::update::flatten;
use crate::value::{KeyValue, key_value};
use pg_query::protobuf::a_const::Val;
use pg_query::protobuf::{AExpr, AExprKind, TypeCast};
use pg_query::{Node, NodeEnum};

/// The value of a column, as the text writes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeySource {
    /// NULL. In a WHERE clause it equals nothing.
    Null,
    /// A parameter or constant, perhaps with a cast (the parser's name of the type: `int` is `pg_catalog.int4`).
    Value {
        /// The parameter or constant.
        value: KeyValue,
        /// The type of the cast.
        cast: Option<Name>,
    },
    /// A parameter behind a minus sign: a negative number, if the parameter stands for a literal.
    Negative(u32),
}

/// `column = value`, in either order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyedColumn {
    /// The column.
    pub column: String,
    /// Its value.
    pub value: KeySource,
}

/// The values of columns in a text, by which a partition key may be found.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyValues {
    /// `column = value` among the conjuncts of WHERE.
    Conjuncts(Vec<KeyedColumn>),
    /// The rows of an INSERT. Without a list of columns, `columns` is empty, and the values belong to the first columns of the table.
    Rows {
        /// The list of columns.
        columns: Vec<String>,
        /// The values; `None` for an expression or DEFAULT.
        rows: Vec<Vec<Option<KeySource>>>,
    },
}

/// The conjuncts of a WHERE clause that have the form `column = value` or `column IN (value)`.
pub(super) fn conjuncts(condition: &Node, qualifier: &str) -> Vec<KeyedColumn> {
    let mut conjuncts = Vec::new();
    if flatten(condition, &mut conjuncts).is_none() {
        return Vec::new();
    }
    let found = conjuncts
        .into_iter()
        .filter_map(|conjunct| equality(conjunct, qualifier));
    found.collect()
}

fn equality(conjunct: &NodeEnum, qualifier: &str) -> Option<KeyedColumn> {
    let NodeEnum::AExpr(comparison) = conjunct else {
        return None;
    };
    if !is_equality(&comparison.name) {
        return None;
    }
    let left = comparison.lexpr.as_ref()?.node.as_ref()?;
    let right = comparison.rexpr.as_ref()?.node.as_ref()?;
    let (column, value) = match (comparison.kind(), right) {
        (AExprKind::AexprOp, _) => match column(left, qualifier) {
            Some(column) => (column, right),
            None => (column(right, qualifier)?, left),
        },
        (AExprKind::AexprIn, NodeEnum::List(list)) => match list.items.as_slice() {
            [one] => (column(left, qualifier)?, one.node.as_ref()?),
            _ => return None,
        },
        _ => return None,
    };
    Some(KeyedColumn {
        column: column.to_owned(),
        value: source(value)?,
    })
}

fn column<'a>(node: &'a NodeEnum, qualifier: &str) -> Option<&'a str> {
    let NodeEnum::ColumnRef(reference) = node else {
        return None;
    };
    match reference.fields.as_slice() {
        [column] => string(column),
        [table, column] if string(table)? == qualifier => string(column),
        _ => None,
    }
}

/// The value, if it is a parameter or constant, perhaps with one cast to a plain type.
pub(super) fn source(node: &NodeEnum) -> Option<KeySource> {
    match node {
        NodeEnum::AConst(constant) if constant.isnull => Some(KeySource::Null),
        NodeEnum::AConst(constant) if let Some(Val::Boolval(value)) = &constant.val => {
            Some(boolean(value.boolval))
        }
        NodeEnum::AExpr(minus) => Some(KeySource::Negative(negated(minus)?)),
        NodeEnum::TypeCast(cast) => Some(KeySource::Value {
            value: key_value(cast.arg.as_ref()?.node.as_ref()?)?,
            cast: Some(plain_type(cast)?),
        }),
        other => Some(KeySource::Value {
            value: key_value(other)?,
            cast: None,
        }),
    }
}

/// `true` and `false` have a type of their own.
fn boolean(value: bool) -> KeySource {
    let cast = Name::from_parts(vec!["pg_catalog".to_owned(), "bool".to_owned()]);
    let text = if value { "t" } else { "f" }.to_owned();
    let kind = LiteralKind::Unknown;
    KeySource::Value {
        value: KeyValue::Constant { kind, text },
        cast,
    }
}

/// The number of the parameter in `-$n`.
fn negated(minus: &AExpr) -> Option<u32> {
    let is_minus = minus.kind() == AExprKind::AexprOp && minus.lexpr.is_none();
    let is_minus = is_minus && crate::parser::strings(&minus.name).as_deref() == Some(&["-"]);
    match minus.rexpr.as_ref()?.node.as_ref()? {
        NodeEnum::ParamRef(parameter) if is_minus => u32::try_from(parameter.number).ok(),
        _ => None,
    }
}

/// The type of a cast, if it is no array and has no modifier.
fn plain_type(cast: &TypeCast) -> Option<Name> {
    let name = cast.type_name.as_ref()?;
    let is_plain = name.typmods.is_empty()
        && name.array_bounds.is_empty()
        && !name.setof
        && !name.pct_type
        && name.typemod == -1;
    let parts = crate::parser::strings(&name.names)?;
    let parts = parts.into_iter().map(str::to_owned).collect();
    is_plain.then(|| Name::from_parts(parts)).flatten()
}

/// The number of uses of each parameter in the tree, from `$1` on.
pub(super) fn parameter_uses(tree: &Record) -> Vec<usize> {
    /// PostgreSQL accepts no higher number.
    const PARAMETERS_MAX: usize = 65_535;
    let mut uses = Vec::new();
    tree.walk(&mut |node| {
        let number = usize::try_from(node.number("number")).unwrap_or_default();
        let is_parameter = node.kind == "ParamRef" && (1..=PARAMETERS_MAX).contains(&number);
        if let Some(index) = number.checked_sub(1).filter(|_| is_parameter) {
            if uses.len() <= index {
                uses.resize(index + 1, 0);
            }
            if let Some(count) = uses.get_mut(index) {
                *count += 1;
            }
        }
    });
    uses
}
