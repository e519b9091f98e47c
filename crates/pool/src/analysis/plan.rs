//! The plan by which a template is grouped, or why there is none.

use super::catalog::{ask_names, ask_table, ask_types};
use super::declared::{ask_call, takes_many};
use super::describe::{TemplateTypes, describe, harmless_but_types_sql, harmless_sql};
use super::reasons::{FOREIGN, NO_SHAPE, NO_TABLE, NO_TYPE, OTHER_CALL, TOO_MANY};
use crate::server::{ServerConn, ServerError};
use paceline_batch::strategy::GroupPlan;
use paceline_batch::strategy::distribute::DistributePlan;
use paceline_batch::strategy::fold::FoldPlan;
use paceline_batch::strategy::multi_row::MultiRowPlan;
use paceline_batch::strategy::upsert::UpsertPlan;
use paceline_config::Role;
use paceline_relay::template::{Template, Templates};
use paceline_sql::facts::{CatalogVersion, Names};
use paceline_sql::fold;
use paceline_sql::merge::upsert::{self, MultiRowUpsert, OnConflict, Upsert};
use paceline_sql::take::{self, Take};
use paceline_sql::{Expr, Insert, Name, Statement, TableFacts, Update, facts, merge};
use std::sync::Arc;

pub(super) async fn ask_plan(
    conn: &mut ServerConn,
    template: &Template,
    statement: &Statement,
    declared: &[(Name, Role)],
    templates: &Templates,
) -> Result<Result<Arc<dyn GroupPlan>, String>, ServerError> {
    let fold = |plan| Arc::new(plan) as Arc<dyn GroupPlan>;
    let deal = |plan| Arc::new(plan) as Arc<dyn GroupPlan>;
    if let Some(update) = &statement.update {
        let plan = ask_fold(conn, template, update, templates).await?;
        return Ok(plan.map(fold));
    }
    if let Some(take) = &statement.take {
        let plan = ask_take(conn, template, take, templates).await?;
        return Ok(plan.map(deal));
    }
    if let Some(insert) = &statement.insert {
        return ask_insert(conn, template, insert, templates).await;
    }
    let calls = statement.call.as_ref();
    for (name, role) in declared {
        if let Some(limit) = role.limit()
            && let Some(call) = calls.filter(|call| call.function == *name)
        {
            let plan = ask_call(conn, template, call, limit, templates).await?;
            return Ok(plan.map(deal));
        }
    }
    let why = match takes_many(declared) {
        true => OTHER_CALL,
        false => NO_SHAPE,
    };
    Ok(Err(why.to_owned()))
}

