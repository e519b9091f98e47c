//! Calls of functions that take rows from a queue, `SELECT … FROM f(…)`, and one call that takes rows for many
//! clients. The configuration declares which functions take from a queue, and which argument limits the number of
//! rows.

#[cfg(test)]
mod tests;

use pg_query::protobuf::{FuncCall, LimitOption, RangeFunction, SelectStmt, SetOperation};
use pg_query::{Node, NodeEnum};

use crate::distribution::{
    Distribution, DistributionRefusal, SET_LOCK_TIMEOUT, Shared, UNCERTAIN, answer_names,
    answers_sql,
};
use crate::expr::Expr;
use crate::facts::SAME;
use crate::function::FunctionFacts;
use crate::name::Name;
use crate::operator::{CONCAT, LE};
use crate::parser::strings;
use crate::quote::quote_ident;
use crate::type_name::TypeName;
use crate::update::{Returning, as_target, returned_exprs, returned_values, returning_item};
use crate::value::{KeyValue, key_value};
use std::collections::BTreeSet;

/// The parts of `SELECT targets FROM function(arguments)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// The called function.
    pub function: Name,
    /// The alias of the function in FROM.
    pub alias: Option<String>,
    /// The arguments of the call.
    pub arguments: Vec<Argument>,
    /// The items of the SELECT list.
    pub targets: Vec<Returning>,
}

/// An argument, which reads no columns.
#[derive(Clone, PartialEq, Debug)]
pub struct Argument {
    /// `name => …`
    pub name: Option<String>,
    /// The expression of the argument.
    pub value: Expr,
    /// The value, if the expression is a parameter or constant.
    plain: Option<KeyValue>,
}

/// Number of the first shared parameter, after the number of rows and the catalog version.
const SHARED: usize = 3;

impl Call {
    /// The expressions over the returned rows.
    pub fn selecting(&self) -> Vec<&Expr> {
        returned_exprs(&self.targets).collect()
    }

    /// The expressions of the arguments.
    pub fn arguing(&self) -> Vec<&Expr> {
        let arguments = self.arguments.iter();
        arguments.map(|argument| &argument.value).collect()
    }

    /// The same call with all columns of its rows. Its description contains their names.
    ///
    /// # Errors
    /// [`DistributionRefusal::Expression`] if an argument cannot be rewritten.
    pub fn all_columns_sql(&self) -> Result<String, DistributionRefusal> {
        let itself = |n: u32| format!("${n}");
        let arguments: Result<Vec<String>, DistributionRefusal> =
            self.arguments.iter().map(|a| a.to_sql(&itself)).collect();
        let Name { schema, name } = &self.function;
        let schema = schema.iter().map(|schema| quote_ident(schema) + ".");
        let alias = self.alias.iter();
        let alias = alias.map(|alias| format!(" AS {}", quote_ident(alias)));
        Ok(format!(
            "SELECT * FROM {}{}({}){}",
            schema.collect::<String>(),
            quote_ident(name),
            arguments?.join(", "),
            alias.collect::<String>(),
        ))
    }

    /// The position of the argument that limits the number of rows.
    fn limit(&self, function: &FunctionFacts) -> Option<usize> {
        let named = |argument: &Argument| argument.name == function.limit_name;
        let by_name = || {
            function.limit_name.as_ref()?;
            self.arguments.iter().position(named)
        };
        let position = function.limit_argument.checked_sub(1)?;
        match self.arguments.get(position) {
            Some(Argument { name: None, .. }) => Some(position),
            _ => by_name(),
        }
    }
}

impl Argument {
    fn to_sql(&self, parameter: &dyn Fn(u32) -> String) -> Result<String, DistributionRefusal> {
        let value = self.value.to_sql(&|_| String::new(), parameter)?;
        Ok(match &self.name {
            Some(name) => format!("{} => {value}", quote_ident(name)),
            None => value,
        })
    }
}

