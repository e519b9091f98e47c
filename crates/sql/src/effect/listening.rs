//! `LISTEN` and `UNLISTEN`: the channels they change, and texts in which other statements replace them.

use super::change::{Listening, SessionChange};
use crate::parser::{self, NotParsed};
use pg_query::NodeEnum;

#[cfg(test)]
mod tests;

pub(super) fn of_statement(statement: &NodeEnum) -> Option<Listening> {
    match statement {
        NodeEnum::ListenStmt(listen) => Some(Listening::Listen(listen.conditionname.clone())),
        NodeEnum::UnlistenStmt(unlisten) if unlisten.conditionname.is_empty() => {
            Some(Listening::UnlistenAll)
        }
        NodeEnum::UnlistenStmt(unlisten) => {
            Some(Listening::Unlisten(unlisten.conditionname.clone()))
        }
        _ => None,
    }
}

/// The changes of channels among the changes of a text, in order.
pub fn listening_changes(changes: &[SessionChange]) -> impl Iterator<Item = &Listening> {
    changes.iter().filter_map(|change| match change {
        SessionChange::Listening(listening) => Some(listening),
        _ => None,
    })
}

/// Returns the text with another statement in place of each LISTEN and UNLISTEN.
///
/// # Errors
/// [`NotParsed`] if the parser rejects the text.
pub fn replace_listening(
    text: &str,
    mut other: impl FnMut(&Listening) -> String,
) -> Result<String, NotParsed> {
    let tree = parser::parse(text)?;
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for statement in &tree.stmts {
        let node = statement.stmt.as_ref().and_then(|node| node.node.as_ref());
        let Some(listening) = node.and_then(of_statement) else {
            continue;
        };
        let start = usize::try_from(statement.stmt_location).unwrap_or_default();
        // The last statement of a text may have no length.
        let end = match usize::try_from(statement.stmt_len).unwrap_or_default() {
            0 => text.len(),
            len => start + len,
        };
        out.push_str(text.get(done..start).unwrap_or_default());
        out.push_str(&other(&listening));
        done = end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    Ok(out)
}
