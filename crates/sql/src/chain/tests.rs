//! The queries as text. End-to-end tests check their results.

use super::{Member, Reach, check_sql, is_moved};
use crate::facts::Added;
use crate::{Compared, Effect, Name, parse};

fn assert_reads(sql: &str) {
    let statement = parse(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    assert_eq!(
        (statement.statements, statement.effect),
        (1, Effect::Read),
        "{sql}"
    );
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name")
}

#[test]
fn the_checks_cover_all_names_of_a_statement() {
    let statement = parse(
        "INSERT INTO s.log SELECT (l).x, place_order(1), lower(note) || 'x' FROM \"Orders\" l",
    );
    let statement = statement.expect("SQL");
    let (declared_calls, declared) = (
        [name("place_order")],
        [name("place_order"), name("audit.noted")],
    );
    let declared: Vec<&Name> = declared.iter().collect();
    let member = Member::new(&statement, &declared_calls, &declared);
    let questions: Vec<String> = member.questions().into_iter().map(|q| q.sql).collect();
    questions.iter().for_each(|sql| assert_reads(sql));
    assert_reads(&member.reach_sql());
    assert_reads(&member.added_sql());
    let all = questions.join("; ");
    for part in [
        r#"'"s"."log"'"#,
        r#"'"Orders"'"#,
        "'lower'",
        "'||'",
        "'noted'",
        "'x'",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    let calls = questions.iter().find(|sql| sql.contains("'lower'"));
    assert!(
        calls.is_some_and(|sql| !sql.contains("place_order")),
        "declared functions are not checked"
    );
    let reach = Reach {
        tables: vec![16_400, 16_401],
        types: vec![16_500],
    };
    for added in [false, true] {
        let added = Added {
            operators: added,
            casts: added,
        };
        let version = Compared {
            sql: member.catalog_version_sql(&reach, added),
            value: String::new(),
        };
        assert_reads(&check_sql(&version));
        // The value also changes if the name refers to another function.
        assert!(version.sql.contains("'place_order'"), "{}", version.sql);
    }
}

#[test]
fn functions_that_notify_or_set_are_found_by_name() {
    for (sql, silent) in [
        ("DELETE FROM t WHERE upper(a) = 'X'", true),
        ("DELETE FROM t WHERE pg_catalog.upper(a) = 'X'", true),
        ("DELETE FROM t WHERE pg_notify('a', b) IS NULL", false),
        ("UPDATE t SET a = set_config('a.b', 'c', true)", false),
        ("UPDATE t SET a = current_setting('lock_timeout')", false),
        ("UPDATE t SET a = mine.upper(a)", false),
    ] {
        let statement = parse(sql).expect("SQL");
        let member = Member::new(&statement, &[], &[]);
        let calls = member.calls_sql();
        assert_eq!(calls.starts_with("SELECT 0 = 0"), silent, "{sql}: {calls}");
    }
}

#[test]
fn a_statement_without_tables_has_its_functions_checked() {
    let statement = parse("SELECT place_order(1)").expect("SQL");
    let declared_calls = [name("place_order")];
    let member = Member::new(&statement, &declared_calls, &[]);
    for question in member.questions() {
        assert_reads(&question.sql);
    }
    assert_reads(&member.reach_sql());
    let sql = member.catalog_version_sql(&Reach::default(), Added::default());
    assert_reads(&format!("SELECT {sql}"));
}

#[test]
fn the_error_of_the_check_is_recognized_in_each_language() {
    assert!(is_moved(
        "22P02",
        "ungültige Eingabesyntax für Typ boolean: „paceline: moved: false“"
    ));
    assert!(!is_moved(
        "22P02",
        "invalid input syntax for type boolean: \"x\""
    ));
    assert!(!is_moved("22023", "paceline: moved: false"));
}
