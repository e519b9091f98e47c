//! Expressions over the columns of one row and parameters.

mod children;
mod later;
mod numbers;
mod parts;
#[cfg(test)]
mod tests;

use pg_query::protobuf::{
    AIndirection, ColumnRef, FuncCall, ParamRef, ParseResult, ResTarget, SelectStmt,
    String as Text, TypeName,
};
use pg_query::{Node, NodeEnum};

use crate::name::{Name, push_distinct};
use crate::parser::{self, NotParsed};
use crate::references;
use crate::time_read;
use crate::tree::Record;
use crate::value::{KeyValue, key_value};
use children::{children, is_index};
pub(crate) use parts::Terms;

/// System columns, which each table has and no fold can compute.
const SYSTEM_COLUMNS: [&str; 6] = ["ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"];

/// Parameters above this number represent columns of EXCLUDED. It is above the maximum number of a parameter in
/// PostgreSQL (65,535).
pub const PROPOSED: u32 = 1 << 20;

/// An expression that refers only to columns of one row and to parameters. It contains no sub-select, and no
/// aggregate or window function syntax. Only the catalog shows whether a function is an aggregate, and whether a name
/// refers to a column (the table's name refers to the whole row).
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// Column references have one field, because their qualifiers were removed.
    node: Box<NodeEnum>,
    columns: Vec<String>,
    parameters: Vec<u32>,
}

/// Nodes of an expression that raise no error by themselves.
const HARMLESS_NODES: [&str; 13] = [
    "AConst",
    "BitString",
    "BoolExpr",
    "Boolean",
    "BooleanTest",
    "ColumnRef",
    "Float",
    "Integer",
    "List",
    "Node",
    "NullTest",
    "ParamRef",
    "String",
];

impl Expr {
    /// Converts a node, if it contains only supported nodes. Columns may be qualified by `qualifier` only.
    pub(crate) fn new(node: NodeEnum, qualifier: Option<&str>) -> Result<Expr, NotParsed> {
        Self::read(node, qualifier, &mut |_| None)
    }

    /// The same for an expression of ON CONFLICT DO UPDATE: each column of EXCLUDED becomes the parameter that
    /// `parameter_of` returns.
    pub(crate) fn with_excluded(
        node: NodeEnum,
        qualifier: &str,
        parameter_of: &mut dyn FnMut(&str) -> Option<u32>,
    ) -> Result<Expr, NotParsed> {
        Self::read(
            node,
            Some(qualifier),
            &mut |reference| match parser::strings(&reference.fields).as_deref() {
                Some(["excluded", name]) => parameter_of(name),
                _ => None,
            },
        )
    }

    /// `bound` returns the parameter that replaces a reference.
    fn read(
        mut node: NodeEnum,
        qualifier: Option<&str>,
        bound: &mut dyn FnMut(&ColumnRef) -> Option<u32>,
    ) -> Result<Expr, NotParsed> {
        let mut columns = Vec::new();
        let mut parameters = Vec::new();
        for_each_leaf(&mut node, &mut |leaf| {
            if let NodeEnum::ColumnRef(reference) = leaf
                && let Some(number) = bound(reference)
            {
                *leaf = NodeEnum::ParamRef(ParamRef {
                    number: i32::try_from(number).unwrap_or_default(),
                    location: 0,
                });
            }
            match leaf {
                NodeEnum::ColumnRef(column) => {
                    let name = column_name(column, qualifier)?;
                    *column = plain_column(&name);
                    push_distinct(&mut columns, name);
                }
                NodeEnum::ParamRef(parameter) => match u32::try_from(parameter.number) {
                    Ok(number) if number > 0 => push_distinct(&mut parameters, number),
                    _ => return Err(NotParsed::because("there is no parameter $0")),
                },
                _ => {}
            }
            Ok(())
        })?;
        Ok(Expr {
            node: Box::new(node),
            columns,
            parameters,
        })
    }

