//! The same read, asked by many while it cannot start, runs once; every client gets what it would have got alone, whatever
//! becomes of its neighbours.
//!
//! `statement_timestamp()` distinguishes runs: it is the same in all rows of one run, and never the same in two.

use std::collections::BTreeSet;

use crate::harness::gate::lock_waiters;
use crate::harness::message::{bind, bind_formats, describe, execute, parse, query, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Gate, Reply, Stage, assert_same, until};

/// `n` has numbers, from which a read makes its rows; `t` is the table that is read.
const SETUP: &str = "
    CREATE TABLE n (i int PRIMARY KEY);
    INSERT INTO n SELECT generate_series(1, 5000);
    CREATE TABLE t (id int PRIMARY KEY, k int NOT NULL, body text, at timestamptz DEFAULT '2024-02-29 12:00+00');
    INSERT INTO t SELECT i, i % 2, repeat('x', 40) || i FROM n;
    CREATE SCHEMA other;
    CREATE TABLE other.t (id int, k int, body text, at timestamptz);
    CREATE FUNCTION mine(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1';";

/// 2,500 rows.
const LONG: &str = "SELECT id, body, at, statement_timestamp() FROM t WHERE k = $1 ORDER BY id";

/// Returns `$1` rows of 8,000 bytes.
const WIDE: &str =
    "SELECT i, repeat('x', 8000), statement_timestamp() FROM n WHERE i <= $1 ORDER BY i";

/// Rows of [`WIDE`] that are shared, and that are too many for it.
const KEPT: usize = 950;
const TOO_MANY: usize = 1600;

fn stage_with(pool_size: usize) -> Stage {
    let size = format!("default_pool_size={pool_size}");
    let stage = Stage::on_shared().set(&size).open();
    stage.direct().ok(SETUP);
    stage
}

fn stage() -> Stage {
    stage_with(1)
}

/// Reads once: Paceline analyzes the template.
fn analyze(stage: &Stage, unit: &[u8]) {
    stage.client().ask(unit).expect_ok("the first one");
}

/// All of them send while no connection is free.
fn ask_together(stage: &Stage, clients: &mut [RawClient], unit: &[u8]) {
    let mut gate = Gate::close(stage);
    for client in clients {
        gate.submit(client, unit);
    }
    gate.open();
}

/// The time of the run whose answer this is.
fn moment(reply: &Reply) -> String {
    let rows = reply.rows();
    let last = rows.first().and_then(|row| row.last()).cloned().flatten();
    last.unwrap_or_else(|| panic!("no rows: {}", reply.tags()))
}

fn runs(replies: &[Reply]) -> usize {
    replies.iter().map(moment).collect::<BTreeSet<_>>().len()
}

/// The rows without the moment of their run.
fn rows(reply: &Reply) -> Vec<Vec<Option<String>>> {
    let mut rows = reply.rows();
    rows.iter_mut().for_each(|row| drop(row.pop()));
    rows
}

fn replies(clients: &mut [RawClient]) -> Vec<Reply> {
    clients.iter_mut().map(RawClient::reply).collect()
}

#[track_caller]
fn assert_runs(stage: &Stage, replies: &[Reply], expected: usize) {
    if stage.target() == Target::Paceline {
        assert_eq!(runs(replies), expected);
    }
}

#[track_caller]
fn assert_as_alone(stage: &Stage, unit: &[u8], replies: &[Reply]) {
    let alone = stage.direct().ask(unit);
    for reply in replies {
        assert_eq!(reply.tags(), alone.tags());
        assert!(rows(reply) == rows(&alone), "other rows than alone");
        assert_eq!(reply.tag(), alone.tag());
    }
}

#[test]
fn one_run_answers_all_waiting_clients_by_both_protocols() {
    let stage = stage();
    for unit in [unit(LONG, &[Some("1")]), query(&LONG.replace("$1", "1"))] {
        analyze(&stage, &unit);
        let mut clients = stage.clients(6);
        ask_together(&stage, &mut clients, &unit);
        let replies = replies(&mut clients);
        assert_as_alone(&stage, &unit, &replies);
        assert_runs(&stage, &replies, 1);
    }
}

#[test]
fn a_statement_that_each_has_prepared_by_a_name_of_its_own_is_shared() {
    let stage = stage();
    let asks = |name| [bind("", name, &[Some("3")]), execute("", 0), sync()].concat();
    analyze(&stage, &unit(WIDE, &[Some("1")]));
    for rows in [3, TOO_MANY] {
        let mut clients = stage.clients(3);
        for (client, name) in clients.iter_mut().zip(["a", "b", "c"]) {
            let unit = [parse(name, WIDE, &[]), sync()];
            client.ask(&unit.concat()).expect_ok(name);
        }
        let mut gate = Gate::close(&stage);
        for (client, name) in clients.iter_mut().zip(["a", "b", "c"]) {
            let bind = bind("", name, &[Some(&rows.to_string())]);
            let unit = [bind, execute("", 0), sync()];
            gate.submit(client, &unit.concat());
        }
        gate.open();
        let replies = replies(&mut clients);
        assert!(replies.iter().all(|reply| reply.rows().len() == rows));
        assert_runs(&stage, &replies, if rows == 3 { 1 } else { 3 });
        for (client, name) in clients.iter_mut().zip(["a", "b", "c"]) {
            assert_eq!(client.ask(&asks(name)).expect_ok(name).rows().len(), 3);
        }
    }
}

#[test]
fn formats_and_settings_are_kept_apart() {
    let stage = stage();
    let value = || [Some(b"1".to_vec())];
    let ask = |results: &[u16], described: bool| {
        let describe = match described {
            true => describe(b'P', ""),
            false => Vec::new(),
        };
        let bind = bind_formats("", "", &[], &value(), results);
        [parse("", LONG, &[]), bind, describe, execute("", 0), sync()].concat()
    };
    let ways = [
        ("", ask(&[], true)),
        ("", ask(&[1], true)),
        ("", ask(&[], false)),
        ("", ask(&[0, 1, 0, 0], false)),
        ("SET TimeZone = 'Asia/Tokyo'", ask(&[], true)),
        ("SET search_path = other, public", ask(&[], true)),
    ];
    // The clients stay connected: settings that no client has any more are removed.
    let mut first = stage.clients(ways.len());
    for (client, (set, unit)) in first.iter_mut().zip(&ways) {
        client.ok(set);
        client.ask(unit).expect_ok("the first one");
    }
    let mut clients = stage.clients(2 * ways.len());
    for (client, (set, _)) in clients.iter_mut().zip(ways.iter().cycle()) {
        client.ok(set);
    }
    let mut gate = Gate::close(&stage);
    for (client, (_, unit)) in clients.iter_mut().zip(ways.iter().cycle()) {
        gate.submit(client, unit);
    }
    gate.open();
    let replies = replies(&mut clients);
    for (place, (set, unit)) in ways.iter().enumerate() {
        let twins = [replies[place].clone(), replies[place + ways.len()].clone()];
        let mut direct = stage.direct();
        direct.ok(set);
        let alone = direct.ask(unit);
        assert_eq!(twins[0].tags(), alone.tags());
        assert!(
            rows(&twins[0]) == rows(&alone),
            "{set}: other rows than alone"
        );
        assert_eq!(twins[0].0.first(), alone.0.first());
        if stage.target() == Target::Paceline {
            assert!(twins[0] == twins[1], "{set}: one run");
        }
    }
}

/// Each of these may have another result in every run, or does more than read.
#[test]
fn a_read_that_is_not_plain_runs_for_each_client() {
    let stage = stage();
    for sql in [
        "SELECT random() < 2, clock_timestamp() FROM t WHERE k = $1",
        "SELECT id, statement_timestamp() FROM t WHERE k = $1 FOR SHARE",
        "SELECT mine(id), statement_timestamp() FROM t WHERE k = $1",
        "SELECT id, pg_current_xact_id() FROM t WHERE k = $1",
    ] {
        let unit = unit(sql, &[Some("1")]);
        analyze(&stage, &unit);
        let mut clients = stage.clients(4);
        ask_together(&stage, &mut clients, &unit);
        let replies = replies(&mut clients);
        assert!(replies.iter().all(|reply| reply.rows().len() == 2500));
        assert_eq!(runs(&replies), 4, "{sql}");
    }
}

#[test]
fn an_error_in_the_middle_reaches_each_as_alone() {
    let stage = stage();
    let middle = "SELECT i, 100 / (i - $1) FROM n";
    let wide = "SELECT repeat('x', 8000), 100 / (i - $1) FROM n";
    for (sql, at) in [(middle, "3000"), (wide, "500"), (wide, "1500")] {
        println!("{sql}, {at}");
        let ask = unit(sql, &[Some(at)]);
        analyze(
            &stage,
            &unit(&format!("{sql} WHERE i < 10"), &[Some("100")]),
        );
        stage.client().ask(&ask);
        let mut clients = stage.clients(4);
        ask_together(&stage, &mut clients, &ask);
        let alone = stage.direct().ask(&ask).expect_error("22012");
        for reply in replies(&mut clients) {
            assert_same(sql, &alone.0, &reply.0);
        }
    }
}

/// Its answer is larger than any socket buffer; the only connection is free all the same.
#[test]
fn a_reader_that_stops_delays_no_other() {
    let stage = stage();
    analyze(&stage, &unit(WIDE, &[Some("1")]));
    let ask = unit(WIDE, &[Some(&KEPT.to_string())]);
    let mut clients = stage.clients(5);
    ask_together(&stage, &mut clients, &ask);
    let (stopped, others) = clients.split_at_mut(2);
    let mut all = replies(others);
    for client in others {
        assert_eq!(client.value("SELECT 7"), "7");
    }
    all.extend(replies(stopped));
    assert!(all.iter().all(|reply| reply.rows().len() == KEPT));
    assert_as_alone(&stage, &ask, &all);
    assert_runs(&stage, &all, 1);
}

/// The client that takes it over reads it as if alone; the others run their own, on the other connection.
#[test]
fn an_answer_that_is_too_long_is_everybodys_own() {
    let mut stage = stage_with(2);
    analyze(&stage, &unit(WIDE, &[Some("1")]));
    let ask = unit(WIDE, &[Some(&TOO_MANY.to_string())]);
    let mut clients = stage.clients(4);
    let mut gate = Gate::close_all(&stage, 2);
    for client in &mut clients {
        gate.submit(client, &ask);
    }
    gate.open();
    let (stopped, others) = clients.split_at_mut(1);
    let mut all = replies(others);
    all.extend(replies(stopped));
    assert!(all.iter().all(|reply| reply.rows().len() == TOO_MANY));
    assert_as_alone(&stage, &ask, &all);
    assert_runs(&stage, &all, 4);
    assert_eq!(clients[0].value("SELECT 7"), "7");
    if let Some(paceline) = stage.paceline() {
        // Without the pages of the program, whose size differs between builds.
        let peak = paceline.memory_kib("VmHWM") - paceline.memory_kib("RssFile");
        assert!(peak < 40 << 10, "{peak} KiB");
    }
}

/// The client that takes a read over has its unnamed statement afterwards; a query has dropped the one of before.
#[test]
fn a_read_that_is_handed_over_leaves_its_unnamed_statement() {
    let stage = stage();
    let wide = |rows: usize| query(&WIDE.replace("$1", &rows.to_string()));
    analyze(&stage, &unit(WIDE, &[Some("1")]));
    analyze(&stage, &wide(1));
    let again = [bind("", "", &[Some("2")]), execute("", 0), sync()].concat();
    for ask in [unit(WIDE, &[Some(&TOO_MANY.to_string())]), wide(TOO_MANY)] {
        for before in [None, Some(unit("SELECT 1 + $1::int", &[Some("2")]))] {
            let (mut clients, mut bare) = (stage.clients(2), stage.direct());
            if let Some(before) = &before {
                for client in [&mut clients[0], &mut bare] {
                    client.ask(before).expect_ok("an earlier statement");
                }
            }
            ask_together(&stage, &mut clients, &ask);
            let replies = replies(&mut clients);
            assert!(replies.iter().all(|reply| reply.rows().len() == TOO_MANY));
            bare.ask(&ask).expect_ok("the read");
            let (alone, shared) = (bare.ask(&again), clients[0].ask(&again));
            assert_eq!(shared.tags(), alone.tags());
            assert_eq!(shared.sqlstate(), alone.sqlstate());
            assert_eq!(rows(&shared), rows(&alone));
        }
    }
}

/// No client reads the results of many groups: results that exceed the memory limit wait in PostgreSQL, not in Paceline.
#[test]
fn memory_for_all_groups_together_is_bounded() {
    const GROUPS: usize = 40;
    // Without memory for the result, each of the two clients keeps a connection until it reads.
    const SERVERS: usize = 2 * GROUPS;
    // 64 MiB of answers, and what the process has besides: 40 MiB, and about 110 MiB that the allocator returns to the system a little
    // later. Without the bound the answers alone would be more than 260 MiB.
    const PEAK_KIB_MAX: u64 = 256 << 10;
    let mut stage = stage_with(SERVERS);
    analyze(&stage, &unit(WIDE, &[Some("1")]));
    let mut clients = stage.clients(2 * GROUPS);
    let mut gate = Gate::close_all(&stage, SERVERS);
    let rows = |number: usize| KEPT - number % GROUPS;
    for (number, client) in clients.iter_mut().enumerate() {
        gate.submit(client, &unit(WIDE, &[Some(&rows(number).to_string())]));
    }
    gate.open();
    until("all have left", || stage.counters().waiting == 0);
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.reply().rows().len(), rows(number));
    }
    if let Some(paceline) = stage.paceline() {
        let peak = paceline.memory_kib("VmHWM");
        println!("peak of resident memory: {peak} KiB");
        assert!(peak < PEAK_KIB_MAX, "{peak} KiB");
    }
}

