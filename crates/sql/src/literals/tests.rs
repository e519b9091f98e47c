//! Compares the lexer with examples and with PostgreSQL's own scanner.

use pg_query::protobuf::{ScanToken, Token};
use proptest::prelude::*;

use super::{LiteralKind, Normalized, may_have_literals, take_out_kinds, take_out_literals};
use crate::parser;
use crate::quote::quote_literal;

fn normalized(sql: &str) -> Normalized {
    take_out_literals(sql, true).unwrap_or_else(|| panic!("not normalised: {sql}"))
}

fn kinds(sql: &str) -> Vec<(LiteralKind, String)> {
    normalized(sql)
        .literals
        .into_iter()
        .map(|literal| (literal.kind, literal.text))
        .collect()
}

#[test]
fn literals_are_replaced_and_all_else_is_unchanged() {
    let sql = "UPDATE t1 SET \"a 1\" = a.b1+ 3 /* 4 /* 5 */ 6 */, c = 'it''s' -- 7 '\n WHERE x->>'k' @> '{}' AND y[1:2] = .5;";
    let expected = "UPDATE t1 SET \"a 1\" = a.b1+ $1 /* 4 /* 5 */ 6 */, c = $2 -- 7 '\n WHERE x->>$3 @> $4 AND y[$5:$6] = $7;";
    let found = normalized(sql);
    assert_eq!(found.text, expected);
    let texts: Vec<&str> = found
        .literals
        .iter()
        .map(|literal| literal.text.as_str())
        .collect();
    assert_eq!(texts, ["3", "it's", "k", "{}", "1", "2", ".5"]);
}

#[test]
fn a_literal_has_the_type_that_postgresql_gives_it() {
    use LiteralKind::{Int4, Int8, Numeric, Unknown};
    let cases = [
        ("3", Int4),
        ("0000000000003", Int4),
        ("2147483647", Int4),
        ("2147483648", Int8),
        ("3000000000", Int8),
        ("9223372036854775807", Int8),
        ("9223372036854775808", Numeric),
        ("1.5", Numeric),
        ("1.", Numeric),
        (".5", Numeric),
        ("1e3", Numeric),
        ("1.5E-3", Numeric),
    ];
    for (literal, kind) in cases {
        assert_eq!(
            kinds(&format!("select {literal}")),
            [(kind, literal.to_owned())]
        );
    }
    assert_eq!(kinds("select ''"), [(Unknown, String::new())]);
    assert_eq!(kinds("select ''''"), [(Unknown, "'".to_owned())]);
}

#[test]
fn null_true_and_signs_are_not_replaced() {
    assert_eq!(
        normalized("select NULL, TRUE, -5, - 5").text,
        "select NULL, TRUE, -$1, - $2"
    );
    assert_eq!(normalized("select 1..2").text, "select $1..$2");
    assert_eq!(normalized("select a ? 'b'").text, "select a ? $1");
}

#[test]
fn texts_that_are_not_safe_are_not_normalized() {
    let texts = [
        "select $1",
        "select $$a$$",
        "select $tag$a$tag$",
        "select E'a'",
        "select e'a'",
        "select U&'a'",
        "select u&\"a\"",
        "select B'1'",
        "select x'1F'",
        "select N'a'",
        "select 'a",
        "select \"a",
        "select /* a",
        "select /* /* */ a",
        "select 'a'\n'b'",
        "select 'a' -- c\n 'b'",
        "select 1; select 2",
        "select 1a",
        "select 1_000",
        "select 0x1F",
        "select 0o7",
        "select 0b1",
        "select 1e",
        "select 1.e+",
        "select -2147483648",
        "select - /* c */ 2147483648",
        "select -02147483648",
        "select -9223372036854775808",
        "select date'2024-01-01'",
        "select 'a'b",
        "select 'a'1",
        "select a.1",
        "select 'a\0b'",
    ];
    for sql in texts {
        assert_eq!(take_out_literals(sql, true), None, "{sql}");
    }
}

#[test]
fn a_backslash_is_only_safe_in_conforming_strings() {
    assert_eq!(
        kinds("select 'a\\'"),
        [(LiteralKind::Unknown, "a\\".to_owned())]
    );
    assert_eq!(take_out_literals("select 'a\\'", false), None);
    assert!(take_out_literals("select 'a'", false).is_some());
}

#[test]
fn a_trailing_semicolon_is_part_of_the_text() {
    assert_eq!(
        normalized("select 1 ; -- done 2\n /* 3 */ ;").text,
        "select $1 ; -- done 2\n /* 3 */ ;"
    );
    assert_eq!(normalized("").text, "");
}

#[test]
fn two_strings_on_the_same_line_are_two_literals() {
    assert_eq!(normalized("select 'a' 'b'").text, "select $1 $2");
    assert_eq!(
        normalized("select 'a' /* \n */ 'b'").text,
        "select $1 /* \n */ $2"
    );
}

#[test]
fn the_number_of_literals_is_limited_by_bind() {
    let list = |count: usize| format!("select {}", vec!["1"; count].join(","));
    assert!(take_out_literals(&list(65_535), true).is_some());
    assert_eq!(take_out_literals(&list(65_536), true), None);
}

fn is_literal(token: &ScanToken) -> bool {
    matches!(token.token(), Token::Iconst | Token::Fconst | Token::Sconst)
}

fn range(token: &ScanToken) -> std::ops::Range<usize> {
    usize::try_from(token.start).unwrap()..usize::try_from(token.end).unwrap()
}

