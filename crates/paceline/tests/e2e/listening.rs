//! `LISTEN` by one server connection for all clients of a database (`listen_mode = "shared"`), beside bare PostgreSQL.

mod limits;
mod loss;
mod many;
mod markers;
mod processes;
mod servers;
mod stories;

use crate::harness::Stage;
use crate::harness::raw::RawClient;
use crate::harness::reply::Message;

/// A pool of one server connection, which no client may keep.
fn shared() -> Stage {
    Stage::on_shared()
        .set("default_pool_size=1")
        .set("listen_mode=shared")
        .open()
}

/// A notification.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Heard {
    process: u32,
    channel: String,
    payload: String,
}

fn read(message: &Message) -> Option<Heard> {
    if message.tag != b'A' {
        return None;
    }
    let (process, rest) = message.body.split_at(4);
    let mut texts = rest.split(|byte| *byte == 0);
    let mut text = || String::from_utf8(texts.next().unwrap().to_vec()).unwrap();
    Some(Heard {
        process: u32::from_be_bytes(process.try_into().unwrap()),
        channel: text(),
        payload: text(),
    })
}

/// The notifications among messages.
fn heard(messages: &[Message]) -> Vec<Heard> {
    messages.iter().filter_map(read).collect()
}

fn payloads(heard: &[Heard]) -> Vec<&str> {
    heard.iter().map(|heard| heard.payload.as_str()).collect()
}

/// All that the client has not read of what was committed before: a session gets its own notification behind those, and
/// before its ReadyForQuery.
#[track_caller]
fn rest(client: &mut RawClient) -> Vec<Heard> {
    let mut all = heard(&client.ok("LISTEN fence").0);
    all.extend(heard(&client.ok("NOTIFY fence, 'here'").0));
    let last = all.pop();
    assert_eq!(last.map(|heard| heard.payload), Some("here".to_owned()));
    all.extend(heard(&client.ok("UNLISTEN fence").0));
    all
}

/// This many notifications, in or between answers.
#[track_caller]
fn receive(client: &mut RawClient, count: usize) -> Vec<Heard> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(read(&client.receive()));
    }
    all
}

/// Connections that listen for clients.
fn connections(observer: &mut RawClient) -> i64 {
    observer.number(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'paceline: LISTEN' AND datname = current_database()",
    )
}
