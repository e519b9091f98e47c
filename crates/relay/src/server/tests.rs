//! Prepared statements and settings of a server connection.

use super::reset::PENDING_CLOSE_MAX;
use super::*;
use crate::sequences::SequenceToken;
use crate::settings::SettingsInterner;

fn statement(id: u64) -> Preparable<'static> {
    Preparable {
        id,
        text: "select 1",
        types: &[0, 0],
    }
}

#[test]
fn the_least_recently_used_statement_makes_room() {
    let mut server = ServerSide::new(SettingsInterner::default().none(), 2);
    let mut out = BytesMut::new();
    assert!(server.ensure(statement(1), &mut out).parsed);
    assert!(server.ensure(statement(2), &mut out).parsed);
    assert!(!server.ensure(statement(1), &mut out).parsed);
    let third = server.ensure(statement(3), &mut out);
    assert_eq!(third.closed.map(|closed| closed.key.id), Some(2));
    assert!(!server.ensure(statement(1), &mut out).parsed);
    assert!(server.ensure(statement(2), &mut out).parsed);
}

#[test]
fn a_statement_is_forgotten_by_its_name() {
    let mut server = ServerSide::new(SettingsInterner::default().none(), 2);
    let mut out = BytesMut::new();
    let key = server.ensure(statement(7), &mut out).key;
    assert_eq!(StatementKey::of_name(&key.name()), Some(key));
    for name in ["paceline_7", "paceline_7_0_0", "paceline_8_0", "mine", ""] {
        server.forget_name(name);
    }
    assert!(!server.ensure(statement(7), &mut out).parsed);
    server.forget_name(&key.name());
    assert!(server.ensure(statement(7), &mut out).parsed);
}

#[test]
fn many_statements_that_must_be_closed_are_dropped_at_once() {
    let none = SettingsInterner::default().none();
    let mut server = ServerSide::new(Arc::clone(&none), 1_000);
    let mut out = BytesMut::new();
    for id in 0..=PENDING_CLOSE_MAX as u64 {
        assert!(server.has(&none));
        server.ensure(statement(id), &mut out);
        server.close_later(format!("mine{id}").as_bytes());
    }
    assert!(!server.has(&none));
    out.clear();
    let reader = SequenceToken::default();
    assert_eq!(server.adopt(&none, reader, &mut out), 1);
    assert!(String::from_utf8_lossy(&out).contains("DEALLOCATE ALL"));
    assert!(server.has(&none) && server.take_pending_close().is_empty());
    assert!(server.ensure(statement(1), &mut out).parsed);
}

/// Not a measurement. If each statement costs a walk over the others, the test does not end.
#[test]
fn a_full_connection_costs_no_more_than_an_empty_one() {
    const MANY: u64 = 200_000;
    let mut server = ServerSide::new(SettingsInterner::default().none(), 100_000);
    for id in 0..MANY {
        let mut out = BytesMut::new();
        let key = server.ensure(statement(id), &mut out).key;
        server.close_later(key.name().as_bytes());
        assert!(server.is_pending_close(key.name().as_bytes()));
        server.forget_name("paceline_x_0");
    }
    assert_eq!(server.prepared(), 100_000);
    server.retire_all();
    assert_eq!(server.take_pending_close().len() as u64, MANY);
}

#[test]
fn a_retired_statement_that_could_not_be_closed_is_closed_later() {
    let mut server = ServerSide::new(SettingsInterner::default().none(), 8);
    let (mut out, mut injected) = (BytesMut::new(), Injected::default());
    let key = server.ensure(statement(1), &mut out).key;
    server.retire(key);
    injected.push(server.ensure(statement(1), &mut out));
    injected.push_sync();
    injected.synced(&mut server); // both were skipped
    let again = server.ensure(statement(1), &mut out);
    assert!(again.parsed && again.closed.is_some(), "{again:?}");
    assert!(server.take_pending_close().is_empty());
}

#[test]
fn unconfirmed_statements_are_undone_the_last_first() {
    let mut server = ServerSide::new(SettingsInterner::default().none(), 1);
    let (mut out, mut injected) = (BytesMut::new(), Injected::default());
    server.ensure(statement(1), &mut out);
    for id in [2, 1] {
        injected.push(server.ensure(statement(id), &mut out));
    }
    injected.push_sync();
    injected.synced(&mut server); // Close 1, Parse 2, Close 2, Parse 1
    assert!(!server.ensure(statement(1), &mut out).parsed);
}

#[test]
fn a_server_with_unknown_state_is_reset_and_prepared_again() {
    let none = SettingsInterner::default().none();
    let mut server = ServerSide::new(Arc::clone(&none), 8);
    let mut out = BytesMut::new();
    server.ensure(statement(1), &mut out);
    server.mark_unknown();
    assert_eq!(server.take_pending_close().len(), 1);
    assert_eq!(server.adopt(&none, SequenceToken::default(), &mut out), 1);
    assert!(server.ensure(statement(1), &mut out).parsed);
    server.close_later(b"mine");
    server.mark_unknown();
    let reported = || BTreeMap::from([("server_version".to_owned(), "18".to_owned())]);
    server.reported = reported();
    server.discarded(Arc::clone(&none));
    assert!(server.take_pending_close().is_empty() && server.has(&none));
    assert_eq!(server.reported, reported(), "for the next to log in");
    assert!(server.ensure(statement(1), &mut out).parsed);
}

#[test]
fn a_statement_that_is_retired_twice_is_closed_once() {
    let mut server = ServerSide::new(SettingsInterner::default().none(), 8);
    let (mut out, mut injected) = (BytesMut::new(), Injected::default());
    let key = server.ensure(statement(1), &mut out).key;
    server.retire(key);
    injected.push(server.ensure(statement(1), &mut out));
    injected.push_sync();
    server.retire_all();
    injected.synced(&mut server);
    assert!(server.ensure(statement(1), &mut out).parsed);
    assert!(server.take_pending_close().is_empty());
}

#[test]
fn statements_skipped_after_an_error_are_undone() {
    let mut server = ServerSide::new(SettingsInterner::default().none(), 1);
    let (mut out, mut injected) = (BytesMut::new(), Injected::default());
    for id in [1, 2] {
        let ensured = server.ensure(statement(id), &mut out);
        injected.push(ensured);
        injected.push_sync();
    }
    injected.complete(); // Parse 1
    injected.synced(&mut server);
    injected.synced(&mut server); // Close 1 and Parse 2 were skipped
    assert!(!server.ensure(statement(1), &mut out).parsed);
    assert!(server.ensure(statement(2), &mut out).parsed);
}
