//! The questions to the catalog for `merge`: INSERT, with and without ON CONFLICT.

use super::fold::ask_update;
use crate::analysis::catalog::{ask_names, ask_table, ask_types};
use crate::analysis::describe::{TemplateTypes, VALUES_OF_ROWS, describe, harmless_sql};
use crate::analysis::reasons::{FOREIGN, NO_TABLE, NO_TYPE, TOO_MANY};
use crate::server::{ServerConn, ServerError};
use paceline_batch::strategy::GroupPlan;
use paceline_batch::strategy::distribute::DistributePlan;
use paceline_batch::strategy::multi_row::MultiRowPlan;
use paceline_batch::strategy::upsert::UpsertPlan;
use paceline_relay::template::{Template, Templates};
use paceline_sql::facts::{Evaluated, Names};
use paceline_sql::merge::upsert::{self, MultiRowUpsert, OnConflict, Upsert};
use paceline_sql::{Expr, Insert, TableFacts, facts, merge};
use std::sync::Arc;

pub(super) async fn ask_insert(
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
    let evaluated = Evaluated::ConstraintsAndDefaults;
    let unseen = facts::no_context_read_sql(&insert.relation, evaluated);
    let names = Names::of(values);
    let questions = [harmless, apart, nameless, serial, unread, unseen];
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
        let plan = DistributePlan::new(template, dealing, parameters, fields, templates);
        let plan = plan.map(|plan| Arc::new(plan) as Arc<dyn GroupPlan>);
        return Ok(plan.ok_or_else(|| TOO_MANY.to_owned()));
    }
    let on_conflict = match upsert::on_conflict(insert, &table, &names) {
        Ok(on_conflict) => on_conflict,
        Err(refusal) => return Ok(Err(refusal.to_string())),
    };
    if let Some(OnConflict {
        update,
        proposed,
        values,
        ..
    }) = &on_conflict
    {
        let values = values.iter().map(|proposed| &proposed.value);
        let proposed: Vec<&Expr> = proposed.iter().chain(values).collect();
        let Some(version) = ask_update(conn, update, &proposed, &table).await? else {
            return Ok(Err(FOREIGN.to_owned()));
        };
        table.catalog_version = table.catalog_version.and(&version);
    }
    let (change, described) = (on_conflict.as_ref(), (parameters, fields));
    let plan = match insert.rows.len() {
        1 => upsert::rewrite(insert, change, &table, &names, &returning)
            .map(|upsert| plan_upsert(template, upsert, &table, described, templates)),
        _ => upsert::rewrite_multi_row(insert, change, &table, &names, &returning)
            .map(|several| plan_multi_row(template, several, &table, described, templates)),
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

fn plan_multi_row(
    template: &Template,
    several: MultiRowUpsert,
    table: &TableFacts,
    (parameters, fields): TemplateTypes,
    templates: &Templates,
) -> Option<Arc<dyn GroupPlan>> {
    let plan = MultiRowPlan::new(template, several, table, parameters, fields, templates)?;
    Some(Arc::new(plan))
}
