//! Functions that the configuration declares: which of them a statement calls, and how calls of a queue function are combined
//! into one call.

use super::catalog::{ask_names, ask_types, first};
use super::describe::{describe, harmless_sql};
use super::reasons::{FOREIGN, NO_TYPE, TOO_MANY};
use crate::server::{ResultRows, ServerConn, ServerError};
use paceline_batch::strategy::distribute::DistributePlan;
use paceline_config::{Declared, Role};
use paceline_relay::template::{Template, Templates};
use paceline_sql::facts::{CatalogVersion, Names};
use paceline_sql::function::{
    FunctionFacts, catalog_version_sql, function_sql, plain_functions_sql, same_function_sql,
};
use paceline_sql::{Call, Name, call};
use paceline_wire::backend::Field;
use paceline_wire::frontend;

const AMBIGUOUS: &str = "the declared function is not one that returns rows, or one of several of its name, or its limit is no integer";

/// The declared functions that a statement calls.
#[derive(Debug)]
pub(super) struct DeclaredCalls {
    /// Those whose calls are grouped.
    pub(super) grouped: Vec<(Name, Role)>,
    /// All functions that the statement calls, without those that are declared to only read.
    pub(super) others: Vec<Name>,
    /// Whether only the primary may execute the statement.
    pub(super) needs_primary: bool,
}

impl DeclaredCalls {
    /// `found` are the declared ones among the `functions` that a statement calls.
    pub(super) fn of(found: Vec<(Name, Role)>, functions: &[Name]) -> Self {
        let is = |name: &Name, role: Role| found.iter().any(|(n, r)| n == name && *r == role);
        let others = functions.iter().filter(|name| !is(name, Role::Replica));
        let others = others.cloned().collect();
        let needs_primary = functions.iter().any(|name| is(name, Role::Primary));
        let mut grouped: Vec<(Name, Role)> = Vec::new();
        for (name, role) in found.into_iter().filter(|(_, role)| role.groups()) {
            if !grouped.iter().any(|(other, _)| *other == name) {
                grouped.push((name, role));
            }
        }
        Self {
            grouped,
            others,
            needs_primary,
        }
    }
}

/// The declared functions among these names, with their roles. A function may be declared more than once, by different names.
pub(super) async fn ask_declared(
    conn: &mut ServerConn,
    names: &[Name],
    declared: &[Declared],
) -> Result<Vec<(Name, Role)>, ServerError> {
    let mut found = Vec::new();
    for name in names {
        for Declared { function, role } in declared {
            let perhaps = function.name == name.name;
            if perhaps && (function == name || ask_same(conn, function, name).await?) {
                found.push((name.clone(), *role));
            }
        }
    }
    Ok(found)
}

async fn ask_same(conn: &mut ServerConn, one: &Name, other: &Name) -> Result<bool, ServerError> {
    let answers = conn.query(&same_function_sql(one, other)).await?;
    Ok(answers.first().is_some_and(|rows| first(rows) == Some("t")))
}

/// The plan that combines calls of a queue function, or why there is none.
pub(super) async fn ask_call(
    conn: &mut ServerConn,
    template: &Template,
    call: &Call,
    limit_argument: usize,
    templates: &Templates,
) -> Result<Result<DistributePlan, String>, ServerError> {
    let (parameters, fields) = match describe(conn, template).await? {
        Ok(described) => described,
        Err(why) => return Ok(Err(why)),
    };
    let selected: Vec<Name> = call
        .selecting()
        .iter()
        .flat_map(|e| e.functions())
        .collect();
    let questions = [
        harmless_sql(&call.arguing(), &[]),
        harmless_sql(&call.selecting(), &[]),
        plain_functions_sql(&selected),
    ];
    let exprs = call.arguing().into_iter().chain(call.selecting());
    let names = Names::of(exprs);
    let Some(version) = ask_names(conn, &names, &questions).await? else {
        return Ok(Err(FOREIGN.to_owned()));
    };
    let functions = function_sql(&call.function, call.arguments.len(), limit_argument);
    let functions = conn.query(&functions).await?;
    let function = functions.first();
    let function =
        function.and_then(|rows| read_function(rows, &call.function, limit_argument, &version));
    let Some(function) = function else {
        return Ok(Err(AMBIGUOUS.to_owned()));
    };
    let whole = match call.all_columns_sql() {
        Ok(whole) => whole,
        Err(refusal) => return Ok(Err(refusal.to_string())),
    };
    let types = frontend::parameter_types(&parameters);
    let whole = conn.describe(&whole, &types).await?;
    let name = |field: &Field| String::from_utf8_lossy(&field.name).into_owned();
    let columns: Vec<String> = whole.fields.iter().map(name).collect();
    let Some((parameter_names, returned_names)) = ask_types(conn, &parameters, &fields).await?
    else {
        return Ok(Err(NO_TYPE.to_owned()));
    };
    let dealing = call::rewrite(call, &function, &columns, &parameter_names, &returned_names);
    Ok(match dealing {
        Err(refusal) => Err(refusal.to_string()),
        Ok(dealing) => DistributePlan::new(template, dealing, parameters, fields, templates)
            .ok_or_else(|| TOO_MANY.to_owned()),
    })
}

/// The facts about the only matching function, if its calls can be combined. `version` is the version of the other names in the
/// call.
fn read_function(
    rows: &ResultRows,
    name: &Name,
    limit_argument: usize,
    version: &CatalogVersion,
) -> Option<FunctionFacts> {
    let [row] = rows.as_slice() else {
        return None;
    };
    let [catalog_version, schema, limit_name, limit_type, fits] =
        <[Option<String>; 5]>::try_from(row.clone()).ok()?;
    (fits? == "t").then_some(FunctionFacts {
        schema: schema?,
        name: name.name.clone(),
        limit_argument,
        limit_name: limit_name.filter(|name| !name.is_empty()),
        limit_type: limit_type?,
        catalog_version: version.and(&CatalogVersion::new(
            catalog_version_sql(&name.name),
            catalog_version?,
        )),
    })
}

/// Whether the statement calls a function that takes rows for many requests at once.
pub(super) fn takes_many(declared: &[(Name, Role)]) -> bool {
    declared.iter().any(|(_, role)| role.limit().is_some())
}
