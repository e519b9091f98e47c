//! Comments that pass a context, and the text that remains.

use super::*;

const CONTEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The result of [`trace_comment`] for `pattern`, in which `@` stands for a comment that passes a context.
fn found(pattern: &str) -> Option<String> {
    let sql = pattern.replace('@', &format!("/*traceparent='{CONTEXT}'*/"));
    let comment = trace_comment(&sql)?;
    assert_eq!(comment.traceparent, CONTEXT, "{sql}");
    assert_eq!(without_trace_comment(&sql), comment.statement);
    Some(comment.statement.to_owned())
}

#[test]
fn the_comment_at_the_end_is_removed() {
    for (pattern, statement) in [
        ("select 1 @", "select 1"),
        ("select 1@", "select 1"),
        ("select 1 @;", "select 1"),
        ("select 1 @ ; ", "select 1"),
        ("select 1; @", "select 1;"),
        ("@", ""),
        ("select 'it''s' @", "select 'it''s'"),
        ("select \"a\"\"b\" /* x */ @", "select \"a\"\"b\" /* x */"),
        ("select a -- b\n @", "select a -- b"),
        (
            "select 'ä' from t where a = $1 @",
            "select 'ä' from t where a = $1",
        ),
        (
            "update /*+ COMMIT_ON_SUCCESS */ t set a = 1 @",
            "update /*+ COMMIT_ON_SUCCESS */ t set a = 1",
        ),
    ] {
        assert_eq!(found(pattern).as_deref(), Some(statement), "{pattern}");
    }
}

#[test]
fn what_is_no_comment_at_the_end_remains() {
    for pattern in [
        "select 1",
        "@ select 1",
        "select 1 @; select 2",
        "select 1 @ /* x */",
        "select 1 -- @",
        "select '@",
        "select 'a @",
        "select \"a @",
        "select /* @",
        "select /* @ */",
        "select $$ @",
        "select $a$ @",
        "select E'\\' @",
        "select '\\' @",
    ] {
        assert_eq!(found(pattern), None, "{pattern}");
        assert_eq!(without_trace_comment(pattern), pattern);
    }
}

#[test]
fn only_pairs_with_the_key_pass_a_context() {
    for comment in [
        "/*action='run'*/",
        "/*traceparent*/",
        "/*traceparent=*/",
        "/*traceparent='*/",
        "/*traceparent=00*/",
        "/*traceparent='a' and more*/",
        "/*traceparent='a',*/",
        "/*traceparent='a'b'*/",
        "/*traceparent='a\nb'*/",
        "/*traceparent='%4'*/",
        "/*traceparent='%+4'*/",
        "/*traceparent='%ff'*/",
        "/*not_traceparent='a'*/",
        "/*+traceparent='a'*/",
        "/*traceparent='a*/ and b = 5 --'*/",
        "/*traceparent='a*/, b = 'c'*/",
    ] {
        assert_eq!(
            trace_comment(&format!("select 1 {comment}")),
            None,
            "{comment}"
        );
    }
}

#[test]
fn values_are_decoded_and_other_pairs_ignored() {
    let sql =
        "select 1 /*action='%2Frun%2C%27x%27', traceparent = '00%2D4b%c3%a4' ,tracestate='a%3D1'*/";
    let comment = trace_comment(sql).unwrap();
    assert_eq!(comment.traceparent, "00-4bä");
    assert_eq!(comment.statement, "select 1");
}

#[test]
fn a_long_text_is_not_searched() {
    let sql = format!(
        "select '{}' /*traceparent='{CONTEXT}'*/",
        "x".repeat(TEXT_BYTES_MAX)
    );
    assert_eq!(trace_comment(&sql), None);
}
