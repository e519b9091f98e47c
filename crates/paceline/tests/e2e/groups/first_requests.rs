//! Requests that enter the line before the first analysis of their template ends: they leave in groups as soon as it has ended, in
//! order of arrival.

use std::collections::BTreeSet;

use super::{ask, sorted};
use crate::harness::message::query;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Gate, Reply, Stage, assert_same};

const CLIENTS: usize = 40;

const SETUP: &str = "
    CREATE TABLE hot (id int PRIMARY KEY, n numeric NOT NULL CHECK (n >= 0));
    CREATE TABLE job (id int PRIMARY KEY);
    CREATE TABLE note (id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, text text NOT NULL)";

const FILL: &str = "
    TRUNCATE hot, job; TRUNCATE note RESTART IDENTITY;
    INSERT INTO hot SELECT i, 10 FROM generate_series(0, 9) i;
    INSERT INTO job SELECT generate_series(1, 100)";

const CONTENT: &str = "SELECT 'hot', id, n::text FROM hot UNION ALL SELECT 'job', id, '' FROM job
    UNION ALL SELECT 'note', id, text FROM note ORDER BY 1, 2";

fn stage() -> Stage {
    let stage = Stage::for_groups();
    stage.direct().ok(SETUP);
    stage.direct().ok(FILL);
    stage
}

/// Sends each request on a connection of its own while the only server connection is held up, and returns the answers.
#[track_caller]
fn together(stage: &Stage, requests: &[Vec<u8>]) -> Vec<Reply> {
    let mut clients = stage.clients(requests.len());
    let mut gate = Gate::close(stage);
    for (client, request) in clients.iter_mut().zip(requests) {
        gate.submit(client, request);
    }
    gate.open();
    clients.iter_mut().map(RawClient::reply).collect()
}

/// Compares requests that arrive together with the same requests one by one on bare PostgreSQL. Returns how many groups they
/// were, of how many members, and how many members ran again.
#[track_caller]
fn compare(label: &str, requests: &[Vec<u8>]) -> (i64, i64, i64) {
    let stage = stage();
    let replies = together(&stage, requests);
    let mut bare = stage.direct();
    let left = bare.ok(CONTENT).rows();
    bare.ok(FILL);
    for (number, (request, reply)) in requests.iter().zip(&replies).enumerate() {
        let alone = bare.ask(request);
        let label = format!("{label}: request {number}");
        assert_same(&label, &sorted(&alone), &sorted(reply));
    }
    assert_eq!(bare.ok(CONTENT).rows(), left, "{label}");
    let counters = stage.counters();
    (counters.groups, counters.members, counters.fallbacks)
}

#[track_caller]
fn assert_groups(label: &str, requests: &[Vec<u8>], groups: (i64, i64, i64)) {
    let found = compare(label, requests);
    let bare = Target::chosen() == Target::Bare;
    assert!(bare || found == groups, "{label}: {found:?}");
}

/// Only the first request runs alone: its client analyzes the template.
#[test]
fn new_clients_are_one_group_after_the_first_analysis() {
    let statements = [
        "UPDATE hot SET n = n + 1 WHERE id = 1 RETURNING n",
        "UPDATE hot SET n = n + 1 WHERE id = ? RETURNING n",
        "INSERT INTO hot VALUES (?, 1) ON CONFLICT (id) DO UPDATE SET n = hot.n + EXCLUDED.n RETURNING n",
        "INSERT INTO note (text) VALUES ('?') RETURNING id",
        "DELETE FROM job WHERE id = (SELECT id FROM job ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id",
    ];
    for sql in statements {
        for prepared in [false, true] {
            let sql = match prepared {
                true => sql.replace("'?'", "?"),
                false => sql.to_owned(),
            };
            let requests: Vec<_> = (0..CLIENTS)
                .map(|number| ask(&sql, number, prepared))
                .collect();
            assert_groups(&sql, &requests, (1, CLIENTS as i64 - 1, 0));
        }
    }
}

