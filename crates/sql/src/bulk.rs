//! Classifies texts that the caller does not parse by a plain byte scan: texts that only change rows, as bulk loaders
//! send them, and texts that may set session state.

use crate::lexis::end_of_block_comment;

/// A text without these words, in any case, uses no function or view of PostgreSQL or its common extensions that
/// changes the session (see [`crate::Effect::Session`]), and no escaped identifier that might be one.
const SESSION_WORDS: [&str; 8] = [
    "pg_",
    "dblink",
    "set_config",
    "set_limit",
    "setseed",
    "currval",
    "lastval",
    "u&\"",
];

/// Whether the text is one INSERT, UPDATE or DELETE that can change the session only through user-defined functions.
/// May return `false` for such a statement, but never `true` for another one.
pub fn only_changes_rows(text: &str) -> bool {
    is_one_of(text, &["insert", "update", "delete"]) && names_no_session(text, &[])
}

/// The same for SELECT. A text with INTO is excluded, because it might create a temporary table.
pub fn only_reads_rows(text: &str) -> bool {
    is_one_of(text, &["select"]) && names_no_session(text, &["into"])
}

/// Whether the text is one statement and starts with one of these words.
fn is_one_of(text: &str, verbs: &[&str]) -> bool {
    let start = text.trim_start();
    let verb = start.get(..start.find(char::is_whitespace).unwrap_or(0));
    let begins =
        verb.is_some_and(|verb| verbs.iter().any(|known| verb.eq_ignore_ascii_case(known)));
    let one = || !text.trim_end().trim_end_matches(';').contains(';');
    begins && one()
}

fn names_no_session(text: &str, also: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    let mut words = SESSION_WORDS.iter().chain(also);
    !words.any(|word| text.contains(word))
}

/// Might a statement of this text be LISTEN, UNLISTEN or DISCARD? May be true without such a statement, but is never false with one.
pub fn may_listen(text: &str) -> bool {
    const VERBS: [&str; 3] = ["listen", "unlisten", "discard"];
    let text = text.to_ascii_lowercase();
    let has_comments = text.contains("--");
    let begins = |at: usize| {
        let before = text.get(..at).unwrap_or_default();
        let last = before.trim_end();
        // The line may end with a comment.
        let blank = before.get(last.len()..).unwrap_or_default();
        let next_line = || blank.contains(['\n', '\r']);
        last.is_empty() || last.ends_with([';', '/']) || (has_comments && next_line())
    };
    let found = |verb: &&str| text.match_indices(*verb).any(|(at, _)| begins(at));
    VERBS.iter().any(found)
}

/// Words in statements that set or depend on session state without a SET command. Only a reset of the whole session
/// undoes it.
const SETTING_WORDS: [&str; 7] = [
    "dblink",
    "set_config",
    "set_limit",
    "setseed",
    "currval",
    "lastval",
    "u&\"",
];

/// First words, after comments, of statements that only read or change rows.
const ROW_VERBS: [&str; 8] = [
    "select", "insert", "update", "delete", "with", "merge", "values", "copy",
];

/// Whether the text might set session state that another connection would need, too. May return `true` for a text
/// that sets none, but never `false` for one that does.
pub fn may_set(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let mut statements = text.split(';');
    let first = after_comments(statements.next().unwrap_or_default());
    sets(first)
        || statements.any(|statement| {
            let statement = statement.trim_start();
            // A comment before the second or a later statement counts as `true`; skipping it is not worth the effort.
            begins_comment(statement) || sets(statement)
        })
        || SETTING_WORDS.iter().any(|word| text.contains(word))
}

/// The same for a text of which only this beginning is available. A SET after a statement that reads or changes rows
/// is not detected.
pub fn beginning_may_set(beginning: &str) -> bool {
    let first = after_comments(beginning);
    let begins = |verb: &&str| {
        let word = first.get(..verb.len());
        word.is_some_and(|word| word.eq_ignore_ascii_case(verb))
    };
    let rows = ROW_VERBS.iter().any(begins);
    !rows || may_set(beginning)
}

