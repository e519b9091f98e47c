//! The analysis of a statement by its text alone, if no server is named.

use paceline_batch::explain::{AnalysisSummary, NOT_PLAIN};
use paceline_batch::policy::Permission;
use paceline_batch::strategy::Strategy;
use paceline_config::Declared;
use paceline_pool::analysis::{NO_SHAPE, OTHER_CALL, why_parsed_alone};
use paceline_sql::Statement;

/// The analysis, if the tables permit everything and each function name means the declared function.
pub(super) fn summary(statement: &Statement, declared: &[Declared]) -> AnalysisSummary<'static> {
    let parsed_alone = why_parsed_alone(statement);
    let plan = Strategy::recognize(statement).ok_or(NO_SHAPE);
    let plan = parsed_alone.map_or(plan, Err);
    let plain_read = match (parsed_alone, statement.samples) {
        (Some(why), _) => Err(why),
        (_, true) => Err(NOT_PLAIN),
        (None, false) => Ok(()),
    };
    let shape = AnalysisSummary {
        plan,
        chain_facts: parsed_alone.map_or(Ok(()), Err),
        plain_read,
        may_change_session: Some(false),
        declared: false,
        permission: Permission::Default,
    };
    let called = |declared: &&Declared| {
        declared.role.groups() && statement.functions.contains(&declared.function)
    };
    let mut called: Vec<&Declared> = declared.iter().filter(called).collect();
    // A function that shares a transaction lets the statement join groups, even if others do not.
    called.sort_by_key(|declared| declared.role.limit().is_some());
    match called.first() {
        None => shape,
        Some(function) => of_declared(shape, statement, function),
    }
}

fn of_declared<'a>(
    shape: AnalysisSummary<'a>,
    statement: &Statement,
    function: &Declared,
) -> AnalysisSummary<'a> {
    let call = statement.call.as_ref();
    let takes = call.is_some_and(|call| call.function == function.function);
    match function.role.limit() {
        Some(_) if takes && why_parsed_alone(statement).is_none() => AnalysisSummary {
            plan: Ok(Strategy::Take),
            declared: true,
            ..shape
        },
        Some(_) if why_parsed_alone(statement).is_some() => shape,
        Some(_) => AnalysisSummary {
            plan: shape.plan.map_err(|_| OTHER_CALL),
            plain_read: Err(OTHER_CALL),
            declared: shape.plan.is_ok(),
            ..shape
        },
        None => AnalysisSummary {
            plain_read: shape.plain_read.and(Err(NO_SHAPE)),
            declared: true,
            ..shape
        },
    }
}
