//! Texts whose meaning depends on settings, and texts that Paceline generates.

use super::{has_escapes, hides_quotes, keeps_ascii, unescaped};
use crate::{Expr, parse, quote_literal};

#[test]
fn plain_constants_with_a_backslash_depend_on_settings() {
    for text in [
        r"select 'a\tb'",
        r"select U&'\0041'",
        r"select n'\x'",
        "select 'a'\n'b\\c'",
        r"select E'it\'s'",
        r"select 'x\'",
        r"select $$it\'s$$",
        r"select 1 /* it\'s */",
    ] {
        assert!(has_escapes(text), "{text}");
        assert!(parse(text).is_ok_and(|s| s.has_escapes), "{text}");
    }
    for text in [
        "select 1, 'it''s'",
        r"select E'a\tb\\', e'\n'",
        r"select $$a\tb$$, $x$\d$x$",
        r#"select "a\b" from "c\d""#,
        "select 1 -- a\\b",
        "select E'a'\n'b\\c'",
    ] {
        assert!(!has_escapes(text), "{text}");
        assert!(parse(text).is_ok_and(|s| !s.has_escapes), "{text}");
    }
}

#[test]
fn tokens_depend_on_settings_only_if_a_quote_follows() {
    assert!(hides_quotes(r"select '\', ' ; set x to y; --'"));
    assert!(hides_quotes(r"select '\\\'"));
    assert!(!hides_quotes(r"select 'a\b'"));
    assert!(
        !hides_quotes(r"select '\\', E'\\'"),
        "the backslash is escaped"
    );
}

/// Texts that Paceline generates mean the same under each setting.
#[test]
fn generated_constants_do_not_depend_on_settings() {
    let written = |text: &str| {
        let expr = Expr::parse(text).expect("an expression");
        expr.to_sql(&|name| name.to_owned(), &|n| format!("${n}"))
    };
    for text in [r"E'a\\b'", r"E'a\tb''c\\'", r"'a\b'::text", r"lower(E'\\')"] {
        let sql = written(text).expect("text");
        assert!(!has_escapes(&sql), "{text} became {sql}");
        assert!(!has_escapes(&quote_literal(text)), "{text}");
    }
    assert_eq!(written(r"E'a\\b'").as_deref(), Ok(r"(E'a\\b')"));
}

#[test]
fn client_only_encodings_are_recognized() {
    for encoding in [
        "UTF8",
        "SQL_ASCII",
        "LATIN1",
        "WIN1252",
        "EUC_JP",
        "KOI8R",
        "ISO_8859_5",
    ] {
        assert!(keeps_ascii(encoding), "{encoding}");
    }
    for encoding in [
        "SJIS",
        "BIG5",
        "GBK",
        "UHC",
        "GB18030",
        "JOHAB",
        "SHIFT_JIS_2004",
        "",
    ] {
        assert!(!keeps_ascii(encoding), "{encoding}");
    }
}

#[test]
fn a_special_date_may_be_written_with_escapes() {
    for constant in [
        r"\156ow",
        r"n\x6fw",
        r"\u006eow",
        r"\n\x6eow",
        r"\U0000006eow x",
    ] {
        let text = format!("select '{constant}'::timestamptz");
        assert!(
            parse(&text).is_ok_and(|s| s.depends_on_parse_time),
            "{constant}"
        );
    }
    assert!(parse(r"select '\d+', 'a\b'").is_ok_and(|s| !s.depends_on_parse_time));
    assert_eq!(unescaped(r"a\\b\'c\é\x4\"), "a\\b'c\u{e9}\u{4}");
}
