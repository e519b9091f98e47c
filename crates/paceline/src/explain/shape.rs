//! The treatment of a statement by its text alone, without a server.

use paceline_batch::line::Strategy;
use paceline_batch::prospect::{NOT_PLAIN, Outlook};
use paceline_config::Declared;
use paceline_pool::analysis::{NO_SHAPE, OTHER_CALL, why_parsed_alone};
use paceline_sql::Statement;

/// The result of an analysis if the tables prevent nothing, and if functions are those that the configuration declares under the
/// same names.
pub(super) fn outlook(statement: &Statement, declared: &[Declared]) -> Outlook<'static> {
    let parsed_alone = why_parsed_alone(statement);
    let plan = match (&statement.update, &statement.take, &statement.insert) {
        (Some(_), ..) => Ok(Strategy::Fold),
        (_, Some(_), _) => Ok(Strategy::Take),
        (.., Some(_)) => Ok(Strategy::Merge),
        (None, None, None) => Err(NO_SHAPE),
    };
    let plan = parsed_alone.map_or(plan, Err);
    let plain_read = match (parsed_alone, statement.samples) {
        (Some(why), _) => Err(why),
        (_, true) => Err(NOT_PLAIN),
        (None, false) => Ok(()),
    };
    let shape = Outlook {
        plan,
        silence: parsed_alone.map_or(Ok(()), Err),
        plain_read,
        taints: false,
        declared: false,
    };
    let called = |declared: &&Declared| statement.functions.contains(&declared.function);
    let mut called: Vec<&Declared> = declared.iter().filter(called).collect();
    // Functions that may share a transaction come first: one of them is enough for grouping.
    called.sort_by_key(|declared| declared.role.limit().is_some());
    match called.first() {
        None => shape,
        Some(function) => of_declared(shape, statement, function),
    }
}

fn of_declared<'a>(shape: Outlook<'a>, statement: &Statement, function: &Declared) -> Outlook<'a> {
    let call = statement.call.as_ref();
    let takes = call.is_some_and(|call| call.function == function.function);
    match function.role.limit() {
        Some(_) if takes && why_parsed_alone(statement).is_none() => Outlook {
            plan: Ok(Strategy::Take),
            declared: true,
            ..shape
        },
        Some(_) if why_parsed_alone(statement).is_some() => shape,
        Some(_) => Outlook {
            plan: shape.plan.map_err(|_| OTHER_CALL),
            plain_read: Err(OTHER_CALL),
            declared: shape.plan.is_ok(),
            ..shape
        },
        None => Outlook {
            plain_read: shape.plain_read.and(Err(NO_SHAPE)),
            declared: true,
            ..shape
        },
    }
}
