//! The plan by which a template is grouped, or why there is none.

mod fold;
mod insert;
mod take;

use super::declared::{ask_call, takes_many};
use super::reasons::{NO_SHAPE, OTHER_CALL};
use crate::server::{ServerConn, ServerError};
use fold::ask_fold;
use insert::ask_insert;
use paceline_batch::strategy::GroupPlan;
use paceline_config::Role;
use paceline_relay::template::{Template, Templates};
use paceline_sql::{Name, Statement};
use std::sync::Arc;
use take::ask_take;

fn shared(plan: impl GroupPlan + 'static) -> Arc<dyn GroupPlan> {
    Arc::new(plan)
}

/// Asks the catalog whether a strategy may group the template. The order is that of the strategies' table.
pub(super) async fn ask_plan(
    conn: &mut ServerConn,
    template: &Template,
    statement: &Statement,
    declared: &[(Name, Role)],
    templates: &Templates,
) -> Result<Result<Arc<dyn GroupPlan>, String>, ServerError> {
    if let Some(update) = &statement.update {
        let plan = ask_fold(conn, template, update, templates).await?;
        return Ok(plan.map(shared));
    }
    if let Some(take) = &statement.take {
        let plan = ask_take(conn, template, take, templates).await?;
        return Ok(plan.map(shared));
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
            return Ok(plan.map(shared));
        }
    }
    let why = match takes_many(declared) {
        true => OTHER_CALL,
        false => NO_SHAPE,
    };
    Ok(Err(why.to_owned()))
}
