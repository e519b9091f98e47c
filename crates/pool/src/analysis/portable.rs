//! Whether a statement means the same on another server that has its tables: a logical subscriber, or a shard.

use super::catalog::{first, is_busy};
use crate::server::{ServerConn, ServerError};
use paceline_relay::template::Template;
use paceline_sql::Statement;
use paceline_sql::facts::{self, FIRST_USER_DEFINED_OID, session};

/// `record` and `record[]`. Values of these types may contain others, with the OIDs of their types in the binary format.
const RECORDS: [u32; 2] = [2249, 2287];

/// Asks the primary, under the settings of the statement.
///
/// # Errors
/// Another session holds a lock on a table, the query was cancelled, or the connection is lost.
pub(super) async fn is_portable(
    conn: &mut ServerConn,
    template: &Template,
    statement: &Statement,
) -> Result<bool, ServerError> {
    if statement.server_bound || statement.relations.is_empty() {
        return Ok(false);
    }
    match ask(conn, template, statement).await {
        Err(ServerError::Refused(error)) if !is_busy(&error) => Ok(false),
        asked => asked,
    }
}

async fn ask(
    conn: &mut ServerConn,
    template: &Template,
    statement: &Statement,
) -> Result<bool, ServerError> {
    let (functions, operators) = (&statement.functions, &statement.operators);
    let question = facts::portable_sql(functions, operators, &statement.casts_to);
    let answer = conn.query(&question).await?;
    if answer.first().and_then(first) != Some("t") {
        return Ok(false);
    }
    let described = conn.describe(&template.text, &template.types).await?;
    let results = described.fields.iter().map(|field| field.type_oid);
    let mut results = results.collect::<Vec<_>>().into_iter();
    let is_own = |oid: u32| oid >= FIRST_USER_DEFINED_OID;
    Ok(!described.warned
        && !described.parameters.into_iter().any(is_own)
        && !results.any(|oid| is_own(oid) || RECORDS.contains(&oid)))
}

/// The OID of the only table of a statement, by the search path of the session.
///
/// # Errors
/// The server rejects the question, or the connection is lost.
pub(super) async fn only_table(
    conn: &mut ServerConn,
    statement: &Statement,
) -> Result<Option<u32>, ServerError> {
    let [relation] = statement.relations.as_slice() else {
        return Ok(None);
    };
    let answer = conn.query(&session::table_by_path_sql(relation)).await?;
    Ok(answer
        .first()
        .and_then(first)
        .and_then(|oid| oid.parse().ok()))
}
