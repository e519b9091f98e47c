//! The users' view of groups: `SHOW GROUPS`, whose numbers are compared with the executed requests.

use std::collections::HashMap;

use crate::harness::message::{bind, describe, execute, parse, query, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Gate, Reply, Stage, until};

const SETUP: &str = "
    CREATE TABLE stock (id int PRIMARY KEY, qty int NOT NULL CHECK (qty >= 0));
    INSERT INTO stock SELECT i, 10 FROM generate_series(1, 9) i;
    CREATE TABLE job (id bigserial PRIMARY KEY, done bool NOT NULL DEFAULT false);
    INSERT INTO job SELECT FROM generate_series(1, 20);
    CREATE TABLE note (id bigserial PRIMARY KEY, text text NOT NULL);";

const SELL: &str = "UPDATE stock SET qty = qty - 1 WHERE id = $1 RETURNING qty";
const POP: &str = "DELETE FROM job WHERE id = (SELECT id FROM job ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id";
const NOTE: &str = "INSERT INTO note (text) VALUES ($1)";
const READ: &str = "SELECT qty FROM stock WHERE id = $1";

/// One server connection; `None` when PostgreSQL is the target.
fn stage(settings: &[&str]) -> Option<Stage> {
    let builder = Stage::on_shared().set("default_pool_size=1");
    let stage = settings.iter().fold(builder, |b, set| b.set(set)).open();
    stage.direct().ok(SETUP);
    (stage.target() == Target::Paceline).then_some(stage)
}

/// Rows of `SHOW GROUPS` as maps from column to value, NULL left out.
type Rows = Vec<HashMap<String, String>>;

#[track_caller]
fn groups(client: &mut RawClient) -> Rows {
    let reply = client.ok("SHOW GROUPS");
    let columns = reply.0[0].columns();
    let row = |row: Vec<Option<String>>| {
        let values = columns.iter().cloned().zip(row);
        values
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    };
    reply.rows().into_iter().map(row).collect()
}

/// The named columns of the row of a template and a strategy, joined by a space; absent is `-`.
#[track_caller]
fn row(rows: &Rows, template: &str, strategy: &str, columns: &[&str]) -> String {
    let is =
        |row: &&HashMap<String, String>| row["template"] == template && row["strategy"] == strategy;
    let found: Vec<_> = rows.iter().filter(is).collect();
    let [found] = found.as_slice() else {
        panic!("{strategy} of {template}: {rows:#?}");
    };
    let values = columns
        .iter()
        .map(|name| found.get(*name).map_or("-", String::as_str));
    values.collect::<Vec<_>>().join(" ")
}

const GROUP: [&str; 8] = [
    "units",
    "groups",
    "mean_group",
    "largest_group",
    "travelled_together",
    "rows_written",
    "commits_saved",
    "would_have_grouped",
];

/// Sends each client's unit while the pool's connections wait, and returns when all are answered.
#[track_caller]
fn together(stage: &Stage, units: &[Vec<u8>]) {
    let mut clients = stage.clients(units.len());
    let mut gate = Gate::close(stage);
    for (client, unit) in clients.iter_mut().zip(units) {
        gate.submit(client, unit);
    }
    gate.open();
    for client in &mut clients {
        client.reply();
    }
}

fn sell(id: usize) -> Vec<u8> {
    unit(SELL, &[Some(&id.to_string())])
}

/// The first request of each template runs alone; then Paceline knows how the others run.
#[test]
fn groups_are_counted_by_template_and_strategy() {
    let Some(stage) = stage(&["hotspot_for_autocommit=on"]) else {
        return;
    };
    let mut client = stage.client();
    client.ask(&sell(1));
    client.ask(&unit(POP, &[]));
    client.ask(&unit(NOTE, &[Some("a")]));
    // Four on one row and two on others.
    together(&stage, &[1, 1, 2, 1, 3, 1].map(sell));
    together(&stage, &[1, 1].map(sell));
    together(&stage, &[(); 5].map(|()| unit(POP, &[])));
    together(
        &stage,
        &["b", "c", "d"].map(|text| unit(NOTE, &[Some(text)])),
    );
    let rows = groups(&mut client);
    assert_eq!(row(&rows, SELL, "fold", &GROUP), "8 2 4.0 6 0.889 4 6 -");
    assert_eq!(row(&rows, SELL, "solo", &GROUP), "1 - - - 0.889 - - 0");
    assert_eq!(row(&rows, POP, "take", &GROUP), "5 1 5.0 5 0.833 5 4 -");
    assert_eq!(row(&rows, NOTE, "merge", &GROUP), "3 1 3.0 3 0.750 3 2 -");
    assert!(
        rows.iter().all(|row| !row.contains_key("reason")),
        "{rows:#?}"
    );
    // The global counters, by template.
    let counters = stage.counters();
    assert_eq!((counters.groups, counters.members), (4, 16));
    let units: Vec<u64> = rows
        .iter()
        .map(|row| row["units"].parse().unwrap())
        .collect();
    assert!(units.is_sorted_by(|a, b| a >= b), "{units:?}");
}

