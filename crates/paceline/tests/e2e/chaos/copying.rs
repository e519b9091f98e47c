//! Clients that copy rows to and from a table by the simple protocol, and record the answers.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::clients::{Load as Shared, RETRY};
use super::copies::{Ending, Load, Outcome, Reading, by_tag};
use crate::harness::message::{copy_data, copy_done, copy_fail, query};
use crate::harness::raw::{Lost, RawClient};
use crate::harness::{Reply, Rng};

const COPY: &str = "COPY loaded FROM STDIN";
/// The number of rows of a COPY that takes longer.
const MANY_ROWS: i64 = 300;

/// The longest time between two COPY of a client, so that the others have the server connections most of the time.
const THINKING_MS: usize = 120;

/// Messages, and the answer that they must get, as [`said`] returns it.
struct Step {
    bytes: Vec<u8>,
    answer: String,
}

/// One client.
pub(crate) fn work(shared: &Shared, port: u16, mut rng: Rng) {
    let parameters = [("user", "postgres"), ("database", "postgres")];
    let mut session = None;
    while !shared.stop.load(Ordering::SeqCst) {
        session = session.or_else(|| RawClient::try_connect(port, &parameters).ok());
        session = match session {
            None => {
                thread::sleep(RETRY);
                None
            }
            Some(client) if rng.chance(70) => load(shared, client, &mut rng),
            Some(client) => read(shared, client, &mut rng),
        };
        thread::sleep(Duration::from_millis(rng.below(THINKING_MS) as u64));
    }
}

/// Loads rows. Returns the client if its connection can be used again.
fn load(shared: &Shared, mut client: RawClient, rng: &mut Rng) -> Option<RawClient> {
    let endings = [
        Ending::Commit,
        Ending::Commit,
        Ending::Commit,
        Ending::Rollback,
        Ending::CopyFail,
        Ending::BadRow,
    ];
    let is_long = rng.chance(10);
    let mut load = Load {
        tag: shared.ledger.tag(),
        rows: rng.between(1, if is_long { MANY_ROWS } else { 6 }) as i32,
        ending: *rng.pick(&endings),
        asked: false,
        ended: 0,
        outcome: Outcome::Unknown,
    };
    let steps = steps(&load, rng);
    let killed = (rng.below(1_000) < shared.kills).then(|| rng.below(steps.len()));
    let reply = carry_out(&mut client, &steps, &mut load, killed, rng);
    load.ended = shared.ledger.tick();
    shared.copies.add(load);
    // If a transaction is still open, the end of the connection ends it.
    (reply.ok()?.status() == 'I').then_some(client)
}

/// Sends the steps and records the outcome. A client that is killed has sent a part of a step's bytes.
fn carry_out(
    client: &mut RawClient,
    steps: &[Step],
    load: &mut Load,
    killed: Option<usize>,
    rng: &mut Rng,
) -> Result<Reply, Lost> {
    let mut last = Reply(Vec::new());
    for (number, step) in steps.iter().enumerate() {
        let is_last = number + 1 == steps.len();
        if killed == Some(number) {
            let count = rng.below(step.bytes.len() + 1);
            load.asked = is_last && count == step.bytes.len();
            let _ = client.try_send(&step.bytes[..count]);
            return Err(Lost);
        }
        load.asked = is_last;
        client.try_send(&step.bytes).map_err(|_| Lost)?;
        last = receive(client)?;
        let said = said(&last);
        if said != step.answer {
            load.outcome = match last.error() {
                Some(_) if said.starts_with("08") || said.starts_with("57P") => Outcome::Unknown,
                Some(_) => Outcome::Refused(said),
                None => Outcome::Wrong(said),
            };
            return Ok(last);
        }
    }
    load.outcome = Outcome::AsAsked;
    Ok(last)
}

