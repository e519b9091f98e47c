//! The process in a notification: `be_pid == PQbackendPID()` for those that a session has sent itself, and for no others.

use super::{heard, receive, shared};
use crate::harness::Stage;
use crate::harness::message::unit;

fn check(stage: &Stage) {
    let (mut client, mut other, mut direct) = (stage.client(), stage.client(), stage.direct());
    client.ok("LISTEN a");
    for reply in [
        client.ok("NOTIFY a, 'own'"),
        client.ask(&unit("SELECT pg_notify('a', 'own')", &[])),
        client.ok("BEGIN; NOTIFY a, 'own'; COMMIT"),
    ] {
        let own = heard(&reply.0);
        assert_eq!(own.len(), 1);
        assert_eq!(own[0].process, client.process());
    }
    // The other one has the same server connection, if there is only one.
    other.ok("NOTIFY a, 'other'");
    direct.ok("NOTIFY a, 'direct'");
    let strange = receive(&mut client, 2);
    for heard in &strange {
        assert_ne!(heard.process, client.process());
    }
    assert_eq!(strange[1].process, direct.process());
    let mut own = heard(&client.ok("NOTIFY a, 'own'").0);
    assert_eq!(own.pop().unwrap().process, client.process());
}

#[test]
fn a_session_recognises_its_own_by_the_shared_connection() {
    check(&shared());
}

#[test]
fn a_session_that_keeps_its_server_recognises_its_own() {
    check(&Stage::on_shared().open());
}

#[test]
fn a_session_that_is_pooled_recognises_its_own() {
    check(&Stage::on_shared().set("pool_mode=session").open());
}

/// A neighbour notifies by the server connection that a listener gets next, before the shared connection has received it.
#[test]
fn a_notification_of_another_client_by_the_same_server_has_its_own_process() {
    let stage = shared();
    let (mut client, mut other) = (stage.client(), stage.client());
    client.ok("LISTEN a");
    for round in 0..200 {
        other.ok(&format!("NOTIFY a, 'other {round}'"));
        let mut all = heard(&client.ok(&format!("NOTIFY a, 'own {round}'")).0);
        while all.len() < 2 {
            all.extend(receive(&mut client, 1));
        }
        for heard in all {
            let own = heard.payload.starts_with("own");
            assert_eq!(own, heard.process == client.process(), "{heard:?}");
        }
    }
}