#[test]
fn a_request_that_waits_for_the_first_analysis_can_be_cancelled() {
    let Some(stage) = stage(&["hotspot_for_autocommit=on"]) else {
        return;
    };
    let mut clients = stage.clients(4);
    let mut gate = Gate::close(&stage);
    for client in &mut clients {
        gate.submit(client, &sell(1));
    }
    clients[1].cancel();
    assert_eq!(clients[1].reply().sqlstate(), "57014");
    // The next one disconnects.
    drop(clients.remove(2));
    gate.open();
    clients[0].reply().expect_ok("the first");
    clients[2].reply().expect_ok("the last");
    let left = clients[1].ok("SELECT qty FROM stock WHERE id = 1");
    assert_eq!(left.rows(), [[Some("8".to_owned())]]);
}

/// By both protocols, in a transaction too, and even if no server connection is free.
#[test]
fn show_groups_is_answered_whatever_the_client_is_doing() {
    let Some(stage) = stage(&[]) else { return };
    let mut client = stage.client();
    client.ask(&sell(1));
    let gate = Gate::close(&stage);
    let simple = client.ok("show groups;");
    let messages = [
        parse("", "SHOW GROUPS", &[]),
        bind("", "", &[]),
        describe(b'P', ""),
        execute("", 0),
        sync(),
    ];
    let extended = client.ask(&messages.concat()).expect_ok("extended");
    gate.open();
    // The mean time of a request that has just ended may be another.
    let counts = |reply: &Reply| -> Vec<_> {
        reply
            .rows()
            .into_iter()
            .map(|row| row[..14].to_vec())
            .collect()
    };
    assert_eq!(counts(&simple), counts(&extended));
    client.ok("BEGIN");
    let inside = client.ok("SHOW GROUPS");
    assert_eq!((inside.status(), inside.0[0].columns().len()), ('T', 15));
    assert_eq!(inside.rows()[0].len(), 15);
    client.ok("COMMIT");
    // The statement of the gate's own client is a solo unit of the same pool.
    assert!(
        simple
            .rows()
            .iter()
            .any(|row| row[0].as_deref() == Some(SELL))
    );
}

#[test]
fn a_member_that_violates_a_constraint_is_counted_by_its_reason() {
    let Some(stage) = stage(&["hotspot_for_autocommit=on"]) else {
        return;
    };
    let mut client = stage.client();
    let take = |many: &str| {
        unit(
            "UPDATE stock SET qty = qty - $2 WHERE id = $1",
            &[Some("5"), Some(many)],
        )
    };
    client.ask(&take("0"));
    let mut clients = stage.clients(4);
    let mut gate = Gate::close(&stage);
    for (client, many) in clients.iter_mut().zip(["4", "4", "4", "1"]) {
        gate.submit(client, &take(many));
    }
    gate.open();
    let replies: Vec<_> = clients.iter_mut().map(RawClient::reply).collect();
    let states: Vec<String> = replies.iter().map(|reply| reply.sqlstate()).collect();
    assert_eq!(states, ["", "", "23514", ""]);
    let rows = groups(&mut client);
    let template = "UPDATE stock SET qty = qty - $2 WHERE id = $1";
    let columns = [
        "units",
        "groups",
        "rows_written",
        "commits_saved",
        "fallbacks",
    ];
    // The third one and the one behind it were returned to the line; both then ran alone.
    assert_eq!(row(&rows, template, "fold", &columns), "2 1 1 1 error=2");
    assert_eq!(stage.counters().fallbacks, 2);
    assert_eq!(row(&rows, template, "solo", &["units"]), "3");
}