/// `now()` shows which reads were one transaction.
#[test]
fn new_clients_share_a_read_after_the_first_analysis() {
    let sql = "SELECT now(), n FROM hot WHERE id = ?";
    for prepared in [false, true] {
        let stage = stage();
        let requests = vec![ask(sql, 1, prepared); CLIENTS];
        let replies = together(&stage, &requests);
        let times: BTreeSet<String> = replies.iter().map(Reply::value).collect();
        let transactions = match stage.target() {
            Target::Paceline => 2,
            Target::Bare => CLIENTS,
        };
        assert_eq!(times.len(), transactions, "prepared: {prepared}");
    }
}

/// Each request waits for several rows. Groups have no row in common.
#[test]
fn new_clients_with_several_rows_keep_the_order_of_each_row() {
    let upsert = |number: usize| {
        let rows = [number % 5, 5 + number % 3];
        let values = rows.map(|id| format!("({id}, {number})")).join(", ");
        query(&format!(
            "INSERT INTO hot VALUES {values} ON CONFLICT (id) DO UPDATE SET n = EXCLUDED.n RETURNING id, n"
        ))
    };
    let requests: Vec<_> = (0..CLIENTS).map(upsert).collect();
    let (_, members, _) = compare("rows", &requests);
    let bare = Target::chosen() == Target::Bare;
    assert!(bare || members > 0, "{members} members");
}

/// The analyses of the templates end one after the other, so that requests of the later templates get places among those of the
/// earlier ones.
#[test]
fn requests_of_several_templates_keep_their_places() {
    let changes = ["n + 1", "n * 2", "n + 3", "(n + 1) * 3"];
    for run in 1..5 {
        for prepared in [false, true] {
            let request = |number: usize| {
                let change = changes[number / run % changes.len()];
                let sql = format!("UPDATE hot SET n = {change} WHERE id = 1 RETURNING n");
                ask(&sql, number, prepared)
            };
            let requests: Vec<_> = (0..CLIENTS).map(request).collect();
            compare(&format!("{run} by {run}"), &requests);
        }
    }
}

/// The first request's client does not analyze the template, because its request has failed. The next one does.
#[test]
fn if_the_first_request_fails_the_next_client_analyzes_the_template() {
    let request = |number: usize| {
        let by = usize::from(number > 0);
        query(&format!(
            "UPDATE hot SET n = n + 10 / {by} WHERE id = 1 RETURNING n"
        ))
    };
    let requests: Vec<_> = (0..CLIENTS).map(request).collect();
    assert_groups("the first fails", &requests, (1, CLIENTS as i64 - 2, 0));
}

/// A request that leaves alone after it was decided again must change exactly one row, too.
#[test]
fn hints_hold_for_requests_that_were_decided_again() {
    let stage = stage();
    if stage.target() == Target::Bare {
        return;
    }
    let request = |number: usize| {
        let id = [1, 99][number / 2 % 2];
        let change = ["n + 1", "n + 2"][number % 2];
        query(&format!(
            "UPDATE /*+ COMMIT_ON_SUCCESS TARGET_AFFECT_ROW(1) */ hot SET n = {change} WHERE id = {id} RETURNING n"
        ))
    };
    let requests: Vec<_> = (0..CLIENTS).map(request).collect();
    let replies = together(&stage, &requests);
    let mut n = 10;
    for (number, reply) in replies.iter().enumerate() {
        if number / 2 % 2 == 1 {
            assert_eq!(reply.sqlstate(), "21000", "request {number}: {reply:#?}");
            continue;
        }
        n += 1 + number % 2;
        assert_eq!(reply.value(), n.to_string(), "request {number}");
    }
}

/// Without `hotspot_for_autocommit` the requests run alone, and each is counted as one that could have been grouped.
#[test]
fn requests_that_would_group_are_counted_when_they_are_decided_again() {
    let stage = Stage::on_shared().set("default_pool_size=1").open();
    stage.direct().ok(SETUP);
    stage.direct().ok(FILL);
    let request = query("UPDATE hot SET n = n + 1 WHERE id = 1 RETURNING n");
    let replies = together(&stage, &vec![request; CLIENTS]);
    for (n, reply) in (11..).zip(&replies) {
        assert_eq!(reply.value(), n.to_string());
    }
    let expected = match stage.target() {
        Target::Paceline => (0, CLIENTS as i64 - 1),
        Target::Bare => (0, 0),
    };
    let counters = stage.counters();
    let found = (counters.members, counters.would_have_grouped);
    assert_eq!(found, expected, "{counters:?}");
}