/// The text in which parameters replace all literal tokens of PostgreSQL's scanner.
fn by_postgresql(sql: &str, tokens: &[ScanToken]) -> String {
    let mut text = String::new();
    let mut copied = 0;
    for (index, token) in tokens.iter().filter(|token| is_literal(token)).enumerate() {
        let range = range(token);
        text.push_str(&sql[copied..range.start]);
        text.push_str(&format!("${}", index + 1));
        copied = range.end;
    }
    text.push_str(&sql[copied..]);
    text
}

/// The text in which the literals replace their parameters again.
fn put_back(found: &Normalized) -> String {
    let tokens = parser::scan(&found.text).unwrap();
    let mut text = String::new();
    let mut copied = 0;
    for token in tokens.iter().filter(|token| token.token() == Token::Param) {
        let range = range(token);
        let literal = &found.literals[found.text[range.start + 1..range.end]
            .parse::<usize>()
            .unwrap()
            - 1];
        text.push_str(&found.text[copied..range.start]);
        text.push_str(&match literal.kind {
            LiteralKind::Unknown => format!("'{}'", literal.text.replace('\'', "''")),
            _ => literal.text.clone(),
        });
        copied = range.end;
    }
    text.push_str(&found.text[copied..]);
    text
}

fn agrees_with_postgresql(sql: &str) -> Result<(), TestCaseError> {
    let Some(found) = take_out_literals(sql, true) else {
        return Ok(());
    };
    let Ok(tokens) = parser::scan(sql) else {
        return Err(TestCaseError::fail(format!(
            "normalised what PostgreSQL cannot scan: {sql:?}"
        )));
    };
    prop_assert_eq!(&found.text, &by_postgresql(sql, &tokens), "{:?}", sql);
    prop_assert_eq!(put_back(&found), sql);
    for (token, literal) in tokens
        .iter()
        .filter(|token| is_literal(token))
        .zip(&found.literals)
    {
        let expected: &[LiteralKind] = match token.token() {
            Token::Iconst => &[LiteralKind::Int4],
            Token::Fconst => &[LiteralKind::Int8, LiteralKind::Numeric],
            _ => &[LiteralKind::Unknown],
        };
        prop_assert!(
            expected.contains(&literal.kind),
            "{:?} in {:?}",
            literal,
            sql
        );
    }
    let kinds = |tokens: &[ScanToken]| -> Vec<Token> {
        tokens
            .iter()
            .map(|token| {
                if is_literal(token) {
                    Token::Param
                } else {
                    token.token()
                }
            })
            .collect()
    };
    prop_assert_eq!(
        kinds(&parser::scan(&found.text).unwrap()),
        kinds(&tokens),
        "{:?}",
        sql
    );
    Ok(())
}

/// Fragments that the lexer treats differently, in any order.
fn pieces() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(vec![
        "a",
        "t1",
        "é",
        "\"a 1\"",
        "\"q\"\"\"",
        "select",
        "e",
        "E",
        "n",
        "u",
        "U&",
        "x",
        "b",
        "_",
        "$",
        "$1",
        "'",
        "\"",
        "''",
        "'x'",
        "'it''s'",
        "'\\'",
        "' -- '",
        "'/*'",
        "1",
        "42",
        "007",
        "2147483648",
        "9223372036854775808",
        "1.5",
        ".5",
        "1.",
        "1e3",
        "1e",
        "1..2",
        "0x1F",
        "1_0",
        ".",
        "..",
        ":",
        "::",
        "-",
        "--",
        "-- c\n",
        "/*",
        "*/",
        "/* c */",
        "/* /* */ */",
        "->>",
        "->",
        "@>",
        "?",
        "+",
        "*",
        "/",
        "<",
        "=",
        "(",
        ")",
        "[",
        "]",
        ",",
        ";",
        " ",
        "\n",
        "\t",
        "\r",
        "\u{b}",
        "\u{c}",
        "\\",
        "#",
    ]);
    let spaced = fixed.clone().prop_map(|piece| format!(" {piece} "));
    prop::collection::vec(prop_oneof![fixed.prop_map(str::to_owned), spaced], 0..14)
        .prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(paceline_testing::cases(6_000))]

    #[test]
    fn replaces_exactly_the_literal_tokens(sql in pieces()) {
        agrees_with_postgresql(&sql)?;
    }

    #[test]
    fn replaces_exactly_the_literal_tokens_of_any_text(sql in "[-a-eE0-9'\"$./*;: \n\\\\@+é]{0,24}") {
        agrees_with_postgresql(&sql)?;
    }

    #[test]
    fn a_text_that_has_literals_may_have_some(sql in "[a-c0-1'. ;]{0,8}") {
        let literals = take_out_literals(&sql, true).map(|normal| normal.literals);
        prop_assert!(literals.is_none_or(|found| found.is_empty() || may_have_literals(&sql)));
    }

    #[test]
    fn without_texts_the_literals_are_the_same(texts in prop::collection::vec("[a-c0-1'. ;]{0,8}", 1..4)) {
        let mut reused = Normalized::default();
        for sql in texts {
            let found = take_out_kinds(&sql, true, &mut reused).then(|| reused.clone());
            let expected = take_out_literals(&sql, true).map(|mut normal| {
                normal.literals.iter_mut().for_each(|literal| literal.text.clear());
                normal
            });
            prop_assert_eq!(found, expected);
        }
    }
}

proptest! {
    #![proptest_config(paceline_testing::cases(500))]

    #[test]
    fn a_quoted_literal_keeps_its_value(text in "[a-z'\\\\é\n ]{0,12}") {
        let sql = format!("select {}", quote_literal(&text));
        if text.contains('\\') {
            prop_assert_eq!(take_out_literals(&sql, true), None);
        } else {
            prop_assert_eq!(kinds(&sql), vec![(LiteralKind::Unknown, text)]);
        }
    }
}