    /// Parses a stand-alone expression, such as a CHECK constraint in the form of `pg_get_expr`. Column references
    /// must be unqualified.
    ///
    /// # Errors
    /// [`NotParsed`] if the text is not one expression, or contains nodes that are not supported.
    pub fn parse(sql: &str) -> Result<Expr, NotParsed> {
        let parsed = parser::parse(&format!("SELECT {sql}"))?;
        Expr::new(
            single_target(parsed).ok_or_else(|| NotParsed::because("not a single expression"))?,
            None,
        )
    }

    /// The referenced columns, without duplicates, in order of appearance.
    pub fn columns(&self) -> Vec<String> {
        self.columns.clone()
    }

    /// The referenced parameters, without duplicates, in order of appearance.
    pub fn parameters(&self) -> Vec<u32> {
        self.parameters.clone()
    }

    /// The called functions, without duplicates.
    pub fn functions(&self) -> Vec<Name> {
        references::functions(&self.tree())
    }

    /// The used and implied operators, without duplicates.
    pub fn operators(&self) -> Vec<Name> {
        references::operators(&self.tree())
    }

    /// The types of explicit casts, without duplicates.
    pub fn casts_to(&self) -> Vec<Name> {
        references::casts_to(&self.tree())
    }

    /// The named collations, without duplicates.
    pub fn collations(&self) -> Vec<Name> {
        references::collations(&self.tree())
    }

    /// The sequences and other relations that constants name, as spelled in the text.
    pub fn named_relations(&self) -> Vec<String> {
        references::named_relations(&self.tree())
    }

    /// Whether PostgreSQL may raise an error when it computes the value: it is more than comparisons of columns, parameters and constants.
    pub(crate) fn may_fail(&self) -> bool {
        let comparisons = ["=", "<>", "<", "<=", ">", ">="];
        self.tree().any(&|node| match node.kind {
            "AExpr" => {
                let name = node.names("name");
                let [name] = name.as_slice() else { return true };
                !comparisons.contains(&name.as_str())
            }
            kind => !HARMLESS_NODES.contains(&kind),
        })
    }

    /// Whether it reads the time of the statement or transaction, or the day.
    pub(crate) fn reads_time(&self) -> bool {
        time_read::reads_time(&self.tree())
    }

    /// Whether it reads the time of the statement or transaction more precisely than the day.
    pub(crate) fn reads_moment(&self) -> bool {
        time_read::reads_moment(&self.tree())
    }

    /// Whether the expression reads the clock, which is later than the time at which the transaction began.
    pub(crate) fn reads_clock(&self) -> bool {
        self.functions()
            .iter()
            .any(|name| matches!(name.name.as_str(), "clock_timestamp" | "timeofday"))
    }

    /// Whether a parameter is cast to an interval with fields. A literal has another meaning there: `'5'::interval
    /// minute`.
    pub fn casts_parameter_to_fields(&self) -> bool {
        let to_fields = |node: &Record| {
            node.record("type_name").is_some_and(|name| {
                let interval = name.names("names").last().is_some_and(|n| n == "interval");
                interval && name.list("typmods").next().is_some()
            })
        };
        self.tree().any(&|node| {
            let argument = node.record("arg").map(|argument| argument.kind);
            node.kind == "TypeCast" && argument == Some("ParamRef") && to_fields(node)
        })
    }

    /// The largest parts that compute a value and depend neither on a column nor on a parameter that represents one.
    /// PostgreSQL may compute these parts, and raise their errors, even if there is no row.
    pub(crate) fn parts_without_columns(&self, terms: Terms<'_>) -> Vec<Expr> {
        let parts = parts::collect(self.node.as_ref().clone(), terms);
        let exprs = parts.into_iter().map(|node| Expr::new(node, None));
        exprs.filter_map(Result::ok).collect()
    }

    /// The column, if the expression is only a column reference.
    pub fn as_column(&self) -> Option<&str> {
        match (self.node.as_ref(), self.columns.as_slice()) {
            (NodeEnum::ColumnRef(_), [column]) => Some(column),
            _ => None,
        }
    }

