//! The questions to the catalog for `take`: UPDATE and DELETE of what a consumer of a queue picks.

use crate::analysis::catalog::{ask_names, ask_table, ask_types};
use crate::analysis::describe::{VALUES_OF_ROWS, describe, harmless_sql};
use crate::analysis::reasons::{FOREIGN, NO_TABLE, NO_TYPE, TOO_MANY};
use crate::server::{ServerConn, ServerError};
use paceline_batch::strategy::distribute::DistributePlan;
use paceline_relay::template::{Template, Templates};
use paceline_sql::facts::{Evaluated, Names};
use paceline_sql::take::{self, Take};
use paceline_sql::{Name, facts};

/// Those whose values do not depend on the order of rows.
const VALUES_WITHOUT_ORDER: [&str; 2] = ["gen_random_uuid", "random"];

pub(super) async fn ask_take(
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
    let constraints = Evaluated::Constraints;
    questions.push(facts::no_context_read_sql(&take.relation, constraints));
    let of_onto = |name| {
        [
            facts::apart_sql(name, &[]),
            facts::no_names_sql(name),
            facts::no_context_read_sql(name, Evaluated::ConstraintsAndDefaults),
        ]
    };
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
        Ok(taking) => DistributePlan::new(template, taking, parameters, fields, templates)
            .ok_or_else(|| TOO_MANY.to_owned()),
    })
}