/// A shared read that has left and waits inside PostgreSQL for the returned client's table lock.
fn held_up(stage: &Stage, clients: &mut [RawClient], ask: &[u8]) -> RawClient {
    let mut gate = Gate::close(stage);
    for client in clients {
        gate.submit(client, ask);
    }
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE");
    gate.open();
    let mut observer = stage.direct();
    until("the read waits", || lock_waiters(&mut observer) == 1);
    outsider
}

#[test]
fn a_member_that_leaves_or_cancels_does_not_affect_the_others() {
    let stage = stage();
    if stage.target() == Target::Bare {
        return;
    }
    let ask = unit(LONG, &[Some("1")]);
    analyze(&stage, &ask);
    let mut clients = stage.clients(5);
    let mut outsider = held_up(&stage, &mut clients, &ask);
    clients.remove(0).hang_up();
    clients[0].cancel();
    clients[0].reply().expect_error("57014");
    drop(clients.remove(3));
    outsider.ok("COMMIT");
    let replies = replies(&mut clients[1..]);
    assert_as_alone(&stage, &ask, &replies);
    assert_runs(&stage, &replies, 1);
    assert_eq!(clients[0].value("SELECT 7"), "7");
}

#[test]
fn a_read_for_which_no_client_waits_is_cancelled() {
    let stage = stage();
    if stage.target() == Target::Bare {
        return;
    }
    let ask = unit(LONG, &[Some("1")]);
    analyze(&stage, &ask);
    let mut neighbour = stage.client();
    let mut clients = stage.clients(3);
    let _outsider = held_up(&stage, &mut clients, &ask);
    clients[0].cancel();
    clients[0].reply().expect_error("57014");
    drop(clients);
    assert_eq!(neighbour.value("SELECT 7"), "7", "the connection is free");
    assert_eq!(lock_waiters(&mut stage.direct()), 0);
}