    /// The parameter or constant, if the expression is only that.
    pub fn as_value(&self) -> Option<KeyValue> {
        key_value(&self.node)
    }

    /// Whether the expression is the constant NULL.
    pub fn is_null(&self) -> bool {
        matches!(self.node.as_ref(), NodeEnum::AConst(constant) if constant.isnull)
    }

    /// SQL text in parentheses, in which `column` replaces each column and `parameter` each parameter by an SQL
    /// expression. The rest is the deparsed text.
    ///
    /// # Errors
    /// [`NotParsed`] if the deparsed text would not parse to the same expression.
    pub fn to_sql(
        &self,
        column: &dyn Fn(&str) -> String,
        parameter: &dyn Fn(u32) -> String,
    ) -> Result<String, NotParsed> {
        let tag = unused_tag(&deparse(&self.node)?);
        let mut node = self.node.as_ref().clone();
        let mut replacements = Vec::new();
        for_each_leaf(&mut node, &mut |leaf| {
            let replacement = match leaf {
                NodeEnum::ColumnRef(reference) => column(&column_name(reference, None)?),
                NodeEnum::ParamRef(reference) => parameter(reference.number.unsigned_abs()),
                _ => return Ok(()),
            };
            *leaf = NodeEnum::ColumnRef(plain_column(&format!("{tag}{}z", replacements.len())));
            replacements.push(replacement);
            Ok(())
        })?;
        let text = deparse(&node)?;
        let again = single_target(parser::parse(&format!("SELECT {text}"))?);
        if again.is_none_or(|again| Record::of_node(&again) != Record::of_node(&node)) {
            return Err(NotParsed::because(
                "the deparsed expression does not mean the same",
            ));
        }
        let filled = fill_in(&text, &tag, &replacements);
        filled.ok_or_else(|| NotParsed::because("a placeholder is missing"))
    }

    fn tree(&self) -> Record {
        Record::of_node(&self.node)
    }
}

/// The text of the expression.
fn deparse(node: &NodeEnum) -> Result<String, NotParsed> {
    let target = ResTarget {
        val: Some(Box::new(Node {
            node: Some(node.clone()),
        })),
        ..ResTarget::default()
    };
    let select = SelectStmt {
        target_list: vec![Node {
            node: Some(NodeEnum::ResTarget(Box::new(target))),
        }],
        ..empty_select()
    };
    let text = parser::deparse(NodeEnum::SelectStmt(Box::new(select)))?;
    match text.strip_prefix("SELECT ") {
        Some(expression) => Ok(expression.to_owned()),
        None => Err(NotParsed::because(
            "the deparsed expression has another form than expected",
        )),
    }
}

/// The tree of a SELECT without any clauses.
fn empty_select() -> SelectStmt {
    SelectStmt {
        limit_option: pg_query::protobuf::LimitOption::Default.into(),
        op: pg_query::protobuf::SetOperation::SetopNone.into(),
        ..SelectStmt::default()
    }
}

/// The expression of a text `SELECT expression` without other clauses.
fn single_target(parsed: ParseResult) -> Option<NodeEnum> {
    let [raw] = <[_; 1]>::try_from(parsed.stmts).ok()?;
    let NodeEnum::SelectStmt(mut select) = raw.stmt?.node? else {
        return None;
    };
    let [target] = <[_; 1]>::try_from(std::mem::take(&mut select.target_list)).ok()?;
    let NodeEnum::ResTarget(target) = target.node? else {
        return None;
    };
    let is_alone =
        *select == empty_select() && target.name.is_empty() && target.indirection.is_empty();
    if is_alone { target.val?.node } else { None }
}

/// A prefix for placeholder names that the text does not contain.
fn unused_tag(text: &str) -> String {
    let mut number = 0_usize;
    loop {
        let tag = format!("q{number}v");
        if !text.contains(&tag) {
            return tag;
        }
        number += 1;
    }
}