/// Whether this statement, in lower case, sets state beyond its transaction.
fn sets(statement: &str) -> bool {
    let (word, rest) = first_word(statement);
    match word {
        "set" => !matches!(first_word(rest).0, "local" | "transaction" | "constraints"),
        "reset" | "load" | "discard" => true,
        _ => false,
    }
}

fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_alphabetic() && c != '_');
    text.split_at(end.unwrap_or(text.len()))
}

fn begins_comment(text: &str) -> bool {
    text.starts_with("--") || text.starts_with("/*")
}

/// The text after leading white space and comments.
fn after_comments(text: &str) -> &str {
    let mut text = text.trim_start();
    while begins_comment(text) {
        let end = match text.starts_with("--") {
            true => text.find(['\n', '\r']),
            false => end_of_block_comment(text.as_bytes(), 0),
        };
        let rest = text.get(end.unwrap_or(text.len())..);
        text = rest.unwrap_or_default().trim_start();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_statement_that_changes_rows_is_recognized() {
        for text in [
            "insert into t values (1)",
            " \nINSERT INTO t VALUES (nextval('s'));\n",
            "Update t set a = f(a)",
            "DELETE FROM t",
            "insert /*+ COMMIT_ON_SUCCESS */ into t values (1)",
        ] {
            assert!(only_changes_rows(text), "{text}");
        }
    }

    #[test]
    fn other_texts_are_left_to_the_parser() {
        for text in [
            "",
            "insert",
            "select 1",
            "with a as (select 1) insert into t table a",
            "/* x */ insert into t values (1)",
            "insert into t values (1); set x.y = 1",
            "insert into t values (';')",
            "insert into t select PG_advisory_lock(1)",
            "insert into t values (Set_Config('x.y', '1', false))",
            "insert into t values (currval('s'))",
            "insert into t values (U&\"set\\005fconfig\"('x.y', '1', false))",
            "update pg_settings set setting = '1' where name = 'x.y'",
            "select a from t",
        ] {
            assert!(!only_changes_rows(text), "{text}");
        }
    }

    #[test]
    fn one_select_without_into_is_recognized() {
        for text in ["select 1", "SELECT f(a) FROM t FOR UPDATE;"] {
            assert!(only_reads_rows(text), "{text}");
        }
        for text in [
            "select 1 into temp a",
            "select 1; select 2",
            "select set_config('x.y', '1', false)",
            "select * from pg_temp.a",
            "selection",
            "with a as (select 1) table a",
            "insert into t values (1)",
        ] {
            assert!(!only_reads_rows(text), "{text}");
        }
    }

    #[test]
    fn texts_that_may_set_session_state_are_recognized() {
        for text in [
            "SET search_path TO a",
            " /* a /* b; */ c */ -- d;\n set x.y = 1",
            "select 1; \n Set datestyle to iso",
            "select 1;/* a */ select 2",
            "create table t (a int);reset all",
            "set session x.y to 1",
            "set/**/x.y to 1",
            "select SET_CONFIG('x.y', 'a', false)",
            "with a as (select setseed(1)) select 1",
            "discard all",
            "load 'x'",
        ] {
            assert!(may_set(text) && beginning_may_set(text), "{text}");
        }
        for text in [
            "select 1",
            "with a as (select 1) update t set x = 1",
            "/* tag */ select 1; insert into t values (1)",
            "select settings from sets; SET LOCAL x.y = 1",
            "insert into t values (1); set transaction read only; set constraints all deferred",
        ] {
            assert!(!may_set(text) && !beginning_may_set(text), "{text}");
        }
        for text in ["create table t (a int)", "-- a long comment", "begin"] {
            assert!(!may_set(text) && beginning_may_set(text), "{text}");
        }
    }

    /// If each semicolon or comment costs a scan of the rest, this test does not end.
    #[test]
    fn the_scan_is_linear() {
        for part in [";", "; ", "/*", ";a", "/**/", "--\n", "; set local"] {
            may_set(&part.repeat(1_000_000));
        }
    }
}