/// The parts, if the statements are one call.
pub(crate) fn of_statements(statements: &[NodeEnum]) -> Option<Call> {
    match statements {
        [NodeEnum::SelectStmt(select)] => parts_of(select),
        _ => None,
    }
}

fn parts_of(select: &SelectStmt) -> Option<Call> {
    let [from] = select.from_clause.as_slice() else {
        return None;
    };
    let NodeEnum::RangeFunction(from) = from.node.as_ref()? else {
        return None;
    };
    let call = single_call(from)?;
    let parts = strings(&call.funcname).filter(|parts| parts.len() <= 2)?;
    let function = Name::from_parts(parts.into_iter().map(str::to_owned).collect())?;
    let qualifier = match &from.alias {
        Some(alias) if alias.colnames.is_empty() => &alias.aliasname,
        Some(_) => return None,
        None => &function.name,
    };
    let target = |node: &Node| returning_item(as_target(node)?, qualifier);
    is_bare(select).then_some(Call {
        arguments: call.args.iter().map(read_argument).collect::<Option<_>>()?,
        targets: (select.target_list.iter().map(target)).collect::<Option<_>>()?,
        alias: from.alias.as_ref().map(|alias| alias.aliasname.clone()),
        function,
    })
}

/// Whether the SELECT has no clauses other than targets and FROM.
fn is_bare(select: &SelectStmt) -> bool {
    select.distinct_clause.is_empty()
        && select.into_clause.is_none()
        && select.where_clause.is_none()
        && select.group_clause.is_empty()
        && select.having_clause.is_none()
        && select.window_clause.is_empty()
        && select.values_lists.is_empty()
        && select.sort_clause.is_empty()
        && select.limit_offset.is_none()
        && select.limit_count.is_none()
        && select.limit_option() == LimitOption::Default
        && select.locking_clause.is_empty()
        && select.with_clause.is_none()
        && select.op() == SetOperation::SetopNone
}

/// The function of `FROM f(…)` without ORDINALITY, ROWS FROM or a column definition list.
fn single_call(from: &RangeFunction) -> Option<&FuncCall> {
    let [item] = from.functions.as_slice() else {
        return None;
    };
    let NodeEnum::List(item) = item.node.as_ref()? else {
        return None;
    };
    let NodeEnum::FuncCall(call) = item.items.first()?.node.as_ref()? else {
        return None;
    };
    let no_columns = item.items.iter().skip(1).all(|node| node.node.is_none());
    let plain = !from.ordinality && !from.is_rowsfrom && from.coldeflist.is_empty();
    (plain && no_columns && crate::expr::is_plain_call(call) && !call.func_variadic).then_some(call)
}

fn read_argument(node: &Node) -> Option<Argument> {
    let (name, value) = match node.node.as_ref()? {
        NodeEnum::NamedArgExpr(named) => (
            Some(named.name.clone()),
            named.arg.as_deref()?.node.as_ref()?,
        ),
        value => (None, value),
    };
    let expr = Expr::new(value.clone(), None).ok()?;
    let plain = key_value(value);
    expr.columns().is_empty().then_some(Argument {
        name,
        value: expr,
        plain,
    })
}

