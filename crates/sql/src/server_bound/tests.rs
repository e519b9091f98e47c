//! Texts that may show a difference between two servers with equal tables.

use super::*;
use crate::parser;

fn is_bound(sql: &str) -> bool {
    is_server_bound(&Record::of(&parser::parse(sql).unwrap()))
}

#[test]
fn system_columns_are_bound_to_a_server() {
    for column in SYSTEM_COLUMNS {
        assert!(is_bound(&format!("SELECT {column} FROM t")), "{column}");
        assert!(is_bound(&format!(
            "SELECT n FROM t WHERE t.{column} IS NULL"
        )));
    }
    for sql in [
        "SELECT * FROM t",
        "SELECT t.n FROM t",
        "SELECT 'ctid' FROM ctid",
        "SELECT n AS xmin FROM t",
    ] {
        assert!(!is_bound(sql), "{sql}");
    }
}

#[test]
fn names_of_the_session_and_collations_are_bound_to_a_server() {
    for sql in [
        "SELECT current_user",
        "SELECT current_role",
        "SELECT user",
        "SELECT session_user",
        "SELECT current_catalog",
        "SELECT current_schema",
        "SELECT n FROM t ORDER BY n COLLATE \"C\"",
    ] {
        assert!(is_bound(sql), "{sql}");
    }
    for sql in [
        "SELECT current_date",
        "SELECT current_timestamp",
        "SELECT localtimestamp(3)",
        "SELECT localtime",
    ] {
        assert!(!is_bound(sql), "{sql}");
    }
}