/// If the connection is lost during a shared read, no member has received anything, and each runs its own.
#[test]
fn a_lost_connection_costs_no_member_its_answer() {
    let stage = stage();
    if stage.target() == Target::Bare {
        return;
    }
    let ask = unit(LONG, &[Some("1")]);
    analyze(&stage, &ask);
    let mut clients = stage.clients(3);
    let mut outsider = held_up(&stage, &mut clients, &ask);
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    outsider.ok(kill);
    outsider.ok("COMMIT");
    let replies = replies(&mut clients);
    assert_as_alone(&stage, &ask, &replies);
}

#[test]
fn a_read_that_arrives_after_the_start_does_not_join_and_sees_earlier_writes() {
    let stage = stage();
    if stage.target() == Target::Bare {
        return;
    }
    let ask = unit(LONG, &[Some("1")]);
    analyze(&stage, &ask);
    let mut early = stage.clients(2);
    let mut late = stage.clients(2);
    let mut outsider = held_up(&stage, &mut early, &ask);
    for client in &mut late {
        client.send(&ask);
    }
    until("they are in the line", || stage.counters().waiting == 2);
    outsider.ok("INSERT INTO t VALUES (-1, 1, 'written while one read waits')");
    outsider.ok("COMMIT");
    let (early, late) = (replies(&mut early), replies(&mut late));
    assert_eq!(late[0].rows().len(), 2501);
    assert_eq!((runs(&early), runs(&late)), (1, 1));
    assert_ne!(moment(&early[0]), moment(&late[0]));
}

