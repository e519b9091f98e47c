//! Protocol scripts: the same bytes to bare PostgreSQL and through Paceline, the answers compared message by message.
//! Once with grouping off, and once with several clients in lockstep whose requests are forced into groups.

mod extended;
mod script;
mod simple;
mod special;
mod updates;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::harness::raw::RawClient;
use crate::harness::reply::Message;
use crate::harness::stage::Target;
use crate::harness::{Gate, Stage, assert_same};
use script::{Script, Step};

/// The database at the start of every script.
const SETUP: &str = "
    DROP SCHEMA public CASCADE;
    CREATE SCHEMA public;
    CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL CHECK (n >= 0), s text, d numeric(8,2));
    INSERT INTO t SELECT i, i * 10, 'row ' || i, i * 1.5 FROM generate_series(1, 5) i;
    CREATE TABLE pair (a int, b text, n bigint, PRIMARY KEY (a, b));
    INSERT INTO pair VALUES (1, 'x', 100), (1, 'y', 200), (2, 'x', 300);
    CREATE TABLE part (id int PRIMARY KEY, n int) PARTITION BY HASH (id);
    CREATE TABLE part0 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE TABLE part1 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 1);
    INSERT INTO part SELECT i, i FROM generate_series(1, 8) i;
";
/// The final state, as far as scripts change it.
const STATE: [&str; 3] = [
    "TABLE t ORDER BY id",
    "TABLE pair ORDER BY a, b",
    "TABLE part ORDER BY id",
];
/// Clients in lockstep.
const RIDERS: usize = 4;

fn scripts() -> Vec<Script> {
    [
        simple::scripts(),
        extended::scripts(),
        special::scripts(),
        updates::scripts(),
    ]
    .concat()
}

/// Runs `script` on one client and returns all answers, then the final state.
fn perform(script: &Script, client: &mut RawClient, direct: &mut RawClient) -> Vec<Message> {
    let mut messages = Vec::new();
    for (number, step) in script.steps.iter().enumerate() {
        println!("{}, step {number}", script.name);
        client.send(&step.bytes);
        messages.extend(step.stop.collect(client));
    }
    messages.extend(state(direct));
    messages
}

fn state(direct: &mut RawClient) -> Vec<Message> {
    STATE.iter().flat_map(|sql| direct.ok(sql).0).collect()
}

/// Maximum number of failures: further ones would show nothing new, and each may take as long as the limit.
const FAILURES_MAX: usize = 4;

/// Checks every script, also behind one that has failed, and then fails with the names of those that did.
#[track_caller]
fn check_each(scripts: &[Script], check: impl Fn(&Script)) {
    let failed: Vec<&str> = scripts
        .iter()
        .filter(|script| catch_unwind(AssertUnwindSafe(|| check(script))).is_err())
        .map(|script| script.name)
        .take(FAILURES_MAX)
        .collect();
    assert!(
        failed.is_empty(),
        "these scripts fail, if not more: {failed:?}"
    );
}

#[track_caller]
fn compare_alone(stage: &Stage) {
    check_each(&scripts(), |script| {
        let mut direct = stage.direct();
        direct.ok(SETUP);
        let bare = perform(script, &mut stage.direct(), &mut direct);
        direct.ok(SETUP);
        let paceline = perform(script, &mut stage.client(), &mut direct);
        assert_same(script.name, &bare, &paceline);
    });
}

#[test]
fn answers_are_those_of_postgresql() {
    compare_alone(&Stage::on_shared().open());
}

#[test]
fn answers_on_one_server_connection_are_those_of_postgresql() {
    compare_alone(&Stage::for_groups());
}

/// Every client runs the step, in order.
fn in_turn(step: &Step, clients: &mut [RawClient]) -> Vec<Message> {
    let mut messages = Vec::new();
    for client in clients {
        client.send(&step.bytes);
        messages.extend(step.stop.collect(client));
    }
    messages
}

/// Every client's step is in the line before the first leaves.
fn together(stage: &Stage, step: &Step, clients: &mut [RawClient]) -> Vec<Message> {
    let mut gate = Gate::close(stage);
    for client in &mut *clients {
        gate.submit(client, &step.bytes);
    }
    gate.open();
    clients
        .iter_mut()
        .flat_map(|client| step.stop.collect(client))
        .collect()
}

#[test]
fn answers_in_lockstep_are_those_of_postgresql() {
    let stage = Stage::for_groups();
    let scripts: Vec<Script> = scripts()
        .into_iter()
        .filter(|script| script.lockstep)
        .collect();
    check_each(&scripts, |script| compare_in_lockstep(&stage, script));
    stage.assert_grouped(20, RIDERS as i64);
}

#[track_caller]
fn compare_in_lockstep(stage: &Stage, script: &Script) {
    let mut direct = stage.direct();
    direct.ok(SETUP);
    let mut clients: Vec<_> = (0..RIDERS).map(|_| stage.direct()).collect();
    let bare: Vec<_> = script
        .steps
        .iter()
        .map(|step| in_turn(step, &mut clients))
        .collect();
    let left_by_postgresql = state(&mut direct);
    direct.ok(SETUP);
    let mut clients = stage.clients(RIDERS);
    for (number, (step, bare)) in script.steps.iter().zip(&bare).enumerate() {
        let paceline = together(stage, step, &mut clients);
        assert_same(&format!("{}, step {number}", script.name), bare, &paceline);
    }
    assert_same(script.name, &left_by_postgresql, &state(&mut direct));
}

/// A client gets at login the same parameters as from PostgreSQL, its key, and ReadyForQuery.
#[test]
fn login_tells_what_postgresql_tells() {
    let stage = Stage::on_shared().open();
    let (bare, client) = (stage.direct(), stage.client());
    assert_eq!(bare.parameters, client.parameters);
    assert_eq!(client.key.len(), 8);
    if stage.target() == Target::Paceline {
        // And the second client, after Paceline has cached the parameters, gets the same.
        assert_eq!(stage.client().parameters, bare.parameters);
    }
}
