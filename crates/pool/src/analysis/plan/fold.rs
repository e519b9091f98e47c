//! The questions to the catalog for `fold`, and for the UPDATE of an upsert.

use crate::analysis::catalog::{ask_names, ask_table, ask_types};
use crate::analysis::describe::{describe, harmless_but_types_sql};
use crate::analysis::reasons::{FOREIGN, NO_TABLE, NO_TYPE, TOO_MANY};
use crate::server::{ServerConn, ServerError};
use paceline_batch::strategy::fold::FoldPlan;
use paceline_relay::template::{Template, Templates};
use paceline_sql::facts::{CatalogVersion, Evaluated, Names};
use paceline_sql::{Expr, Name, TableFacts, Update, facts, fold};

pub(super) async fn ask_fold(
    conn: &mut ServerConn,
    template: &Template,
    update: &Update,
    templates: &Templates,
) -> Result<Result<FoldPlan, String>, ServerError> {
    let (parameters, fields) = match describe(conn, template).await? {
        Ok(described) => described,
        Err(why) => return Ok(Err(why)),
    };
    let Some(mut table) = ask_table(conn, &update.relation).await? else {
        return Ok(Err(NO_TABLE.to_owned()));
    };
    let Some(version) = ask_update(conn, update, &[], &table).await? else {
        return Ok(Err(FOREIGN.to_owned()));
    };
    table.catalog_version = table.catalog_version.and(&version);
    let Some((parameter_names, returning_names)) = ask_types(conn, &parameters, &fields).await?
    else {
        return Ok(Err(NO_TYPE.to_owned()));
    };
    let fold = fold::rewrite(update, &table, &parameter_names, &returning_names);
    Ok(match fold {
        Err(refusal) => Err(refusal.to_string()),
        Ok(fold) => FoldPlan::new(template, fold, &table, parameters, fields, templates)
            .ok_or_else(|| TOO_MANY.to_owned()),
    })
}

/// The catalog version of the names in the update, in the proposed values and in the table's checks, if all functions, operators
/// and cast types there are PostgreSQL's own and no function is volatile.
pub(super) async fn ask_update(
    conn: &mut ServerConn,
    update: &Update,
    proposed: &[&Expr],
    table: &TableFacts,
) -> Result<Option<CatalogVersion>, ServerError> {
    let checks: Vec<Expr> = table
        .checks
        .iter()
        .filter_map(|text| Expr::parse(text).ok())
        .collect();
    let returning = update.returning.iter().filter_map(|item| match item {
        paceline_sql::Returning::Expr { expr, .. } => Some(expr),
        paceline_sql::Returning::All => None,
    });
    let assigned = update.assignments.iter().map(|(_, expr)| expr);
    let exprs: Vec<&Expr> = update
        .guards
        .iter()
        .chain(assigned)
        .chain(returning)
        .chain(proposed.iter().copied())
        .chain(&checks)
        .collect();
    // A cast of a value to the type of its column does no more than the assignment.
    let of_column = |name: &Name| {
        let full = format!(
            "{}.{}",
            name.schema.as_deref().unwrap_or_default(),
            name.name
        );
        let mut columns = table.columns.iter().filter(|column| column.builtin);
        columns.any(|column| column.type_name == name.name || column.type_name == full)
    };
    let mut types: Vec<Name> = exprs.iter().flat_map(|e| e.casts_to()).collect();
    types.retain(|name| !of_column(name));
    let harmless = harmless_but_types_sql(&exprs, &types, &[]);
    let nameless = facts::no_names_sql(&update.relation);
    let unseen = facts::no_context_read_sql(&update.relation, Evaluated::Constraints);
    let questions = [harmless, nameless, unseen];
    ask_names(conn, &Names::of(exprs), &questions).await
}
