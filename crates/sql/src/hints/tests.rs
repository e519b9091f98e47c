//! Hints in both syntaxes, and texts that resemble them.

use super::{Hints, leading, strip_bare_hints};
use crate::statement::parse;

const ALL: Hints = Hints {
    commit_on_success: true,
    rollback_on_fail: true,
    target_affect_row: Some(1),
    server: None,
};

fn hints(sql: &str) -> Hints {
    parse(sql).unwrap().hints
}

#[test]
fn hint_comments_are_read_after_the_keyword_and_at_the_start() {
    let texts = [
        "UPDATE /*+ COMMIT_ON_SUCCESS ROLLBACK_ON_FAIL TARGET_AFFECT_ROW(1) */ t SET c = c + 1 WHERE id = 1",
        "update /*+ target_affect_row 1 rollback_on_fail, other(3) commit_on_success */ t set c = 1 where id = 1",
        "/*+ COMMIT_ON_SUCCESS ROLLBACK_ON_FAIL TARGET_AFFECT_ROW ( 1 )*/ DELETE FROM t",
        "/* x */ INSERT /*+ commit_on_success */ /*+ rollback_on_fail target_affect_row(1) */ INTO t VALUES (1)",
        "SELECT /*+ COMMIT_ON_SUCCESS ROLLBACK_ON_FAIL TARGET_AFFECT_ROW(1) */ place_order(7)",
        "WITH a AS (DELETE FROM q RETURNING *) INSERT /*+COMMIT_ON_SUCCESS ROLLBACK_ON_FAIL TARGET_AFFECT_ROW(1)*/ INTO t SELECT * FROM a",
    ];
    for sql in texts {
        assert_eq!(hints(sql), ALL, "{sql}");
    }
}

#[test]
fn other_comments_are_not_hints() {
    let texts = [
        "UPDATE t /*+ COMMIT_ON_SUCCESS */ SET c = 1 WHERE id = 1",
        "UPDATE /* COMMIT_ON_SUCCESS */ t SET c = 1",
        "UPDATE /* + COMMIT_ON_SUCCESS */ t SET c = 1",
        "UPDATE t SET c = '/*+ COMMIT_ON_SUCCESS */'",
        "UPDATE t SET c = 1 --/*+ COMMIT_ON_SUCCESS */",
        "SELECT 1 FROM t FOR UPDATE /*+ COMMIT_ON_SUCCESS */",
        "SELECT 1 /*+ COMMIT_ON_SUCCESS */",
        "VALUES /*+ COMMIT_ON_SUCCESS */ (1)",
        "WITH a AS (UPDATE /*+ COMMIT_ON_SUCCESS */ t SET c = 1 RETURNING 1) SELECT 1",
        "UPDATE /*+ COMMIT_ON_SUCCESSFUL TARGET_AFFECT_ROW */ t SET c = 1",
    ];
    for sql in texts {
        assert_eq!(hints(sql), Hints::default(), "{sql}");
    }
}

#[test]
fn the_hints_of_the_last_statement_count() {
    let hinted = "UPDATE /*+ COMMIT_ON_SUCCESS */ t SET c = 1";
    assert!(hints(&format!("BEGIN; {hinted};; -- end")).commit_on_success);
    assert!(!hints(&format!("{hinted}; COMMIT")).commit_on_success);
}

#[test]
fn bare_words_are_blanked() {
    let sql = "UPDATE COMMIT_ON_SUCCESS ROLLBACK_ON_FAIL TARGET_AFFECT_ROW 1 t SET c = c + 1 WHERE id = 7";
    let (stripped, hints) = strip_bare_hints(sql).unwrap();
    assert_eq!(hints, ALL);
    assert_eq!(stripped.len(), sql.len());
    assert_eq!(
        stripped.split_whitespace().collect::<Vec<_>>().join(" "),
        "UPDATE t SET c = c + 1 WHERE id = 7"
    );
    assert!(stripped.ends_with("t SET c = c + 1 WHERE id = 7"));
}

#[test]
fn bare_words_in_any_order_and_case_and_statement() {
    let texts = [
        "update target_affect_row(1) Rollback_On_Fail commit_on_success t set c = 1 where id = $1",
        "insert rollback_on_fail commit_on_success target_affect_row 1 into t values ('target_affect_row')",
        "delete commit_on_success /* x */ rollback_on_fail target_affect_row (1) from t",
        "begin; update commit_on_success rollback_on_fail target_affect_row 1 t set c = 1 where id = 1;",
        "update commit_on_success rollback_on_fail target_affect_row 1 t set commit_on_success = 1 where id = 1",
    ];
    for sql in texts {
        let (stripped, hints) = strip_bare_hints(sql).unwrap_or_else(|| panic!("{sql}"));
        assert_eq!(hints, ALL, "{sql}");
        assert!(parse(&stripped).is_ok(), "{stripped}");
    }
}

#[test]
fn a_text_that_parses_has_no_bare_words() {
    let texts = [
        "UPDATE commit_on_success SET c = 1",
        "UPDATE commit_on_success AS t SET c = 1",
        "UPDATE commit_on_success rollback_on_fail SET c = 1",
        "SELECT commit_on_success FROM t",
        "DELETE FROM target_affect_row",
        "UPDATE \"commit_on_success\" rollback_on_fail t SET c = 1",
        "UPDATE COMMIT_ON_SUCCESS ROLLBACK_ON_FAIL t SET nonsense",
        "UPDATE commit_on_success rollback_on_fail target_affect_row many t SET c = 1",
        "UPDATE t SET c = 1",
        "",
    ];
    for sql in texts {
        assert_eq!(strip_bare_hints(sql), None, "{sql}");
    }
}

#[test]
fn the_statement_after_a_hinted_one_has_none() {
    let sql = "update commit_on_success rollback_on_fail target_affect_row 1 t set c = 1; commit";
    assert_eq!(strip_bare_hints(sql).unwrap().1, Hints::default());
}

/// A scan of the beginning finds the same hints as the parser.
#[test]
fn leading_hints_are_the_hints_of_the_statement() {
    for sql in [
        "update /*+ COMMIT_ON_SUCCESS */ t set a = 1",
        "/*+ ROLLBACK_ON_FAIL */ insert /* why */ /*+ TARGET_AFFECT_ROW(3) */ into t values (1)",
        " /* why */ DELETE /*+ commit_on_success */ from t",
        "select/*+COMMIT_ON_SUCCESS*/f()",
        "update t set a = 1 /*+ COMMIT_ON_SUCCESS */",
        "/*+ COMMIT_ON_SUCCESS */ create table t (a int)",
        "select 1",
        "",
    ] {
        assert_eq!(leading(sql), parse(sql).unwrap().hints, "{sql}");
    }
    assert_eq!(
        leading("update /* a /*+ COMMIT_ON_SUCCESS */ */ t"),
        Hints::default()
    );
}
