//! Overload is not ill health: however many wait, all are served, first come first served, and none in error.

use super::{await_waiting, stage};
use crate::harness::message::query;
use crate::harness::stage::counters;
use crate::harness::until;

/// Clients for a pool of two.
const CLIENTS: usize = 1_200;

#[test]
fn whoever_comes_first_is_served_first_however_many_wait() {
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
        until("it stands in the line", || {
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
