//! COPY FROM STDIN: while the server reads CopyData, it skips every Sync.

use super::test_relay::TestRelay;
use paceline_testing::messages::client::*;
use paceline_testing::messages::server::*;

const COPY: &str = "COPY t FROM STDIN";

#[test]
fn copy_by_simple_query() {
    let mut test = TestRelay::new();
    assert_eq!(test.client([query(COPY)]), [format!("Query {COPY}")]);
    assert!(!test.relay.awaits_client());
    assert_eq!(test.server([copy_in()]), ["copy in"]);
    assert!(test.relay.awaits_client() && !test.relay.is_quiet());
    // Some drivers send a Sync even here.
    let sent = test.client([copy_data("1\n"), sync(), copy_data("2\n"), copy_done()]);
    assert_eq!(sent, ["CopyData 1\n", "Sync", "CopyData 2\n", "CopyDone"]);
    assert!(!test.relay.awaits_client());
    assert_eq!(
        test.server([complete("COPY 2"), ready('I')]),
        ["COPY 2", "ready I"]
    );
    assert!(test.relay.is_over());
}

#[test]
fn a_copy_that_the_client_aborts() {
    let mut test = TestRelay::new();
    test.client([query(COPY)]);
    test.server([copy_in()]);
    assert_eq!(
        test.client([copy_data("1\n"), copy_fail()]),
        ["CopyData 1\n", "CopyFail"]
    );
    let got = test.server([error("57014", "COPY from stdin failed: enough"), ready('I')]);
    assert_eq!(
        got,
        ["ERROR 57014: COPY from stdin failed: enough", "ready I"]
    );
    assert!(test.relay.is_over());
}

#[test]
fn after_a_failed_copy_further_data_is_ignored() {
    let mut test = TestRelay::new();
    test.client([query(COPY)]);
    test.server([copy_in()]);
    test.client([copy_data("x\n")]);
    let got = test.server([error("22P02", "invalid input"), ready('I')]);
    assert_eq!(got, ["ERROR 22P02: invalid input", "ready I"]);
    assert!(test.relay.is_over());
    assert_eq!(
        test.client([copy_data("y\n"), copy_done()]),
        ["CopyData y\n", "CopyDone"]
    );
    assert!(test.relay.is_over(), "they have no answer");
}

#[test]
fn copy_by_the_extended_protocol_with_the_early_sync_that_the_server_skips() {
    let mut test = TestRelay::new();
    test.client([parse("", COPY), bind(""), execute(), sync()]);
    assert_eq!(
        test.server([parsed(), bound(), copy_in()]),
        ["parsed", "bound", "copy in"]
    );
    assert!(test.relay.awaits_client(), "that Sync is not answered");
    test.client([copy_data("1\n"), copy_done(), sync()]);
    assert_eq!(
        test.server([complete("COPY 1"), ready('I')]),
        ["COPY 1", "ready I"]
    );
    assert!(test.relay.is_over());
}

#[test]
fn copy_by_the_extended_protocol_in_one_packet() {
    let mut test = TestRelay::new();
    test.client([
        parse("", COPY),
        bind(""),
        execute(),
        copy_data("1\n"),
        copy_done(),
        sync(),
    ]);
    assert_eq!(
        test.server([parsed(), bound(), copy_in()]),
        ["parsed", "bound", "copy in"]
    );
    assert!(!test.relay.awaits_client(), "everything is on its way");
    assert_eq!(
        test.server([complete("COPY 1"), ready('I')]),
        ["COPY 1", "ready I"]
    );
    assert!(test.relay.is_over());
}

#[test]
fn a_copy_rejected_before_it_begins_skips_its_data() {
    let mut test = TestRelay::new();
    test.client([
        parse("", COPY),
        bind(""),
        execute(),
        copy_data("1\n"),
        copy_done(),
        sync(),
    ]);
    let got = test.server([parsed(), bound(), error("42501", "no"), ready('I')]);
    assert_eq!(got, ["parsed", "bound", "ERROR 42501: no", "ready I"]);
    assert!(test.relay.is_over());
}

