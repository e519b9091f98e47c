//! Masked texts contain no value.

use super::masked;

#[test]
fn every_string_and_number_is_masked() {
    for (sql, expected) in [
        (
            "UPDATE t1 SET a = 'it''s', b = 1.5e3 WHERE id = -7 AND \"c2\" = $1",
            "UPDATE t1 SET a = ?, b = ? WHERE id = -? AND \"c2\" = $1",
        ),
        (
            "SELECT E'\\x', U&'\\00e4', B'101', X'1f', N'n', $$a$$, $q$b$q$",
            "SELECT ?, ?, ?, ?, N?, ?, ?",
        ),
        (
            "SELECT 'ä', interval '1 day', 'a'\n'b' LIMIT 3",
            "SELECT ?, interval ?, ? LIMIT ?",
        ),
        ("SELECT 0xff, .5, 3000000000000", "SELECT ?, ?, ?"),
        ("", ""),
    ] {
        assert_eq!(masked(sql).as_deref(), Some(expected), "{sql}");
    }
}

#[test]
fn comments_are_removed_and_hints_remain() {
    let sql = "/* user 7 */ UPDATE /*+ COMMIT_ON_SUCCESS */ t SET a = 1 -- trace 9";
    let expected = "  UPDATE /*+ COMMIT_ON_SUCCESS */ t SET a = ?  ";
    assert_eq!(masked(sql).unwrap().trim(), expected.trim());
}

#[test]
fn a_text_that_cannot_be_scanned_is_not_masked() {
    assert_eq!(masked("SELECT 'secret"), None);
    assert_eq!(masked("SELECT 1\0"), None);
}
