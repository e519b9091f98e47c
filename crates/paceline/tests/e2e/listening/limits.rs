//! Many channels, many notifications, and long texts.

use super::{heard, payloads, receive, rest, shared};
use crate::harness::Stage;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;

/// As in docs/listen.md.
const CHANNELS_MAX: usize = 10_000;

fn listens(prefix: &str, from: usize, to: usize) -> String {
    let statements: Vec<String> = (from..to).map(|n| format!("LISTEN {prefix}{n}")).collect();
    statements.join("; ")
}

/// In texts of 500.
fn listen_on(client: &mut RawClient, prefix: &str, count: usize) {
    for from in (0..count).step_by(500) {
        client.ok(&listens(prefix, from, from + 500));
    }
}

#[test]
fn a_transaction_does_not_exceed_the_limit_of_channels() {
    let stage = shared();
    if stage.target() == Target::Bare {
        return;
    }
    let mut client = stage.client();
    client.ok("BEGIN");
    listen_on(&mut client, "c", CHANNELS_MAX);
    client.simple("LISTEN more").expect_error("53400");
    client.ok("ROLLBACK");
    client.ok("BEGIN");
    listen_on(&mut client, "c", CHANNELS_MAX);
    // Those that it has count once.
    client.ok(&listens("c", 0, 500));
    client.ok("COMMIT");
    client.ok("LISTEN c1");
    client.ok("BEGIN; LISTEN c1; COMMIT");
    client.simple("LISTEN more").expect_error("53400");
    client.ok("UNLISTEN c1");
    client.ok("LISTEN more");
    assert_eq!(payloads(&heard(&client.ok("NOTIFY more, '1'").0)), ["1"]);
}

/// PostgreSQL looks through all channels for each that is left.
#[test]
fn channels_without_listeners_delay_no_client() {
    let stage = shared();
    let mut leaving = stage.clients(3);
    for (number, client) in leaving.iter_mut().enumerate() {
        listen_on(client, &format!("of_{number}_"), CHANNELS_MAX);
    }
    let mut client = stage.client();
    client.ok("LISTEN a");
    drop(leaving);
    for round in 0..50 {
        assert_eq!(heard(&client.ok("NOTIFY a").0).len(), 1, "{round}");
    }
}

/// The client receives notifications while further ones arrive.
#[test]
fn a_client_that_reads_receives_any_number_of_its_own() {
    const COUNT: usize = 200_000;
    let stage = shared();
    let mut client = stage.client();
    client.ok("LISTEN a");
    let sql = format!("SELECT count(pg_notify('a', g::text)) FROM generate_series(1, {COUNT}) g");
    let own = heard(&client.ok(&sql).0);
    assert_eq!(own.len(), COUNT);
    assert_eq!(own.last().unwrap().payload, COUNT.to_string());
}

/// Texts that are not parsed are refused if they might change the channels of a client that listens.
#[test]
fn long_texts_change_no_channels() {
    let stage = shared();
    if stage.target() == Target::Bare {
        return;
    }
    let pad = format!("/*{}*/", "x".repeat(400_000));
    let (mut client, mut observer) = (stage.client(), stage.direct());
    client.ok("LISTEN keep");
    for text in [
        format!("UNLISTEN keep; {pad} SELECT 1"),
        format!("{pad} SELECT 1; UNLISTEN keep"),
        format!("UNLISTEN *; {pad} SELECT 1"),
        format!("DISCARD ALL {pad}"),
        format!("BEGIN; UNLISTEN keep; {pad} ROLLBACK"),
        format!("LISTEN other {pad}"),
        format!("{pad} UNLISTEN keep"),
        format!("SELECT 1; -- {pad}\n UNLISTEN keep"),
    ] {
        client.simple(&text).expect_error("0A000");
    }
    client.ok(&format!("SELECT 1; {pad} SELECT 'unlisten', 'x; y'"));
    observer.ok("NOTIFY keep, '1'; NOTIFY other, '2'");
    assert_eq!(payloads(&rest(&mut client)), ["1"]);
}

/// In another encoding PostgreSQL truncates a name elsewhere.
#[test]
fn clients_of_a_database_in_another_encoding_listen_alone() {
    let mut stage = Stage::on_shared().set("listen_mode=shared").open();
    let name = format!("{}_latin1", stage.database);
    stage.direct().ok(&format!(
        "CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
    ));
    stage.database = name;
    let mut client = stage.client_with(&[("client_encoding", "UTF8")]);
    let channel = "é".repeat(40);
    client.ok(&format!("LISTEN \"{channel}\""));
    stage
        .client_with(&[("client_encoding", "UTF8")])
        .ok(&format!("NOTIFY \"{channel}\", 'here'"));
    assert_eq!(payloads(&receive(&mut client, 1)), ["here"]);
}