/// The server skips the Sync that drivers send early. Until the next one the request has not ended, whether the copy
/// succeeds or fails. (If the connection were returned before, it would swallow the next client's messages.)
#[test]
fn an_extended_copy_is_not_over_before_its_last_sync() {
    for succeeds in [true, false] {
        let mut test = TestRelay::new();
        test.client([parse("", COPY), bind(""), execute(), sync()]);
        test.server([parsed(), bound(), copy_in()]);
        test.client([copy_data("1\n")]);
        if succeeds {
            test.client([copy_done()]);
            test.server([complete("COPY 1")]);
        } else {
            test.server([error("22P02", "invalid input")]);
        }
        assert!(
            !test.relay.is_over() && test.relay.awaits_client(),
            "{succeeds}"
        );
        test.client([sync()]);
        test.server([ready('I')]);
        assert!(test.relay.is_over(), "{succeeds}");
    }
}

/// Some drivers do not wait for CopyInResponse.
#[test]
fn copy_by_simple_query_in_one_packet() {
    let mut test = TestRelay::new();
    test.client([query(COPY), copy_data("1\n"), sync(), copy_done()]);
    assert_eq!(test.server([copy_in()]), ["copy in"]);
    assert!(
        !test.relay.awaits_client(),
        "the server has skipped the Sync"
    );
    assert_eq!(
        test.server([complete("COPY 1"), ready('I')]),
        ["COPY 1", "ready I"]
    );
    assert!(test.relay.is_over());
}

/// Several copies in one query, each with its own end.
#[test]
fn several_copies_by_one_simple_query_in_one_packet() {
    let mut test = TestRelay::new();
    test.client([query(&format!("{COPY}; {COPY}")), copy_done()]);
    test.server([copy_in()]);
    assert!(!test.relay.awaits_client());
    test.server([complete("COPY 0"), copy_in()]);
    assert!(test.relay.awaits_client());
    test.client([copy_done()]);
    test.server([complete("COPY 0"), ready('I')]);
    assert!(test.relay.is_over());
}

#[test]
fn the_end_of_a_copy_that_did_not_begin_has_no_answer() {
    let mut test = TestRelay::new();
    test.client([parse("", "SELECT 1"), bind(""), execute(), copy_done()]);
    test.client([parse("", "SELECT 2"), bind(""), execute(), sync()]);
    test.server([parsed(), bound(), complete("SELECT 1")]);
    test.server([parsed(), bound(), complete("SELECT 1")]);
    assert!(!test.relay.is_over());
    assert_eq!(test.server([ready('I')]), ["ready I"]);
    assert!(test.relay.is_over());
    test.client([query("SELECT 3"), copy_done()]);
    test.server([complete("SELECT 1"), ready('I')]);
    assert!(test.relay.is_over());
}

/// When a copy fails, the server may or may not have read a Sync. It answers one that it has not read. The next client must
/// not receive that answer.
#[test]
fn a_server_must_close_if_a_copy_fails_with_a_sync_on_its_way() {
    let mut test = TestRelay::new();
    test.client([query(COPY)]);
    test.server([copy_in()]);
    test.client([copy_data("x\n"), sync(), copy_done()]);
    test.server([error("22P02", "invalid input"), ready('I')]);
    assert!(test.relay.is_over() && test.server.must_close);

    let mut test = TestRelay::new();
    test.client([query(COPY)]);
    test.server([copy_in()]);
    test.client([copy_data("1\n"), sync(), copy_done()]);
    test.server([complete("COPY 1"), ready('I')]);
    test.client([query(COPY)]);
    test.server([copy_in(), error("22P02", "invalid input"), ready('I')]);
    assert!(test.relay.is_over() && !test.server.must_close);
}

/// A trigger before the copy fails before the server has read the Sync that drivers send early.
#[test]
fn the_server_may_answer_an_early_sync() {
    let mut test = TestRelay::new();
    test.client([parse("", COPY), bind(""), execute(), sync()]);
    test.server([parsed(), bound(), copy_in()]);
    let got = test.server([error("P0001", "not today"), ready('I')]);
    assert_eq!(got, ["ERROR P0001: not today", "ready I"]);
    assert!(test.relay.is_over() && test.server.must_close);
    assert_eq!(test.client([query("SELECT 1")]), ["Query SELECT 1"]);
}

#[test]
fn a_server_must_close_after_an_unexpected_answer() {
    let mut test = TestRelay::new();
    test.client([query("SELECT 1")]);
    test.server([complete("SELECT 1"), ready('I')]);
    assert!(test.relay.is_over() && !test.server.must_close);
    assert_eq!(test.server([ready('I')]), ["ready I"]);
    assert!(test.relay.is_over() && test.server.must_close);
}
