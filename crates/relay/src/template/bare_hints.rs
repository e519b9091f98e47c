//! Rewrites hints of the older spelling (bare words) as comments.

use paceline_sql::Hints;
use std::borrow::Cow;

/// The text with its bare hints, which PostgreSQL rejects, as a comment. If a backslash may hide the end of a constant, the
/// text is returned unchanged: the words may be part of the constant.
pub fn without_bare_hints(text: &str) -> Cow<'_, str> {
    if paceline_sql::hides_quotes(text) {
        return Cow::Borrowed(text);
    }
    match paceline_sql::strip_bare_hints(text) {
        Some((plain, hints)) => Cow::Owned(as_comment(&plain, hints)),
        None => Cow::Borrowed(text),
    }
}

/// Inserts the hints, as a comment that PostgreSQL ignores and the parser reads, after the first word of the statement.
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