#[test]
fn a_write_that_was_acknowledged_is_seen() {
    let stage = stage();
    let count = unit(
        "SELECT count(*), statement_timestamp() FROM t WHERE k = $1",
        &[Some("1")],
    );
    analyze(&stage, &count);
    let mut clients = stage.clients(4);
    let mut writer = stage.direct();
    let mut gate = Gate::close(&stage);
    for (number, client) in clients.iter_mut().enumerate() {
        writer.ok(&format!("INSERT INTO t VALUES (-{number} - 1, 1)"));
        gate.submit(client, &count);
    }
    gate.open();
    for (number, reply) in replies(&mut clients).iter().enumerate() {
        let seen: usize = reply.value().parse().unwrap();
        assert!(seen > 2500 + number, "{seen} rows by client {number}");
    }
}

#[test]
fn ddl_between_question_and_answer_is_seen() {
    let stage = stage();
    let ask = unit("SELECT * FROM t WHERE k = $1 ORDER BY id", &[Some("1")]);
    analyze(&stage, &ask);
    for ddl in [
        "ALTER TABLE t ADD COLUMN more int DEFAULT 5",
        "ALTER TABLE t ALTER COLUMN more TYPE text",
        "DROP TABLE t",
    ] {
        let mut clients = stage.clients(3);
        let mut gate = Gate::close(&stage);
        for client in &mut clients {
            if stage.target() == Target::Paceline {
                gate.submit(client, &ask);
            }
        }
        stage.direct().ok(ddl);
        gate.open();
        let alone = stage.direct().ask(&ask);
        for client in &mut clients {
            let reply = match stage.target() {
                Target::Paceline => client.reply(),
                Target::Bare => client.ask(&ask),
            };
            assert_same(ddl, &alone.0, &reply.0);
        }
    }
}