#[test]
fn missing_rows_and_ddl_are_distinguished() {
    let Some(stage) = stage(&["hotspot_for_autocommit=on"]) else {
        return;
    };
    let mut client = stage.client();
    client.ask(&sell(1));
    // Two on row 1, two on a row that does not exist: the latter run again as a group of their own.
    together(&stage, &[1, 99, 1, 99].map(sell));
    let rows = groups(&mut client);
    let columns = ["units", "groups", "rows_written", "fallbacks"];
    assert_eq!(row(&rows, SELL, "fold", &columns), "4 2 1 busy=2");
    let mut direct = stage.direct();
    let mut clients = stage.clients(2);
    let mut gate = Gate::close(&stage);
    for client in &mut clients {
        gate.submit(client, &sell(2));
    }
    direct.ok("ALTER TABLE stock ADD CONSTRAINT few CHECK (qty < 1000)");
    gate.open();
    for client in &mut clients {
        client.reply().expect_ok("after DDL");
    }
    let rows = groups(&mut client);
    assert_eq!(row(&rows, SELL, "fold", &columns), "4 2 1 ddl=2 busy=2");
}

#[test]
fn the_gain_of_a_hint_is_shown() {
    let Some(stage) = stage(&[]) else { return };
    let mut client = stage.client();
    client.ask(&sell(1));
    client.ask(&unit("DELETE FROM note WHERE text = $1", &[Some("x")]));
    together(&stage, &[1, 1, 1].map(sell));
    let rows = groups(&mut client);
    let columns = [
        "units",
        "travelled_together",
        "would_have_grouped",
        "reason",
    ];
    assert_eq!(
        row(&rows, SELL, "solo", &columns),
        "4 0.000 3 it has no hint, and hotspot_for_autocommit is off"
    );
    assert_eq!(
        row(&rows, "DELETE FROM note WHERE text = $1", "solo", &columns),
        "1 0.000 0 no strategy rewrites statements of this form"
    );
    // With the hint they are grouped.
    let hinted = SELL.replace("UPDATE", "UPDATE /*+ COMMIT_ON_SUCCESS */");
    let ask = || unit(&hinted, &[Some("1")]);
    client.ask(&ask());
    together(&stage, &[(); 3].map(|()| ask()));
    let rows = groups(&mut client);
    assert_eq!(
        row(&rows, &hinted, "fold", &["units", "would_have_grouped"]),
        "3 -"
    );
    assert_eq!(
        row(
            &rows,
            &hinted,
            "solo",
            &["units", "would_have_grouped", "reason"]
        ),
        "1 0 -"
    );
}

#[test]
fn reads_run_in_pipelines_and_literals_are_no_template() {
    let Some(stage) = stage(&[]) else { return };
    let mut client = stage.client();
    let read = |id: usize| query(&READ.replace("$1", &id.to_string()));
    client.ask(&read(1));
    until("PostgreSQL has been asked", || {
        let shown = row(&groups(&mut client), READ, "solo", &["reason"]);
        shown != "PostgreSQL has not been asked about it yet"
    });
    let shown = row(&groups(&mut client), READ, "solo", &["units", "reason"]);
    assert_eq!(
        shown,
        "1 it is not known to be short: only identical reads run with it"
    );
    let runs = 1 + make_short(&mut client, &read(1));
    together(&stage, &[1, 2, 3, 3].map(read));
    let rows = groups(&mut client);
    let share = 4.0 / (4 + runs) as f64;
    let expected = format!("4 1 4.0 4 {share:.3} - - -");
    assert_eq!(row(&rows, READ, "pipeline", &GROUP), expected);
    assert_eq!(row(&rows, READ, "solo", &["units"]), runs.to_string());
}

/// Runs a read alone until it is known to be short; returns how often.
fn make_short(client: &mut RawClient, read: &[u8]) -> usize {
    let mut runs = 0;
    until("the read is known to be short", || {
        runs += 1;
        client.ask(read);
        row(&groups(client), READ, "solo", &["reason"]) == "-"
    });
    runs
}