/// In autocommit, in a transaction, or in a text that is a transaction.
fn steps(load: &Load, rng: &mut Rng) -> Vec<Step> {
    let step = |bytes, answer: &str| Step {
        bytes,
        answer: answer.to_owned(),
    };
    let (data, copied) = rows(load, rng);
    let is_undone = load.ending != Ending::Commit;
    let end = match load.ending {
        Ending::Rollback => "ROLLBACK",
        _ => "COMMIT",
    };
    if rng.chance(20) {
        let text = format!("BEGIN; {COPY}; {end}");
        let is_rejected = matches!(load.ending, Ending::CopyFail | Ending::BadRow);
        let answer = if is_rejected { &copied } else { end };
        return vec![step(query(&text), "COPY IN"), step(data, answer)];
    }
    let copy = [step(query(COPY), "COPY IN"), step(data, &copied)];
    if load.ending != Ending::Rollback && rng.chance(50) {
        return copy.into();
    }
    let tag = if is_undone { "ROLLBACK" } else { "COMMIT" };
    let mut steps = vec![step(query("BEGIN"), "BEGIN")];
    steps.extend(copy);
    steps.push(step(query(end), tag));
    steps
}

/// The messages of COPY IN, and the answer to them. A CopyData need not end with a row.
fn rows(load: &Load, rng: &mut Rng) -> (Vec<u8>, String) {
    let row = |part| format!("{}\t{part}\t{}\n", load.tag, "x".repeat(rng.below(40)));
    let mut text: String = (1..=load.rows).map(row).collect();
    if load.ending == Ending::BadRow {
        text += "bad\t0\t\n";
    }
    let size = rng.between(1, 400) as usize;
    let mut bytes = text.as_bytes().chunks(size).flat_map(copy_data).collect();
    let (end, answer) = match load.ending {
        Ending::CopyFail => (copy_fail("the client gives up"), "57014".to_owned()),
        Ending::BadRow => (copy_done(), "22P02".to_owned()),
        Ending::Commit | Ending::Rollback => (copy_done(), format!("COPY {}", load.rows)),
    };
    Vec::extend(&mut bytes, end);
    (bytes, answer)
}

/// Reads all rows. Returns the client if its connection can be used again.
fn read(shared: &Shared, mut client: RawClient, rng: &mut Rng) -> Option<RawClient> {
    let texts = [
        "COPY loaded (tag, part) TO STDOUT",
        "COPY (SELECT tag, part FROM loaded) TO STDOUT",
    ];
    let begun = shared.ledger.tick();
    client.try_send(&query(rng.pick::<&str>(&texts))).ok()?;
    if rng.below(1_000) < shared.kills {
        return None;
    }
    let reply = receive(&mut client).ok()?;
    let rows: Vec<(i32, i32)> = reply.0.iter().filter_map(row).collect();
    if reply.error().is_none() {
        assert_eq!(said(&reply), format!("COPY {}", rows.len()));
        shared.copies.add_reading(Reading {
            begun,
            ended: shared.ledger.tick(),
            rows: by_tag(rows.into_iter()),
        });
    }
    (reply.status() == 'I').then_some(client)
}

/// The two numbers of a CopyData.
fn row(message: &crate::harness::Message) -> Option<(i32, i32)> {
    let text = str::from_utf8(&message.body).ok()?;
    let (tag, part) = text.trim_end().split_once('\t')?;
    (message.tag == b'd').then(|| (tag.parse().unwrap(), part.parse().unwrap()))
}

/// The messages up to CopyInResponse or ReadyForQuery.
fn receive(client: &mut RawClient) -> Result<Reply, Lost> {
    let mut messages = Vec::new();
    loop {
        let message = client.try_receive()?;
        let is_last = matches!(message.tag, b'G' | b'Z');
        messages.push(message);
        if is_last {
            return Ok(Reply(messages));
        }
    }
}

/// `COPY IN`, an SQLSTATE, or the last command tag.
fn said(reply: &Reply) -> String {
    match reply.error() {
        Some(error) => error.sqlstate().to_owned(),
        None if reply.tags().ends_with('G') => "COPY IN".to_owned(),
        None => reply.tag(),
    }
}
