//! What PostgreSQL says of a template, and of the names in its expressions.

use super::reasons::{TOO_MANY, WARNED};
use crate::server::{ServerConn, ServerError};
use paceline_batch::strategy::FORMATS_MAX;
use paceline_relay::template::Template;
use paceline_sql::{Expr, Name, facts};
use paceline_wire::backend::Field;

/// OIDs of a template's parameters, and RETURNING columns.
pub(super) type Described = (Vec<u32>, Vec<Field>);

/// What PostgreSQL says of a template, or why there is no need to work out a plan: none takes so many columns, and what is said
/// of a text whenever it is parsed must be said to each client.
pub(super) async fn describe(
    conn: &mut ServerConn,
    template: &Template,
) -> Result<Result<Described, String>, ServerError> {
    let described = conn.describe(&template.text, &template.types).await?;
    let (parameters, fields) = (described.parameters, described.fields);
    Ok(match parameters.len().max(fields.len()) {
        _ if described.warned => Err(WARNED.to_owned()),
        many if many > FORMATS_MAX => Err(TOO_MANY.to_owned()),
        _ => Ok((parameters, fields)),
    })
}

/// Are all functions, operators, types and collations in these expressions PostgreSQL's own, and no function volatile but
/// these?
pub(super) fn harmless_sql(exprs: &[&Expr], volatile: &[&str]) -> String {
    let types: Vec<_> = exprs.iter().flat_map(|e| e.casts_to()).collect();
    harmless_but_types_sql(exprs, &types, volatile)
}

/// The same, where only these types must be PostgreSQL's own.
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
