//! Texts of which the server may make other tokens: what they do is not known.

use super::fixture::Stage;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

/// One constant and a comment, or a constant and a call.
const HIDING: &str = r"select '\', ', set_config($$a$$, $$b$$, false) --'";

fn stage(conforming: &str) -> Stage {
    let mut stage = Stage::new();
    for (name, value) in [
        ("standard_conforming_strings", conforming),
        ("client_encoding", "UTF8"),
    ] {
        let reported = &mut stage.server.reported;
        reported.insert(name.to_owned(), value.to_owned());
    }
    stage
}

#[test]
fn a_query_is_known_where_strings_conform() {
    for (conforming, needs_reset) in [("on", false), ("off", true)] {
        let mut stage = stage(conforming);
        stage.client([query(HIDING)]);
        stage.server([
            columns(&["a"]),
            row(&["b"]),
            complete("SELECT 1"),
            ready('I'),
        ]);
        assert_eq!(stage.server.needs_reset, needs_reset, "{conforming}");
    }
}

#[test]
fn what_was_parsed_where_strings_do_not_conform_stays_unknown() {
    let mut stage = stage("off");
    stage.client([parse("s", HIDING), sync()]);
    stage.server([parsed(), ready('I')]);
    assert!(!stage.server.needs_reset, "nothing was carried out");
    let reported = &mut stage.server.reported;
    reported.insert("standard_conforming_strings".to_owned(), "on".to_owned());
    stage.ride_again();
    stage.client([bind("s"), execute(), sync()]);
    stage.server([bound(), complete("SELECT 1"), ready('I')]);
    assert!(stage.server.needs_reset);
}

#[test]
fn a_known_statement_is_parsed_anew_where_strings_do_not_conform() {
    let mut stage = stage("on");
    stage.client([parse("s", HIDING), sync()]);
    stage.server([parsed(), ready('I')]);
    // This server has it as it was meant.
    let reported = &mut stage.server.reported;
    reported.insert("standard_conforming_strings".to_owned(), "off".to_owned());
    stage.ride_again();
    stage.client([bind("s"), execute(), sync()]);
    stage.server([bound(), complete("SELECT 1"), ready('I')]);
    assert!(!stage.server.needs_reset);
    stage.on_another_server(100);
    let sent = stage.client([bind("s"), execute(), sync()]);
    assert!(sent[0].starts_with("Parse"), "{sent:?}");
    stage.server([parsed(), bound(), complete("SELECT 1"), ready('I')]);
    assert!(stage.server.needs_reset);
}

#[test]
fn nothing_is_known_behind_what_is_being_carried_out() {
    let mut stage = stage("on");
    stage.client([
        parse("", "reset standard_conforming_strings"),
        bind(""),
        execute(),
        parse("", HIDING),
        bind(""),
        execute(),
        sync(),
    ]);
    stage.server([parsed(), bound(), complete("RESET")]);
    stage.server([parsed(), bound(), complete("SELECT 1"), ready('I')]);
    assert!(stage.server.needs_reset);
}

#[test]
fn other_letters_are_known_where_bytes_are() {
    for (encoding, needs_reset) in [("UTF8", false), ("LATIN1", false), ("SJIS", true)] {
        let mut stage = stage("on");
        let reported = &mut stage.server.reported;
        reported.insert("client_encoding".to_owned(), encoding.to_owned());
        stage.client([query("select 'ぃ'")]);
        stage.server([complete("SELECT 1"), ready('I')]);
        assert_eq!(stage.server.needs_reset, needs_reset, "{encoding}");
    }
}

/// Hinted words stay where they may be part of a constant.
#[test]
fn bare_hints_are_not_looked_for_behind_hidden_quotes() {
    let mut stage = stage("on");
    let text = r"update COMMIT_ON_SUCCESS ROLLBACK_ON_FAIL t set a = E'\''";
    assert_eq!(stage.client([query(text)]), [format!("Query {text}")]);
}
