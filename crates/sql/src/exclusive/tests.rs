//! Statements that need a database without other sessions, and other statements.

use crate::parse;

#[test]
fn the_database_that_must_have_no_other_session_is_found() {
    for (text, database) in [
        ("DROP DATABASE x", Some("x")),
        ("drop database if exists \"X\" with (force)", Some("X")),
        ("ALTER DATABASE x RENAME TO y", Some("x")),
        ("ALTER DATABASE x SET TABLESPACE y", Some("x")),
        ("CREATE DATABASE x TEMPLATE y", Some("y")),
        ("CREATE DATABASE x WITH TEMPLATE = \"Y\" OWNER z", Some("Y")),
        ("CREATE DATABASE x TEMPLATE default", Some("template1")),
        ("CREATE DATABASE x", Some("template1")),
        ("ALTER DATABASE x SET search_path TO y", None),
        ("ALTER DATABASE x CONNECTION LIMIT 7", None),
        ("ALTER DATABASE x OWNER TO y", None),
        ("ALTER TABLE x RENAME TO y", None),
        ("DROP TABLE x", None),
        ("SELECT 1", None),
        // PostgreSQL rejects it.
        ("SELECT 1; DROP DATABASE x", None),
    ] {
        let found = parse(text).unwrap().exclusive;
        assert_eq!(found.as_deref(), database, "{text}");
    }
}
