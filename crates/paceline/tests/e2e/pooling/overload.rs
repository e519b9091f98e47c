//! Overload: however many clients wait, all are served, in order of arrival, without errors.

use super::{await_waiting, stage};
use crate::harness::message::{query, startup};
use crate::harness::raw::{PROTOCOL, RawClient};
use crate::harness::stage::counters;
use crate::harness::until;

/// Clients for a pool of two.
const CLIENTS: usize = 1_200;

#[test]
fn requests_are_served_in_order_of_arrival_however_many_wait() {
    let Some(stage) = stage(&["default_pool_size=2"], "") else {
        return;
    };
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE served (place int GENERATED ALWAYS AS IDENTITY, client int)");
    let mut holders = stage.clients(2);
    for holder in &mut holders {
        holder.ok("BEGIN");
        holder.ok("SELECT 1");
    }
    let mut clients = stage.clients(CLIENTS);
    let mut status = stage.client();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&query(&format!(
            "BEGIN; INSERT INTO served (client) VALUES ({number}); COMMIT"
        )));
        until("it is in the line", || {
            counters(&mut status).waiting == number as i64 + 1
        });
    }
    // One connection serves them all: on two their order would be PostgreSQL's.
    holders[0].ok("COMMIT");
    for client in &mut clients {
        client.reply().expect_ok("a unit of the crowd");
    }
    holders[1].ok("COMMIT");
    await_waiting(&stage, 0);
    let disorder = "SELECT count(*) FROM served WHERE place <> client + 1";
    assert_eq!(direct.number(disorder), 0);
    assert_eq!(direct.number("SELECT count(*) FROM served"), CLIENTS as i64);
}

/// All clients have connected and sent their startup packets before one of them reads an answer.
#[test]
fn eight_thousand_clients_at_once_are_served() {
    let Some(stage) = stage(&[], "") else { return };
    let crowd = 8_000.min(open_files().saturating_sub(500));
    eprintln!("{crowd} clients");
    let parameters = [("user", "postgres"), ("database", stage.database.as_str())];
    let knocks = (0..crowd).map(|_| {
        let mut client = RawClient::open(stage.port());
        client.send(&startup(PROTOCOL, &parameters));
        client
    });
    let mut clients: Vec<RawClient> = knocks.collect();
    for client in &mut clients {
        let told = client.reply();
        assert!(told.error().is_none(), "{told:?}");
    }
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&query(&format!("SELECT {number}")));
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(
            client.reply().expect_ok("one of many").value(),
            number.to_string()
        );
    }
}

/// Raises this process's limit of open files to the maximum, and returns it.
fn open_files() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let all = rustix::process::Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, all).unwrap();
    limit
        .maximum
        .map_or(usize::MAX, |most| usize::try_from(most).unwrap())
}
