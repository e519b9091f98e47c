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

/// Is it one INSERT, UPDATE or DELETE, which changes the session by a user's own functions at most? May say no
/// where that is so, never yes where it is not.
pub fn only_changes_rows(text: &str) -> bool {
    is_one_of(text, &["insert", "update", "delete"]) && names_no_session(text, &[])
}

/// The same of a SELECT; one with INTO might make a temporary table.
pub fn only_reads_rows(text: &str) -> bool {
    is_one_of(text, &["select"]) && names_no_session(text, &["into"])
}

/// One statement that begins with one of these words.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_change_of_rows_without_session_state() {
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
    fn in_doubt_it_is_parsed() {
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
    fn one_read_that_makes_nothing() {
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
}
