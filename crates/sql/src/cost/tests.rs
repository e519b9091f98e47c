//! Compares the scan with examples and with PostgreSQL's own scanner.

use super::{Cost, cost};
use crate::parser;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const SEED: u64 = 0x5e_ed23;

fn tokens(text: &str) -> usize {
    cost(text).tokens
}

#[test]
fn a_token_counts_once_whatever_it_contains() {
    for (text, expected) in [
        ("", 0),
        ("select 1", 2),
        ("select a.b", 4),
        ("select 'it''s, (1, 2)'", 2),
        (r"select E'\', (1, 2)'", 2),
        (r"select '\', 1", 4),
        ("select 'a'\n -- and\n 'b, c'", 2),
        ("select E'a'\n'\\', b'", 2),
        ("select 'a' 'b'", 3),
        ("select B'1''a, b'", 3),
        ("select U&'a '' b', \"a, \"\" b\"", 4),
        ("select $$ a, b $$, $x$ $$, $y$ $x$", 4),
        ("select $1, a$b$c", 4),
        ("/* a /* b */ c */ -- d\nselect", 5),
    ] {
        let found = tokens(text);
        assert!(
            (expected..=expected + 1).contains(&found),
            "{text}: {found}"
        );
    }
}

#[test]
fn bytes_that_the_lexer_scans_again_are_counted() {
    let nested = format!("{}{}select 1", "/*".repeat(1000), "*/".repeat(1000));
    let flat = format!("{}select 1", "/**/".repeat(1000));
    let operators = format!("select 1 {} 1", "+".repeat(2000));
    for text in [nested, flat, operators] {
        let Cost { rescans, .. } = cost(&text);
        assert!(rescans >= 1_000_000, "{rescans}");
    }
    let banner = format!(
        "/*{}\n * why\n {}*/ --{}\n",
        "*".repeat(70),
        "=".repeat(70),
        "-".repeat(70)
    );
    let usual = format!(
        "{banner}select a <= b and c->>'d' || '{}'",
        "+".repeat(1000)
    );
    assert!(cost(&usual).rescans < 100, "{:?}", cost(&usual));
}

#[test]
fn more_than_one_statement_is_recognized() {
    for (text, several) in [
        ("select ';'; -- ;\n;", false),
        ("select $$;$$ /* ; */", false),
        ("select 1; select 2", true),
        (";select 1", true),
        ("; ;", false),
        ("", false),
    ] {
        assert_eq!(cost(text).several, several, "{text}");
    }
}

/// If the scan is not linear, this test does not end.
#[test]
fn the_scan_is_linear() {
    for piece in [
        "/*", "*/", "/**/", "+", "'", "'a'\n", "$a", "$a$", "$$", "\"", "--", "E'\\", "(", "\n",
        "*", "/",
    ] {
        let text = piece.repeat((8 << 20) / piece.len());
        assert!(tokens(&text) <= text.len() + 1, "{piece}");
    }
}

/// Fragments that start or end the states of the lexer, or resemble such.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "'", "''", "\"", "\\", "E'", "e'", "B'", "x'", "N'", "U&'", "u&\"", "$", "$$", "$a$", "$1",
        "a", "é", "1", "1.5", "1e", ".", "..", ",", "(", ")", ";", "/*", "*/", "/", "*", "--", "-",
        "+", "<", "=", "@", " ", "\n", "\t", "::", "select", "_", "0x1", "\r\n",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 5_000,
        rng_seed: RngSeed::Fixed(SEED),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The scan counts at least the tokens of the scanner. If the scanner finds the appended words, the text ended
    /// outside of strings and comments; then the scan must find the same words.
    #[test]
    fn every_token_is_counted(text in pieces()) {
        if let Ok(found) = parser::scan(&text) {
            prop_assert!(tokens(&text) >= found.len(), "{text:?}: {found:?}");
            let marked = format!("{text} {}", "a ".repeat(50));
            if let Ok(more) = parser::scan(&marked)
                && more.len() == found.len() + 50
            {
                prop_assert_eq!(tokens(&marked), tokens(&text) + 50, "{:?}", text);
            }
        }
    }
}
