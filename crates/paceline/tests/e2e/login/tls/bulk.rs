//! Megabytes over TLS on both sides, and connections that end in the middle.

use crate::harness::message::{self, unit};
use crate::harness::paceline::Paceline;
use crate::harness::until;

use super::{before, cluster, for_clients, line};

/// Answers of this size do not fit into sockets and buffers together.
const VALUE_BYTES: usize = 30_000;
const VALUES: usize = 300;

fn paceline() -> Paceline {
    let builder = for_clients(before("", "sslmode=require"), "require");
    builder.set("default_pool_size=1").spawn()
}

#[test]
fn a_pipeline_of_large_answers_comes_back() {
    let paceline = paceline();
    let mut client = line::client(paceline.port());
    let values: Vec<String> = (0..VALUES).map(|i| i.to_string()).collect();
    let length = VALUE_BYTES.to_string();
    for value in &values {
        client.send(&unit(
            "SELECT lpad($1, $2::int, '-')",
            &[Some(value), Some(&length)],
        ));
    }
    for value in &values {
        let answer = client.reply().expect_ok("a read").value();
        assert_eq!(
            (answer.len(), answer.trim_start_matches('-')),
            (VALUE_BYTES, value.as_str())
        );
    }
}

#[test]
fn copy_carries_megabytes_in_and_out() {
    let paceline = paceline();
    let mut client = line::client(paceline.port());
    client.ok("CREATE UNLOGGED TABLE bulk (id int, text text)");
    client.send(&message::query("COPY bulk FROM STDIN"));
    client.receive_until(b"G");
    for id in 0..VALUES {
        let line = format!("{id}\t{}\n", id.to_string().repeat(VALUE_BYTES / 3));
        client.send(&message::copy_data(line.as_bytes()));
    }
    client.send(&message::copy_done());
    client.reply().expect_ok("COPY FROM");

    let out = client.ok("COPY (SELECT * FROM bulk ORDER BY id) TO STDOUT");
    let rows = out.0.iter().filter(|message| message.tag == b'd');
    let rows: Vec<&str> = rows
        .map(|row| std::str::from_utf8(&row.body).unwrap())
        .collect();
    assert_eq!(rows.len(), VALUES);
    for (id, row) in rows.iter().enumerate() {
        let expected = format!("{id}\t{}\n", id.to_string().repeat(VALUE_BYTES / 3));
        assert!(*row == expected, "row {id}");
    }
    client.ok("DROP TABLE bulk");
}

/// As without TLS: the unit is carried out, and its connection serves the next one.
#[test]
fn who_is_cut_has_its_unit_carried_out() {
    let paceline = paceline();
    let mut observer = cluster().client("postgres");
    observer.ok("CREATE TABLE cut (n int)");
    let (mut client, socket) = line::client_and_socket(paceline.port());
    client.send(&message::query("INSERT INTO cut SELECT 1 FROM pg_sleep(0)"));
    line::cut(&socket);
    until("it is carried out", || {
        observer.number("SELECT count(*) FROM cut") == 1
    });
    assert_eq!(
        line::client(paceline.port()).value("SELECT 'served'"),
        "served"
    );
}

/// Who says goodbye in TLS, but leaves the socket open, has left all the same.
#[test]
fn who_says_goodbye_gives_its_transaction_up() {
    let paceline = paceline();
    let mut client = line::client(paceline.port());
    client.ok("BEGIN");
    let mut next = line::client(paceline.port());
    next.send(&message::query("SELECT 'served'"));
    client.hang_up();
    assert_eq!(next.reply().expect_ok("a read").value(), "served");
}

/// An answer that nobody reads any more, in the middle of it.
#[test]
fn who_leaves_in_an_answer_leaves_the_connection() {
    let paceline = paceline();
    let (mut client, socket) = line::client_and_socket(paceline.port());
    client.send(&message::query(
        "SELECT repeat('x', 1000) FROM generate_series(1, 100000)",
    ));
    client.receive_until(b"D");
    line::cut(&socket);
    assert_eq!(
        line::client(paceline.port()).value("SELECT 'served'"),
        "served"
    );
}