/// Rewrites `call` for many clients. `columns` are the names of all columns of the function's rows, `parameters` and
/// `returning` are the types of the parameters and targets.
///
/// # Errors
/// [`DistributionRefusal`]: why the call cannot be rewritten.
pub fn rewrite(
    call: &Call,
    function: &FunctionFacts,
    columns: &[String],
    parameters: &[TypeName],
    returning: &[TypeName],
) -> Result<Distribution, DistributionRefusal> {
    let limit = call.limit(function).ok_or(DistributionRefusal::Limit)?;
    let wanted = call.arguments.get(limit).and_then(|a| a.plain.clone());
    let wanted = wanted.ok_or(DistributionRefusal::Limit)?;
    let mut others = call.arguing();
    others.remove(limit);
    let all: Vec<&Expr> = others.into_iter().chain(call.selecting()).collect();
    if all.iter().any(|expr| expr.casts_parameter_to_fields()) {
        return Err(DistributionRefusal::Interval);
    }
    // All members must have the same values for parameters other than the limit.
    let shared: BTreeSet<u32> = all.into_iter().flat_map(Expr::parameters).collect();
    let shared: Vec<u32> = shared.into_iter().collect();
    if matches!(wanted, KeyValue::Parameter(number) if shared.contains(&number)) {
        return Err(DistributionRefusal::Limit);
    }
    let types = Shared::of(&shared, parameters)?;
    let parameter = |number| types.sql(number, SHARED).unwrap_or_default();
    let text = Rewriter {
        call,
        function,
        columns,
        limit,
        parameter: &parameter,
    }
    .text(returning)?;
    Ok(Distribution {
        text_of_few: None,
        positioned: None,
        text,
        limit: wanted,
        single: false,
        queue: true,
        shared,
        per_member: Vec::new(),
        tag: "SELECT",
        may_fail_unseen: false,
        raises_anything: true,
        returning: returning.len(),
    })
}

struct Rewriter<'a> {
    call: &'a Call,
    function: &'a FunctionFacts,
    columns: &'a [String],
    limit: usize,
    parameter: &'a dyn Fn(u32) -> String,
}

impl Rewriter<'_> {
    /// The limit argument depends on `facts`, so that PostgreSQL calls the function only if the catalog version is unchanged.
    fn text(&self, returning: &[TypeName]) -> Result<String, DistributionRefusal> {
        let selected = answers_sql(&self.targets()?, returning)?;
        let names = answer_names(returning.len());
        let columns = 1..=self.columns.len();
        let columns: String = columns.map(|n| format!("c{n}, ")).collect();
        Ok(format!(
            "WITH facts AS MATERIALIZED ({facts}), \
             taken AS MATERIALIZED (SELECT t.n::pg_catalog.int4 AS n{selected} \
             FROM facts, LATERAL {schema}.{name}({arguments}) WITH ORDINALITY AS t({columns}n) WHERE facts.same) \
             SELECT CASE WHEN (SELECT pg_catalog.count(*) FROM taken) {LE} $1::pg_catalog.int8 \
             THEN {SAME} WHEN ('{UNCERTAIN}' {CONCAT} facts.same::pg_catalog.text)::pg_catalog.bool THEN NULL END, \
             w.n{names} FROM facts LEFT JOIN taken AS w ON true ORDER BY w.n",
            facts = self
                .function
                .catalog_version
                .facts_sql(2, &format!(" AND {SET_LOCK_TIMEOUT}")),
            schema = quote_ident(&self.function.schema),
            name = quote_ident(&self.function.name),
            arguments = self.arguments()?.join(", "),
        ))
    }

    fn arguments(&self) -> Result<Vec<String>, DistributionRefusal> {
        let total = format!(
            "(CASE WHEN facts.same THEN $1::pg_catalog.int8 END)::{}",
            self.function.limit_type
        );
        let argument = |(place, argument): (usize, &Argument)| match (&argument.name, place) {
            (None, place) if place == self.limit => Ok(total.clone()),
            (Some(name), place) if place == self.limit => {
                Ok(format!("{} => {total}", quote_ident(name)))
            }
            _ => argument.to_sql(self.parameter),
        };
        let arguments = self.call.arguments.iter().enumerate();
        arguments.map(argument).collect()
    }

    fn targets(&self) -> Result<Vec<String>, DistributionRefusal> {
        let place = |name: &str| self.columns.iter().position(|column| column == name);
        let all = || Vec::from_iter((1..=self.columns.len()).map(|n| format!("t.c{n}")));
        returned_values(&self.call.targets, all, |expr| {
            // A name that is not a column may refer to the whole row.
            if let Some(unknown) = expr.columns().into_iter().find(|c| place(c).is_none()) {
                return Err(DistributionRefusal::Column(unknown));
            }
            let column = |name: &str| format!("t.c{}", place(name).map_or(0, |n| n + 1));
            Ok(expr.to_sql(&column, self.parameter)?)
        })
    }
}
