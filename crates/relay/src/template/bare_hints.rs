//! The older spelling of hints, bare words, made the comment that PostgreSQL ignores.

use paceline_sql::Hints;
use std::borrow::Cow;

/// A text without the bare words of the older hint spelling, which PostgreSQL does not understand. Where a backslash may
/// hide the end of a constant they stay: they might be part of one.
pub fn without_bare_hints(text: &str) -> Cow<'_, str> {
    if paceline_sql::hides_quotes(text) {
        return Cow::Borrowed(text);
    }
    match paceline_sql::strip_bare_hints(text) {
        Some((plain, hints)) => Cow::Owned(as_comment(&plain, hints)),
        None => Cow::Borrowed(text),
    }
}

/// The hints again, as the comment that the parser and PostgreSQL both take, after the statement's first word.
fn as_comment(plain: &str, hints: Hints) -> String {
    let start = plain.len() - plain.trim_start().len();
    let rest = plain.get(start..).unwrap_or_default();
    let word = rest
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(rest.len());
    let (head, tail) = plain.split_at(start + word);
    let mut words = String::new();
    if hints.commit_on_success {
        words.push_str("COMMIT_ON_SUCCESS ");
    }
    if hints.rollback_on_fail {
        words.push_str("ROLLBACK_ON_FAIL ");
    }
    if let Some(rows) = hints.target_affect_row {
        words.push_str(&format!("TARGET_AFFECT_ROW({rows}) "));
    }
    format!("{head} /*+ {words}*/{tail}")
}