/// The table is locked while a pipeline is on its way: its members need not wait for one another.
#[test]
fn reads_that_are_held_up_come_back_by_name() {
    let Some(stage) = stage(&[]) else { return };
    let mut client = stage.client();
    let read = |id: usize| query(&READ.replace("$1", &id.to_string()));
    let runs = make_short(&mut client, &read(1));
    let mut outsider = stage.direct();
    let mut clients = stage.clients(3);
    let mut gate = Gate::close(&stage);
    for (id, client) in (1..).zip(&mut clients) {
        gate.submit(client, &read(id));
    }
    outsider.ok("BEGIN; LOCK TABLE stock");
    gate.open();
    until("the pipeline has been given up", || {
        groups(&mut client).iter().any(|row| {
            row.get("fallbacks")
                .is_some_and(|fallbacks| fallbacks == "stalled=3")
        })
    });
    outsider.ok("COMMIT");
    for client in &mut clients {
        assert_eq!(client.reply().value(), "10");
    }
    let rows = groups(&mut client);
    assert_eq!(row(&rows, READ, "pipeline", &["units", "groups"]), "0 0");
    assert_eq!(stage.counters().fallbacks, 3);
    assert_eq!(row(&rows, READ, "solo", &["units"]), (runs + 3).to_string());
}

#[test]
fn transactions_are_leases() {
    let Some(stage) = stage(&[]) else { return };
    let mut client = stage.client();
    client.ok("BEGIN");
    client.ok("UPDATE stock SET qty = 1 WHERE id = 1");
    client.ok("COMMIT");
    client.ok("SELECT 1; SELECT 2");
    let rows = groups(&mut client);
    let leases: Vec<_> = rows
        .iter()
        .filter(|row| row["strategy"] == "lease")
        .collect();
    assert_eq!(leases.len(), 1);
    assert_eq!(leases[0]["units"], "2");
    assert_eq!(
        rows.len(),
        1,
        "what is in a transaction is the lease's: {rows:#?}"
    );
}

#[test]
fn another_users_statements_are_not_shown() {
    let Some(stage) = stage(&[]) else { return };
    let mut direct = stage.direct();
    let other = format!("other_{}", stage.database);
    direct.ok(&format!("CREATE ROLE {other} LOGIN"));
    let mut client = stage.client();
    client.ask(&sell(1));
    let parameters = [("user", other.as_str()), ("database", &stage.database)];
    let mut stranger = RawClient::connect(stage.port(), &parameters);
    stranger.ok("SELECT 17");
    let templates = |client: &mut RawClient| -> Vec<String> {
        let rows = groups(client).into_iter();
        rows.map(|mut row| row.remove("template").unwrap())
            .collect()
    };
    assert_eq!(templates(&mut stranger), ["SELECT $1"]);
    assert_eq!(templates(&mut client), [SELL]);
    // Nor those of another database.
    let parameters = [("user", "postgres"), ("database", "postgres")];
    let mut elsewhere = RawClient::connect(stage.port(), &parameters);
    assert!(templates(&mut elsewhere).is_empty());
    drop((client, stranger, elsewhere, stage));
    direct.ok(&format!("DROP ROLE {other}"));
}

/// They wait for further members when the connection that waits for them is lost: they leave once, on the next one.
#[test]
fn a_group_that_finds_no_connection_has_not_left() {
    let Some(stage) = stage(&[
        "hotspot_for_autocommit=on",
        "hotspot_update_max_wait_time=1s",
    ]) else {
        return;
    };
    stage.client().ask(&unit(SELL, &[Some("1")]));
    stage.await_analysis();
    let before = stage.counters();
    let mut clients = stage.clients(3);
    let mut direct = stage.direct();
    for client in &mut clients {
        client.send(&unit(SELL, &[Some("1")]));
    }
    until("all are held back", || stage.counters().waiting == 3);
    Stage::end_other_sessions(&mut direct);
    for client in &mut clients {
        assert_eq!(client.reply().error(), None);
    }
    let after = stage.counters();
    assert_eq!(after.groups, before.groups + 1);
    assert_eq!(after.members, before.members + 3);
}

/// One that leaves the line has done nothing.
#[test]
fn a_lease_is_counted_when_it_has_a_connection() {
    let Some(stage) = stage(&[]) else {
        return;
    };
    let [mut first, mut second] = [stage.client(), stage.client()];
    first.ok("BEGIN");
    second.send(&query("BEGIN"));
    until("it waits", || stage.counters().waiting == 1);
    second.hang_up();
    until("it has left", || stage.counters().waiting == 0);
    let rows = groups(&mut first);
    let leases: Vec<_> = rows
        .iter()
        .filter(|row| row["strategy"] == "lease")
        .collect();
    assert_eq!(leases.len(), 1);
    assert_eq!(leases[0]["units"], "1");
    first.ok("COMMIT");
}