async fn ask_fold(
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

/// Volatile functions of PostgreSQL that may be used in inserted, changed or moved rows: each row gets its own value, as without
/// a group.
pub(super) const VALUES_OF_ROWS: [&str; 4] =
    ["clock_timestamp", "gen_random_uuid", "nextval", "random"];

/// Those whose values do not depend on the order of rows.
const VALUES_WITHOUT_ORDER: [&str; 2] = ["gen_random_uuid", "random"];

async fn ask_take(
    conn: &mut ServerConn,
    template: &Template,
    take: &Take,
    templates: &Templates,
) -> Result<Result<DistributePlan, String>, ServerError> {
    let (parameters, fields) = match describe(conn, template).await? {
        Ok(described) => described,
        Err(why) => return Ok(Err(why)),
    };
    let mut tables = Vec::new();
    let onto = take.onward.as_ref().map(|onward| &onward.relation);
    for name in [Some(&take.relation), onto].into_iter().flatten() {
        match ask_table(conn, name).await? {
            Some(table) => tables.push(table),
            None => return Ok(Err(NO_TABLE.to_owned())),
        }
    }
    let picking = harmless_sql(&take.picking(), &[take::TRY_LOCK]);
    let taking = harmless_sql(&take.taking(), &VALUES_WITHOUT_ORDER);
    let changing = harmless_sql(&take.moving(), &VALUES_OF_ROWS);
    let assigned = take.assignments.iter().flatten();
    let assigned: Vec<String> = assigned.map(|(column, _)| column.clone()).collect();
    let mut questions = vec![picking, taking, changing];
    questions.push(facts::apart_sql(&take.relation, &assigned));
    questions.push(facts::no_names_sql(&take.relation));
    let of_onto = |name| [facts::apart_sql(name, &[]), facts::no_names_sql(name)];
    questions.extend(onto.into_iter().flat_map(of_onto));
    let relations = [Some(&take.relation), onto].into_iter().flatten();
    let relations: Vec<Name> = relations.cloned().collect();
    questions.push(facts::no_numbers_read_sql(&relations, &[]));
    let exprs = take.picking().into_iter().chain(take.changing());
    let names = Names::of(exprs);
    let Some(version) = ask_names(conn, &names, &questions).await? else {
        return Ok(Err(FOREIGN.to_owned()));
    };
    if let Some(queue) = tables.first_mut() {
        queue.catalog_version = queue.catalog_version.and(&version);
    }
    let Some((parameter_names, returning_names)) = ask_types(conn, &parameters, &fields).await?
    else {
        return Ok(Err(NO_TYPE.to_owned()));
    };
    let [queue, onto @ ..] = tables.as_slice() else {
        return Ok(Err(NO_TABLE.to_owned()));
    };
    let taking = take::rewrite(
        take,
        queue,
        onto.first(),
        &parameter_names,
        &returning_names,
    );
    Ok(match taking {
        Err(refusal) => Err(refusal.to_string()),
        Ok(taking) => {
            let prints = tables.into_iter().map(|table| table.catalog_version.value);
            let prints = prints.collect();
            DistributePlan::new(template, taking, prints, parameters, fields, templates)
                .ok_or_else(|| TOO_MANY.to_owned())
        }
    })
}

async fn ask_insert(
    conn: &mut ServerConn,
    template: &Template,
    insert: &Insert,
    templates: &Templates,
) -> Result<Result<Arc<dyn GroupPlan>, String>, ServerError> {
    let (parameters, fields) = match describe(conn, template).await? {
        Ok(described) => described,
        Err(why) => return Ok(Err(why)),
    };
    let Some(mut table) = ask_table(conn, &insert.relation).await? else {
        return Ok(Err(NO_TABLE.to_owned()));
    };
    let values = insert.exprs();
    let harmless = harmless_sql(&values, &VALUES_OF_ROWS);
    // In a group, defaults are evaluated after the values of all members instead of row by row.
    let numbers = values.iter().flat_map(|expr| expr.functions());
    let serial = match numbers.into_iter().any(|name| name.name == "nextval") {
        true => facts::no_serial_sql(&insert.relation, &insert.columns),
        false => "SELECT true".to_owned(),
    };
    let apart = facts::apart_sql(&insert.relation, &[]);
    let nameless = facts::no_names_sql(&insert.relation);
    let unread = facts::no_numbers_read_sql(std::slice::from_ref(&insert.relation), &[]);
    let names = Names::of(values);
    let questions = [harmless, apart, nameless, serial, unread];
    let Some(version) = ask_names(conn, &names, &questions).await? else {
        return Ok(Err(FOREIGN.to_owned()));
    };
    table.catalog_version = table.catalog_version.and(&version);
    let Some((names, returning)) = ask_types(conn, &parameters, &fields).await? else {
        return Ok(Err(NO_TYPE.to_owned()));
    };
    if insert.conflict.is_none() {
        let dealing = match merge::rewrite(insert, &table, &names, &returning) {
            Ok(dealing) => dealing,
            Err(refusal) => return Ok(Err(refusal.to_string())),
        };
        let plan = DistributePlan::new(
            template,
            dealing,
            vec![table.catalog_version.value],
            parameters,
            fields,
            templates,
        );
        let plan = plan.map(|plan| Arc::new(plan) as Arc<dyn GroupPlan>);
        return Ok(plan.ok_or_else(|| TOO_MANY.to_owned()));
    }
    let on_conflict = match upsert::on_conflict(insert, &table, &names) {
        Ok(on_conflict) => on_conflict,
        Err(refusal) => return Ok(Err(refusal.to_string())),
    };
    if let Some(OnConflict {
        update, proposed, ..
    }) = &on_conflict
    {
        let Some(version) = ask_update(conn, update, proposed, &table).await? else {
            return Ok(Err(FOREIGN.to_owned()));
        };
        table.catalog_version = table.catalog_version.and(&version);
    }
    let (change, described) = (on_conflict.as_ref(), (parameters, fields));
    let plan = match insert.rows.len() {
        1 => upsert::rewrite(insert, change, &table, &names, &returning)
            .map(|upsert| plan_upsert(template, upsert, &table, described, templates)),
        _ => upsert::rewrite_multi_row(insert, change, &table, &names, &returning)
            .map(|several| plan_several(template, several, &table, described, templates)),
    };
    Ok(match plan {
        Ok(plan) => plan.ok_or_else(|| TOO_MANY.to_owned()),
        Err(refusal) => Err(refusal.to_string()),
    })
}

fn plan_upsert(
    template: &Template,
    upsert: Upsert,
    table: &TableFacts,
    (parameters, fields): TemplateTypes,
    templates: &Templates,
) -> Option<Arc<dyn GroupPlan>> {
    let plan = UpsertPlan::new(template, upsert, table, parameters, fields, templates)?;
    Some(Arc::new(plan))
}

fn plan_several(
    template: &Template,
    several: MultiRowUpsert,
    table: &TableFacts,
    (parameters, fields): TemplateTypes,
    templates: &Templates,
) -> Option<Arc<dyn GroupPlan>> {
    let plan = MultiRowPlan::new(template, several, table, parameters, fields, templates)?;
    Some(Arc::new(plan))
}

/// The catalog version of the names in the update, in the proposed values and in the table's checks, if all functions, operators
/// and cast types there are PostgreSQL's own and no function is volatile.
async fn ask_update(
    conn: &mut ServerConn,
    update: &Update,
    proposed: &[Expr],
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
        .chain(proposed)
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
    ask_names(conn, &Names::of(exprs), &[harmless, nameless]).await
}
