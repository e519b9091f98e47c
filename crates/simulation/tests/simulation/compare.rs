//! Compares the simulated PostgreSQL with a real one: both get the same messages, and give the same answers.

use crate::history::{self, History};
use crate::postgres::answers::RealServer;
use crate::postgres::catalog::Catalog;
use crate::postgres::value::ANALYZED_AT;
use crate::program::LISTS;
use crate::random::Random;
use bytes::BytesMut;
use paceline_wire::backend::{self, tag};
use paceline_wire::{frame, frontend};
use std::rc::Rc;

/// Number of histories that are compared.
const HISTORIES: usize = 20;

/// 2020, in microseconds since 2000.
const TIME_MIN: i64 = 20 * 365 * 86_400 * 1_000_000;

#[test]
fn answers_are_those_of_postgresql() {
    let mut random = Random::new(paceline_testing::seed());
    let folder = tempfile::tempdir().unwrap();
    let (server, catalog) = crate::real_server(folder.path());
    let catalog = Rc::new(Catalog::asking(catalog));
    let mut messages = 0;
    for _ in 0..HISTORIES {
        let seed = random.next();
        let history = history::run_serially(seed, &catalog).unwrap();
        messages += compare(&history, &crate::socket(&server))
            .unwrap_or_else(|why| panic!("seed {seed:#x}: {why}"));
    }
    println!("{messages} messages of {HISTORIES} histories are the same");
}

/// Makes the tables as they are at the beginning of the history. (TRUNCATE would change the catalog.)
fn fill(real: &mut RealServer, history: &History) {
    real.ask("DELETE FROM lists");
    real.ask("DELETE FROM events");
    real.ask("DELETE FROM jobs");
    real.ask(&format!(
        "INSERT INTO lists SELECT n, '', 0 FROM generate_series(1, {LISTS}) AS n"
    ));
    real.ask(&format!(
        "INSERT INTO jobs SELECT n, 'job' FROM generate_series(1, {}) AS n",
        history.jobs
    ));
}

fn compare(history: &History, socket: &std::path::Path) -> Result<usize, String> {
    assert_eq!(
        history.captured.sessions, 1,
        "there is one server connection"
    );
    let mut real = RealServer::connect(socket, "postgres");
    fill(&mut real, history);
    drop(real);
    let mut real = RealServer::connect(socket, "postgres");
    let mut sent = history.captured.sent.clone();
    // The login.
    until_ready(&mut sent);
    let mut read = history.captured.read.clone();
    let mut batch = BytesMut::new();
    let mut compared = 0;
    while let Some((kind, message)) = frame::split_message(&mut read).unwrap() {
        batch.extend_from_slice(&message);
        if kind != frontend::tag::SYNC && kind != frontend::tag::QUERY {
            continue;
        }
        real.send(&batch);
        let (simulated, real) = (until_ready(&mut sent), real.until_ready());
        let (simulated, real) = (
            simulated.iter().filter_map(shown),
            real.iter().filter_map(shown),
        );
        let (simulated, real): (Vec<_>, Vec<_>) = (in_order(simulated), in_order(real));
        if simulated != real {
            let batch = String::from_utf8_lossy(&batch);
            return Err(format!("{batch}\nsimulated: {simulated:?}\nreal: {real:?}"));
        }
        compared += real.len();
        batch.clear();
    }
    Ok(compared)
}

/// The messages; rows that follow one another are sorted, as no statement promises an order of several rows.
fn in_order(messages: impl Iterator<Item = (char, String)>) -> Vec<(char, String)> {
    let mut messages: Vec<_> = messages.collect();
    for run in messages.chunk_by_mut(|(one, _), (other, _)| *one == 'D' && *other == 'D') {
        run.sort();
    }
    messages
}

fn until_ready(bytes: &mut BytesMut) -> Vec<(u8, Vec<u8>)> {
    let mut messages = Vec::new();
    while let Some((kind, message)) = frame::split_message(bytes).unwrap() {
        if kind == tag::READY_FOR_QUERY {
            break;
        }
        messages.push((kind, message[frame::HEADER_LEN..].to_vec()));
    }
    messages
}

/// A row without the time at which PostgreSQL has analyzed its statement, which is the first value of a group's result.
fn without_time(body: &[u8]) -> Vec<u8> {
    let mut row = body.to_vec();
    let is_time = |value: &[u8]| {
        let time = value.try_into().map(i64::from_be_bytes);
        time.is_ok_and(|time| time == i64::MIN || time == ANALYZED_AT || time > TIME_MIN)
    };
    // The number of columns, the length of the first value, and that value.
    if let Some([0, 0, 0, 8, value @ ..]) = row.get_mut(2..14)
        && is_time(value)
    {
        value.fill(0);
    }
    row
}

/// A message as it is compared: of an error, the SQLSTATE.
fn shown((kind, body): &(u8, Vec<u8>)) -> Option<(char, String)> {
    let text = match *kind {
        tag::PARAMETER_STATUS | tag::NOTICE_RESPONSE => return None,
        tag::ERROR_RESPONSE => backend::error_field(body, b'C')
            .unwrap_or_default()
            .to_owned(),
        tag::ROW_DESCRIPTION => {
            let fields = backend::read_fields(body).unwrap();
            let fields = fields.iter().map(|field| {
                (
                    String::from_utf8_lossy(&field.name).into_owned(),
                    field.type_oid,
                )
            });
            format!("{:?}", fields.collect::<Vec<_>>())
        }
        tag::DATA_ROW => String::from_utf8_lossy(&without_time(body)).into_owned(),
        _ => String::from_utf8_lossy(body).into_owned(),
    };
    Some((char::from(*kind), text))
}
