//! Analyzes whether a statement may share a transaction with others: neither it nor anything attached to its tables notifies or
//! changes settings, or their functions are declared.

use super::catalog::{first, read_oids};
use crate::server::{ServerConn, ServerError};
use paceline_batch::strategy::ChainFacts;
use paceline_config::Declared;
use paceline_relay::template::Templates;
use paceline_sql::chain::{BY_TIME, BY_TRANSACTION, Member, Reach};
use paceline_sql::facts::Added;
use paceline_sql::{Compared, Effect, Name, Statement};
use std::sync::Arc;

const NEITHER: &str = "it is neither a write nor a call of functions that may be one";
const UNKNOWN: &str = "what it may change is not known";

/// The facts by which a statement is silent, or why they are unknown. `called` are the declared functions that it calls.
pub(super) async fn ask_silence(
    conn: &mut ServerConn,
    statement: &Statement,
    called: &[Name],
    declared: &[Declared],
    templates: &Templates,
) -> Result<Result<Arc<ChainFacts>, String>, ServerError> {
    if statement.effect == Effect::Read && statement.functions.is_empty() {
        return Ok(Err(NEITHER.to_owned()));
    }
    if statement.decides_by_moment {
        return Ok(Err(BY_TIME.to_owned()));
    }
    if statement.sees_transaction {
        return Ok(Err(BY_TRANSACTION.to_owned()));
    }
    let grouped = declared.iter().filter(|one| one.role.groups());
    let declared: Vec<&Name> = grouped.map(|one| &one.function).collect();
    let member = Member::new(statement, called, &declared);
    let Some((reach, added)) = ask_reach(conn, &member).await? else {
        return Ok(Err(UNKNOWN.to_owned()));
    };
    // Read the catalog version first: a change between it and the rest then only invalidates the chain.
    let sql = member.catalog_version_sql(&reach, added);
    let questions = member.questions();
    let all: Vec<String> = [format!("SELECT {sql}")]
        .into_iter()
        .chain(questions.iter().map(|question| question.sql.clone()))
        .collect();
    let answers = conn.query(&all.join("; ")).await?;
    let [version, answers @ ..] = answers.as_slice() else {
        return Ok(Err(UNKNOWN.to_owned()));
    };
    let mut pairs = questions.iter().zip(answers);
    if let Some((question, _)) = pairs.find(|(_, rows)| first(rows) != Some("t")) {
        return Ok(Err(question.otherwise.to_owned()));
    }
    let value = first(version).filter(|_| answers.len() == questions.len());
    Ok(match value {
        Some(value) => {
            let value = value.to_owned();
            Ok(Arc::new(ChainFacts::new(
                &Compared { sql, value },
                templates,
            )))
        }
        None => Err(UNKNOWN.to_owned()),
    })
}

async fn ask_reach(
    conn: &mut ServerConn,
    member: &Member<'_>,
) -> Result<Option<(Reach, Added)>, ServerError> {
    let questions = format!("{}; {}", member.reach_sql(), member.added_sql());
    let answers = conn.query(&questions).await?;
    let [reach, added] = answers.as_slice() else {
        return Ok(None);
    };
    let row = |rows: &crate::server::ResultRows| rows.first().cloned().unwrap_or_default();
    let (reach, added) = (row(reach), row(added));
    let ([Some(tables), Some(types)], [Some(operators), Some(casts)]) =
        (reach.as_slice(), added.as_slice())
    else {
        return Ok(None);
    };
    let added = Added {
        operators: operators == "t",
        casts: casts == "t",
    };
    let reach = read_oids(tables).zip(read_oids(types));
    Ok(reach.map(|(tables, types)| (Reach { tables, types }, added)))
}
