//! PostgreSQL's description of a template, and questions about the names in its expressions.

use super::reasons::{TOO_MANY, WARNED};
use crate::server::{ServerConn, ServerError};
use paceline_batch::strategy::FORMATS_MAX;
use paceline_relay::template::Template;
use paceline_sql::{Expr, Name, facts};
use paceline_wire::backend::Field;

/// OIDs of a template's parameters, and RETURNING columns.
pub(super) type TemplateTypes = (Vec<u32>, Vec<Field>);

/// PostgreSQL's description of a template, or why the template cannot be grouped: it has too many columns, or PostgreSQL raises a
/// notice whenever it parses the text, which each client must get.
pub(super) async fn describe(
    conn: &mut ServerConn,
    template: &Template,
) -> Result<Result<TemplateTypes, String>, ServerError> {
    let described = conn.describe(&template.text, &template.types).await?;
    let (parameters, fields) = (described.parameters, described.fields);
    Ok(match parameters.len().max(fields.len()) {
        _ if described.warned => Err(WARNED.to_owned()),
        many if many > FORMATS_MAX => Err(TOO_MANY.to_owned()),
        _ => Ok((parameters, fields)),
    })
}

/// Asks whether all functions, operators, types and collations in these expressions are PostgreSQL's own, and all functions
/// except `volatile` are not volatile.
pub(super) fn harmless_sql(exprs: &[&Expr], volatile: &[&str]) -> String {
    let types: Vec<_> = exprs.iter().flat_map(|e| e.casts_to()).collect();
    harmless_but_types_sql(exprs, &types, volatile)
}

/// The same, except that only these types must be PostgreSQL's own.
pub(super) fn harmless_but_types_sql(exprs: &[&Expr], types: &[Name], volatile: &[&str]) -> String {
    let functions: Vec<_> = exprs.iter().flat_map(|e| e.functions()).collect();
    let operators: Vec<_> = exprs.iter().flat_map(|e| e.operators()).collect();
    let collations: Vec<_> = exprs.iter().flat_map(|e| e.collations()).collect();
    let questions = [
        facts::harmless_sql(&functions, &operators, types, volatile),
        facts::fits_groups_sql(&functions, types),
        facts::plain_collations_sql(&collations),
    ];
    questions.join("; ")
}

/// Volatile functions of PostgreSQL that may be used in inserted, changed or moved rows: each row gets its own value, as without
/// a group.
pub(super) const VALUES_OF_ROWS: [&str; 4] =
    ["clock_timestamp", "gen_random_uuid", "nextval", "random"];
