//! Clients that disconnect: in the line, after their group has started, in a transaction, in the middle of a message.

use super::{BUMP, Neighbour, n, stage};
use crate::harness::gate::lock_waiters;
use crate::harness::message::{copy_data, query, terminate};
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Gate, until};

/// A request whose client disconnects while it is in the line is never executed.
#[test]
fn a_request_of_a_client_that_leaves_is_not_executed() {
    let stage = stage();
    if stage.target() == Target::Bare {
        return;
    }
    let mut gate = Gate::close(&stage);
    let mut staying = stage.clients(4);
    let mut leaving = stage.clients(4);
    for (stays, leaves) in staying.iter_mut().zip(&mut leaving) {
        gate.submit(leaves, &query(BUMP));
        gate.submit(stays, &query(BUMP));
    }
    for (number, mut client) in leaving.into_iter().enumerate() {
        if number % 2 == 0 {
            client.send(&terminate());
        }
        drop(client);
        gate.await_line(7 - number as i64);
    }
    gate.open();
    for (number, client) in staying.iter_mut().enumerate() {
        assert_eq!(client.reply().value(), (number + 1).to_string());
    }
    assert_eq!(n(&stage), 4);
}

/// A client that leaves while its statement runs inside PostgreSQL: the neighbours get the server connection.
#[test]
fn a_client_that_leaves_while_its_request_runs_delays_no_other() {
    let stage = stage();
    let mut neighbour = Neighbour::on(&stage);
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; UPDATE t SET n = 0 WHERE id = 2");
    let mut client = stage.client();
    client.send(&query("UPDATE t SET n = n + 1 WHERE id = 2"));
    let mut observer = stage.direct();
    until("the statement waits", || lock_waiters(&mut observer) == 1);
    drop(client);
    outsider.ok("COMMIT");
    neighbour.check();
    neighbour.check();
}

/// If a client disconnects during an answer that never ends, Paceline does not wait for the rest of it.
#[test]
fn a_client_that_leaves_during_an_endless_answer_returns_its_server() {
    let stage = stage();
    let mut client = stage.client();
    client.send(&query(
        "SELECT generate_series(1, 1000000000000), repeat('x', 1000)",
    ));
    client.try_receive().expect("the columns");
    drop(client);
    let mut neighbour = stage.client();
    assert_eq!(neighbour.value("SELECT 7"), "7");
}

#[test]
fn a_client_that_leaves_during_a_transaction_rolls_it_back() {
    let stage = stage();
    let mut neighbour = Neighbour::on(&stage);
    for ending in ["UPDATE t SET n = 1000 WHERE id = 1", "SELECT 1/0"] {
        let mut client = stage.client();
        client.ok("BEGIN; UPDATE t SET n = 500 WHERE id = 1");
        client.simple(ending);
        drop(client);
        neighbour.check();
        assert_eq!(n(&stage), 0);
    }
}

#[test]
fn a_client_that_leaves_during_copy_copies_nothing() {
    let stage = stage();
    let mut neighbour = Neighbour::on(&stage);
    let mut client = stage.client();
    client.send(&query("COPY t FROM STDIN"));
    assert_eq!(client.receive().tag, b'G');
    client.send(&copy_data(b"50\t1\n51\t"));
    drop(client);
    neighbour.check();
    assert_eq!(stage.direct().number("SELECT count(*) FROM t"), 5);
}

#[test]
fn a_client_that_leaves_during_a_message_is_removed() {
    let stage = stage();
    let mut neighbour = Neighbour::on(&stage);
    let message = query(BUMP);
    for length in 0..message.len() {
        let mut client = stage.client();
        client.send(&message[..length]);
    }
    neighbour.check();
    assert_eq!(n(&stage), 0);
}

#[test]
fn a_large_result_that_is_not_read_delays_no_other_client() {
    let stage = crate::harness::Stage::on_shared()
        .set("default_pool_size=2")
        .open();
    let mut neighbour = Neighbour::on(&stage);
    let mut client = stage.client();
    client.send(&query(
        "SELECT repeat('x', 1000) FROM generate_series(1, 200000)",
    ));
    client.receive();
    for _ in 0..50 {
        neighbour.check();
    }
    drop(client);
    neighbour.check();
}

/// Some answers are in the buffers of the sockets, of others Paceline keeps the rest, and of the longest ones the server has not sent all.
#[test]
fn clients_that_do_not_read_are_disconnected_with_their_database() {
    const SIZES: usize = 12;
    let stage = crate::harness::Stage::on_shared()
        .set("admin_users=boss")
        .open();
    if stage.target() == Target::Bare {
        return;
    }
    let mut clients = stage.clients(SIZES);
    for (number, client) in clients.iter_mut().enumerate() {
        let size = (number + 1) * 400_000;
        client.send(&query(&format!("SELECT repeat('x', {size})")));
    }
    for client in &mut clients {
        client.receive_byte();
    }
    operator(&stage).ok(&format!("KILL {}", stage.database));
    await_clients(&stage, 0);
    drop(clients);
}

fn operator(stage: &crate::harness::Stage) -> RawClient {
    let parameters = [("user", "boss"), ("database", "pgbouncer")];
    RawClient::connect(stage.port(), &parameters)
}

/// Returns when this number of clients is connected, without the console's.
fn await_clients(stage: &crate::harness::Stage, number: usize) {
    let mut operator = operator(stage);
    until(&format!("{number} clients"), || {
        let clients = operator.ok("SHOW CLIENTS").rows();
        let of_stage =
            |row: &&Vec<Option<String>>| row.iter().flatten().any(|value| *value == stage.database);
        clients.iter().filter(of_stage).count() == number
    });
}
