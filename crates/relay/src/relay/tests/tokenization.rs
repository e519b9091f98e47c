//! Texts that the server may split into other tokens: their effect is unknown.

use super::test_relay::TestRelay;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

/// Either one constant and a comment, or a constant and a call.
const HIDING: &str = r"select '\', ', set_config($$a$$, $$b$$, false) --'";

fn test(conforming: &str) -> TestRelay {
    let mut test = TestRelay::new();
    for (name, value) in [
        ("standard_conforming_strings", conforming),
        ("client_encoding", "UTF8"),
    ] {
        let reported = &mut test.server.reported;
        reported.insert(name.to_owned(), value.to_owned());
    }
    test
}

#[test]
fn the_effect_of_a_query_is_known_if_strings_conform() {
    for (conforming, needs_reset) in [("on", false), ("off", true)] {
        let mut test = test(conforming);
        test.client([query(HIDING)]);
        test.server([
            columns(&["a"]),
            row(&["b"]),
            complete("SELECT 1"),
            ready('I'),
        ]);
        assert_eq!(test.server.needs_reset, needs_reset, "{conforming}");
    }
}

#[test]
fn a_statement_parsed_while_strings_do_not_conform_stays_unknown() {
    let mut test = test("off");
    test.client([parse("s", HIDING), sync()]);
    test.server([parsed(), ready('I')]);
    assert!(!test.server.needs_reset, "nothing was carried out");
    let reported = &mut test.server.reported;
    reported.insert("standard_conforming_strings".to_owned(), "on".to_owned());
    test.next_relay();
    test.client([bind("s"), execute(), sync()]);
    test.server([bound(), complete("SELECT 1"), ready('I')]);
    assert!(test.server.needs_reset);
}

#[test]
fn a_known_statement_is_parsed_again_if_strings_do_not_conform() {
    let mut test = test("on");
    test.client([parse("s", HIDING), sync()]);
    test.server([parsed(), ready('I')]);
    // A server with standard_conforming_strings has it as the parser read it.
    let reported = &mut test.server.reported;
    reported.insert("standard_conforming_strings".to_owned(), "off".to_owned());
    test.next_relay();
    test.client([bind("s"), execute(), sync()]);
    test.server([bound(), complete("SELECT 1"), ready('I')]);
    assert!(!test.server.needs_reset);
    test.on_another_server(100);
    let sent = test.client([bind("s"), execute(), sync()]);
    assert!(sent[0].starts_with("Parse"), "{sent:?}");
    test.server([parsed(), bound(), complete("SELECT 1"), ready('I')]);
    assert!(test.server.needs_reset);
}

#[test]
fn effects_are_unknown_while_the_server_executes() {
    let mut test = test("on");
    test.client([
        parse("", "reset standard_conforming_strings"),
        bind(""),
        execute(),
        parse("", HIDING),
        bind(""),
        execute(),
        sync(),
    ]);
    test.server([parsed(), bound(), complete("RESET")]);
    test.server([parsed(), bound(), complete("SELECT 1"), ready('I')]);
    assert!(test.server.needs_reset);
}

#[test]
fn effects_of_other_letters_are_known_if_the_encoding_is_known() {
    for (encoding, needs_reset) in [("UTF8", false), ("LATIN1", false), ("SJIS", true)] {
        let mut test = test("on");
        let reported = &mut test.server.reported;
        reported.insert("client_encoding".to_owned(), encoding.to_owned());
        test.client([query("select 'ぃ'")]);
        test.server([complete("SELECT 1"), ready('I')]);
        assert_eq!(test.server.needs_reset, needs_reset, "{encoding}");
    }
}

/// Bare hints remain where they may be part of a constant.
#[test]
fn bare_hints_are_not_rewritten_after_hidden_quotes() {
    let mut test = test("on");
    let text = r"update COMMIT_ON_SUCCESS ROLLBACK_ON_FAIL t set a = E'\''";
    assert_eq!(test.client([query(text)]), [format!("Query {text}")]);
}