/// Replaces all placeholders in one pass.
fn fill_in(text: &str, tag: &str, replacements: &[String]) -> Option<String> {
    let mut filled = String::from("(");
    let mut pieces = text.split(tag);
    filled.push_str(pieces.next()?);
    for piece in pieces {
        let (number, rest) = piece.split_once('z')?;
        filled.push('(');
        filled.push_str(replacements.get(number.parse::<usize>().ok()?)?);
        filled.push(')');
        filled.push_str(rest);
    }
    filled.push(')');
    Some(filled)
}

/// The column name of a reference `column` or `qualifier.column`.
fn column_name(reference: &ColumnRef, qualifier: Option<&str>) -> Result<String, NotParsed> {
    let name = referenced(reference, qualifier);
    let name = name.ok_or_else(|| NotParsed::because("not a column of the row"))?;
    match SYSTEM_COLUMNS.contains(&name.as_str()) {
        true => Err(NotParsed::because("a system column")),
        false => Ok(name),
    }
}

/// The same, also for a system column.
pub(crate) fn referenced(reference: &ColumnRef, qualifier: Option<&str>) -> Option<String> {
    match parser::strings(&reference.fields)?.as_slice() {
        [name] => Some((*name).to_owned()),
        [table, name] if qualifier == Some(*table) => Some((*name).to_owned()),
        _ => None,
    }
}

fn plain_column(name: &str) -> ColumnRef {
    let field = Node {
        node: Some(NodeEnum::String(Text {
            sval: name.to_owned(),
        })),
    };
    ColumnRef {
        fields: vec![field],
        location: 0,
    }
}

type OnLeaf<'a> = &'a mut dyn FnMut(&mut NodeEnum) -> Result<(), NotParsed>;

/// Calls `on_leaf` for each column reference and parameter, in order. Returns an error for nodes that are not
/// supported, so that an [`Expr`] cannot contain them.
fn for_each_leaf(node: &mut NodeEnum, on_leaf: OnLeaf) -> Result<(), NotParsed> {
    match node {
        NodeEnum::ColumnRef(_) | NodeEnum::ParamRef(_) => return on_leaf(node),
        NodeEnum::FuncCall(call) if !is_plain_call(call) => return Err(unsupported()),
        NodeEnum::TypeCast(cast) if !cast.type_name.as_ref().is_some_and(is_plain_type) => {
            return Err(unsupported());
        }
        NodeEnum::AIndirection(value) => check_indirection(value)?,
        _ => {}
    }
    for child in children(node).ok_or_else(unsupported)? {
        let child = child.node.as_mut();
        for_each_leaf(
            child.ok_or_else(|| NotParsed::because("an empty node"))?,
            on_leaf,
        )?;
    }
    Ok(())
}

fn unsupported() -> NotParsed {
    NotParsed::because("an expression that is not supported")
}

/// Accepts `column[1]` and `column[1:2]`. A field, `(column).name`, may be the call of a function. Other expressions than columns are
/// not supported.
fn check_indirection(value: &AIndirection) -> Result<(), NotParsed> {
    let inner = value.arg.as_ref().and_then(|arg| arg.node.as_ref());
    if !matches!(
        inner,
        Some(NodeEnum::ColumnRef(_) | NodeEnum::AIndirection(_))
    ) {
        return Err(NotParsed::because(
            "an element of something that is not a column",
        ));
    }
    let mut steps = value.indirection.iter();
    match steps.all(is_index) {
        true => Ok(()),
        false => Err(NotParsed::because("a field of a value")),
    }
}

/// Whether the call uses no aggregate or window function syntax.
pub(crate) fn is_plain_call(call: &FuncCall) -> bool {
    call.agg_order.is_empty()
        && call.agg_filter.is_none()
        && call.over.is_none()
        && !call.agg_within_group
        && !call.agg_star
        && !call.agg_distinct
}

/// Whether the type is named directly: no set, no `%TYPE`, no parameter in its modifiers.
fn is_plain_type(name: &TypeName) -> bool {
    !name.setof && !name.pct_type && !Record::of(name).contains(&["ParamRef"])
}
