//! Telling long texts that only change rows, as bulk loaders send them, by a plain byte scan. In doubt the answer is no,
//! and the text is parsed.

/// Without one of these words, in any case, a text names nothing of PostgreSQL's own or of its common extensions that
/// changes the session (see [`crate::Effect::Session`]), and no escaped name that might.
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

/// Is it one INSERT, UPDATE or DELETE without hints, which changes the session by a user's own functions at most? May say no
/// where that is so, never yes where it is not.
pub fn only_changes_rows(text: &str) -> bool {
    let start = text.trim_start();
    let verb = start.get(..start.find(char::is_whitespace).unwrap_or(0));
    let changes_rows = verb.is_some_and(|verb| {
        let verbs = ["insert", "update", "delete"];
        verbs.iter().any(|known| verb.eq_ignore_ascii_case(known))
    });
    let one = || !text.trim_end().trim_end_matches(';').contains(';');
    let names_session = || {
        let text = text.to_ascii_lowercase();
        SESSION_WORDS.iter().any(|word| text.contains(word))
    };
    changes_rows && one() && !text.contains("/*+") && !names_session()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_change_of_rows_without_hints_and_session_state() {
        for text in [
            "insert into t values (1)",
            " \nINSERT INTO t VALUES (nextval('s'));\n",
            "Update t set a = f(a)",
            "DELETE FROM t",
        ] {
            assert!(only_changes_rows(text), "{text}");
        }
    }

    #[test]
    fn in_doubt_it_is_parsed() {
        for text in [
            "",
            "insert",
            "select 1",
            "with a as (select 1) insert into t table a",
            "/* x */ insert into t values (1)",
            "insert into t values (1); set x.y = 1",
            "insert into t values (';')",
            "insert /*+ COMMIT_ON_SUCCESS */ into t values (1)",
            "insert into t select PG_advisory_lock(1)",
            "insert into t values (Set_Config('x.y', '1', false))",
            "insert into t values (currval('s'))",
            "insert into t values (U&\"set\\005fconfig\"('x.y', '1', false))",
            "update pg_settings set setting = '1' where name = 'x.y'",
        ] {
            assert!(!only_changes_rows(text), "{text}");
        }
    }
}
