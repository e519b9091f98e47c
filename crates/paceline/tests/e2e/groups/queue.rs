//! Consumers of a queue run as groups: each gets the rows that it would have got alone in its turn.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::task::JoinSet;

use crate::harness::driver::connect;
use crate::harness::gate::lock_waiters;
use crate::harness::message::{query, unit};
use crate::harness::stage::Target;
use crate::harness::together::Tables;
use crate::harness::{Gate, Stage, until, wait};

/// Nothing may change plans in the middle: `IN (SELECT … LIMIT 3 FOR UPDATE)` takes more than three rows where PostgreSQL
/// believes in a table of one row and runs the sub-select again for each.
const SETUP: &str = "
    CREATE TABLE q (id bigint PRIMARY KEY, lane int NOT NULL, prio int, body text NOT NULL, state text NOT NULL, worker int, cost int NOT NULL)
        WITH (autovacuum_enabled = off);
    CREATE TABLE done (seq bigserial PRIMARY KEY, id bigint UNIQUE, body text, worker int, at timestamptz DEFAULT now());
    CREATE SEQUENCE ticket;
    CREATE TABLE chain (id int PRIMARY KEY, after int REFERENCES chain);
    CREATE TABLE seat (id int PRIMARY KEY, n bigint);
    CREATE FUNCTION seats() RETURNS bigint STABLE LANGUAGE sql AS 'SELECT count(*) FROM seat';
    ALTER TABLE seat ADD CHECK (seats() < 2), ALTER n SET DEFAULT seats();
    CREATE FUNCTION remaining(q) RETURNS bigint STABLE LANGUAGE sql AS 'SELECT count(*) FROM q'";
const FILL: &str = "
    DELETE FROM q; DELETE FROM done; ALTER SEQUENCE done_seq_seq RESTART;
    DELETE FROM chain; DELETE FROM seat; ALTER SEQUENCE ticket RESTART;
    INSERT INTO q SELECT i, i % 2, NULLIF((i * 7) % 5, 0), 'body ' || i, 'ready', NULL, 5 FROM generate_series(1, 14) i";
const CONTENT: &str = "SELECT 'q', id, state, worker, cost FROM q UNION ALL SELECT 'done', id, body, worker, seq::int FROM done ORDER BY 1, 2";
const TABLES: Tables = Tables {
    fill: FILL,
    content: CONTENT,
};

/// Statements of consumers that are grouped; `$1` is the consumer's number, `$2` the lane.
const TOGETHER: [&str; 11] = [
    "DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1) RETURNING *, $1::int",
    "DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)",
    "DELETE FROM q AS a WHERE a.id IN (SELECT b.id FROM q b WHERE b.lane = $2 ORDER BY b.prio DESC NULLS LAST, b.id LIMIT 2 FOR UPDATE OF b SKIP LOCKED) RETURNING a.id, prio AS p",
    "DELETE FROM q WHERE id = ANY(ARRAY(SELECT id FROM q WHERE state = 'ready' ORDER BY body, id FOR UPDATE LIMIT 3)) RETURNING id, $1::int + cost",
    "DELETE FROM q WHERE id = ANY(SELECT id FROM q ORDER BY id DESC LIMIT 2) RETURNING id",
    "DELETE FROM q WHERE ctid = (SELECT ctid FROM q WHERE pg_try_advisory_xact_lock(id) ORDER BY id LIMIT 1) RETURNING id, body",
    "UPDATE q SET state = 'taken by ' || $1, worker = $1::int WHERE id = (SELECT id FROM q WHERE state = 'ready' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, state, worker",
    "UPDATE q SET state = 'taken', worker = $1::int WHERE id IN (SELECT id FROM q WHERE state = 'ready' AND lane = $2 ORDER BY prio NULLS FIRST, id LIMIT 3 FOR NO KEY UPDATE SKIP LOCKED)",
    "WITH t AS (DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, body) INSERT INTO done (id, body, worker) SELECT id, body, $1::int FROM t",
    "WITH t AS (DELETE FROM q WHERE ctid = (SELECT ctid FROM q WHERE pg_try_advisory_xact_lock(id) ORDER BY id LIMIT 1) RETURNING id AS number, upper(body) AS loud) \
     INSERT INTO done (id, body, worker) SELECT number, loud, $1::int FROM t RETURNING seq, body",
    "WITH t AS (DELETE FROM q WHERE id IN (SELECT id FROM q ORDER BY id LIMIT 2) RETURNING *) INSERT INTO done (id, body, worker) SELECT id, body || $1, prio FROM t RETURNING seq, done.id, worker, at IS NOT NULL",
];

/// Statements that do not, or that a group could not execute.
const ALONE: [&str; 4] = [
    // The rows that are taken may be taken again at once: every consumer gets the same one.
    "UPDATE q SET cost = cost + 1, worker = $1::int WHERE id = (SELECT id FROM q WHERE state = 'ready' ORDER BY id LIMIT 1) RETURNING id, cost",
    // The first consumers' changes decide which rows the later ones may take.
    "UPDATE q SET cost = cost - 3, worker = $1::int WHERE id = (SELECT id FROM q WHERE cost > 0 ORDER BY cost DESC, id LIMIT 1 FOR UPDATE) RETURNING id, cost",
    // A key that does not name one row.
    "DELETE FROM q WHERE lane = (SELECT lane FROM q ORDER BY id LIMIT 1) RETURNING id",
    // The order is by the picked column, which has the name of another one.
    "DELETE FROM q WHERE id = (SELECT id AS prio FROM q ORDER BY prio DESC LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, prio",
];

fn stage() -> Stage {
    let stage = Stage::for_groups();
    stage.direct().ok(SETUP);
    stage
}

fn check_all(prepared: bool) {
    let stage = stage();
    TABLES.compare_groups(&stage, &TOGETHER, prepared);
    for sql in ALONE {
        TABLES.compare(&stage, sql, prepared);
    }
}

#[test]
fn each_consumer_gets_its_rows_by_the_extended_protocol() {
    check_all(true);
}

#[test]
fn each_consumer_gets_its_rows_by_the_simple_protocol() {
    check_all(false);
}

/// Tables whose rows depend on one another, and values that show an order: a group would differ from one at a time.
#[test]
fn requests_that_depend_on_one_another_run_one_at_a_time() {
    let stage = stage();
    for sql in [
        "WITH t AS (DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1) RETURNING id) INSERT INTO public.q (id, lane, body, state, cost) SELECT id + 100, 1, 'again', 'ready', 5 FROM t",
        "UPDATE q SET state = 'run', worker = nextval('ticket') WHERE id = (SELECT id FROM q WHERE state = 'ready' ORDER BY id DESC LIMIT 1) RETURNING id",
        "DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1) RETURNING id, q.remaining",
        "INSERT INTO chain VALUES ($1::int, 1) RETURNING id",
        "INSERT INTO seat (id) VALUES ($1::int) RETURNING id, n",
    ] {
        TABLES.compare(&stage, sql, true);
    }
    let counters = stage.counters();
    assert_eq!(counters.groups, 0, "{counters:?}");
}

/// An error of the third row's consumer is its own.
#[test]
fn an_error_reaches_its_consumer_alone() {
    let stage = stage();
    let mut direct = stage.direct();
    direct.ok(FILL);
    let sql = "DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1 FOR UPDATE) RETURNING id, 10 / ($1::int - 3)";
    stage.client().ask(&unit(sql, &[Some("1")]));
    let mut clients = stage.clients(8);
    let mut gate = Gate::close(&stage);
    direct.ok(FILL);
    for (number, client) in clients.iter_mut().enumerate() {
        gate.submit(client, &unit(sql, &[Some(&number.to_string())]));
    }
    gate.open();
    let mut ids = Vec::new();
    for (number, client) in clients.iter_mut().enumerate() {
        let reply = client.reply();
        match number {
            3 => drop(reply.expect_error("22012")),
            _ => ids.push(reply.expect_ok("a consumer").value()),
        }
    }
    assert_eq!(ids, ["1", "2", "3", "4", "5", "6", "7"]);
    assert_eq!(direct.number("SELECT count(*) FROM q"), 7);
}

/// PostgreSQL fits a value into its column when it plans, so a value that is too long is an error although there is
/// nothing to take.
#[test]
fn a_value_that_does_not_fit_is_an_error_of_an_empty_queue_too() {
    let stage = stage();
    stage
        .direct()
        .ok("ALTER TABLE q ADD note varchar(8); ALTER TABLE done ADD note varchar(8)");
    for sql in [
        "UPDATE q SET state = 'taken', note = $1 WHERE id = (SELECT id FROM q WHERE state = 'none' ORDER BY id LIMIT 1 FOR UPDATE)",
        "WITH t AS (DELETE FROM q WHERE id = (SELECT id FROM q WHERE state = 'none' ORDER BY id LIMIT 1) RETURNING id) INSERT INTO done (id, note) SELECT id, $1::text FROM t",
    ] {
        let ask = |note| query(&sql.replace("$1", note));
        stage.client().ask(&ask("'fits'")).expect_ok(sql);
        let mut clients = stage.clients(3);
        let mut gate = Gate::close(&stage);
        for (client, note) in clients
            .iter_mut()
            .zip(["'fits'", "'too long for it'", "''"])
        {
            gate.submit(client, &ask(note));
        }
        gate.open();
        let states = clients.iter_mut().map(|client| client.reply().sqlstate());
        assert_eq!(states.collect::<Vec<_>>(), ["", "22001", ""], "{sql}");
    }
}

/// A request does not run alone because a value may fail without a row.
#[test]
fn consumers_of_an_empty_queue_are_answered_together() {
    let stage = stage();
    stage.direct().ok(
        "ALTER TABLE q ADD note varchar(8), ADD at timestamp(3), ADD size bigint, ADD tags text[]",
    );
    let sql = "UPDATE q SET note = $1, at = $2, size = $3::int + 1, tags = $4 \
        WHERE id = (SELECT id FROM q WHERE state = 'none' ORDER BY id LIMIT 1 FOR UPDATE)";
    let ask = unit(
        sql,
        &[Some("worker"), Some("2025-01-01"), Some("7"), Some("{a}")],
    );
    stage.client().ask(&ask).expect_ok(sql);
    stage.await_analysis();
    let mut clients = stage.clients(4);
    let mut gate = Gate::close(&stage);
    for client in &mut clients {
        gate.submit(client, &ask);
    }
    gate.open();
    for client in &mut clients {
        assert_eq!(client.reply().expect_ok(sql).tag(), "UPDATE 0");
    }
    if stage.target() == Target::Paceline {
        let counters = stage.counters();
        assert_eq!(
            (counters.members, counters.fallbacks),
            (4, 0),
            "{counters:?}"
        );
    }
}

/// A worker beside Paceline holds the head of the queue: consumers that skip locked rows take those after it, others wait.
#[test]
fn a_direct_worker_holds_the_head() {
    let stage = stage();
    let (mut direct, mut worker) = (stage.direct(), stage.direct());
    let skips = "DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id";
    let waits =
        "DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1 FOR UPDATE) RETURNING id";
    direct.ok(FILL);
    for sql in [skips, waits] {
        stage.client().ask(&unit(sql, &[]));
    }
    for (sql, expected) in [(skips, ["3", "4", "5"]), (waits, ["3", "4", "5"])] {
        let mut clients = stage.clients(3);
        let mut gate = Gate::close(&stage);
        direct.ok(FILL);
        worker.ok("BEGIN; DELETE FROM q WHERE id IN (1, 2)");
        for client in &mut clients {
            gate.submit(client, &unit(sql, &[]));
        }
        gate.open();
        if sql == waits && stage.target() == Target::Paceline {
            until("the consumers wait", || lock_waiters(&mut direct) >= 1);
        }
        if sql == waits {
            worker.ok("COMMIT");
        }
        let ids: Vec<String> = clients.iter_mut().map(|c| c.reply().value()).collect();
        let got: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
        assert_eq!(got, BTreeSet::from(expected), "{sql}");
        if sql == skips {
            worker.ok("ROLLBACK");
        }
    }
}

/// A worker beside Paceline holds the second row, and consumers do not skip: the first one need not wait for it.
#[test]
fn a_locked_row_in_the_middle_delays_those_behind_it() {
    let stage = stage();
    let (mut direct, mut worker) = (stage.direct(), stage.direct());
    let sql =
        "DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1 FOR UPDATE) RETURNING id";
    direct.ok(FILL);
    stage.client().ask(&unit(sql, &[]));
    let mut clients = stage.clients(3);
    let mut gate = Gate::close(&stage);
    direct.ok(FILL);
    if stage.target() == Target::Paceline {
        worker.ok("BEGIN; DELETE FROM q WHERE id = 2");
    }
    for client in &mut clients {
        gate.submit(client, &unit(sql, &[]));
    }
    gate.open();
    assert_eq!(clients[0].reply().value(), "1");
    if stage.target() == Target::Paceline {
        worker.ok("ROLLBACK");
    }
    assert_eq!(clients[1].reply().value(), "2");
    assert_eq!(clients[2].reply().value(), "3");
}

/// A consumer that disconnects before its group starts takes nothing.
#[test]
fn a_consumer_that_has_left_takes_no_row() {
    let stage = stage();
    let mut direct = stage.direct();
    direct.ok(FILL);
    let sql = "DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id";
    stage.client().ask(&unit(sql, &[]));
    let mut clients = stage.clients(5);
    let mut gate = Gate::close(&stage);
    direct.ok(FILL);
    for client in &mut clients {
        gate.submit(client, &unit(sql, &[]));
    }
    clients.remove(2).hang_up();
    if stage.target() == Target::Paceline {
        gate.await_line(4);
    }
    gate.open();
    let ids: Vec<String> = clients.iter_mut().map(|c| c.reply().value()).collect();
    if stage.target() == Target::Paceline {
        assert_eq!(ids, ["1", "2", "3", "4"]);
        assert_eq!(direct.number("SELECT count(*) FROM q"), 10);
    }
}

const ORDERS: i64 = 6_000;
const MOVE: &str = "WITH t AS (DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, body) \
    INSERT INTO done (id, body, worker) SELECT id, body, $1::int FROM t RETURNING id";

/// Takes until the queue is empty; connects again after every error.
async fn work_on(url: Arc<str>, number: i32) {
    loop {
        let Ok(client) = connect(&url).await else {
            tokio::task::yield_now().await;
            continue;
        };
        let Ok(statement) = client.prepare(MOVE).await else {
            continue;
        };
        loop {
            match client.query(&statement, &[&number]).await {
                Ok(rows) if rows.is_empty() => return,
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }
}

/// Server connections are killed, and a trigger is created and dropped, while groups are in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn killed_connections_and_ddl_lose_and_double_nothing() {
    let stage = Stage::on_shared()
        .set("hotspot_for_autocommit=true")
        .set("default_pool_size=2")
        .open();
    let mut direct = stage.direct();
    direct.ok(SETUP);
    direct.ok("CREATE FUNCTION loud() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN IF TG_OP = 'DELETE' THEN OLD.body := upper(OLD.body); RETURN OLD; END IF; NEW.body := upper(NEW.body); RETURN NEW; END $$");
    direct.ok(&format!(
        "INSERT INTO q SELECT i, 0, 0, 'order ' || i, 'ready', NULL, 0 FROM generate_series(1, {ORDERS}) i"
    ));
    let url: Arc<str> = stage.url().into();
    let mut workers = JoinSet::new();
    for number in 0..32 {
        workers.spawn(work_on(url.clone(), number));
    }
    for step in 1..=10 {
        let target = ORDERS * step / 14;
        until("some orders are done", || {
            ORDERS - direct.number("SELECT count(*) FROM q") >= target
        });
        direct.ok(match step % 3 {
            0 => "CREATE TRIGGER loud BEFORE INSERT ON done FOR EACH ROW EXECUTE FUNCTION loud()",
            1 => "DROP TRIGGER IF EXISTS loud ON done",
            _ => {
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname = current_database() AND pid <> pg_backend_pid()"
            }
        });
    }
    wait::ended("the workers find the queue empty", workers).await;
    assert_eq!(direct.number("SELECT count(*) FROM q"), 0);
    assert_eq!(direct.number("SELECT count(*) FROM done"), ORDERS);
    assert_eq!(direct.number("SELECT count(DISTINCT id) FROM done"), ORDERS);
    assert!(direct.number("SELECT count(*) FROM done WHERE body LIKE 'ORDER%'") > 0);
    stage.assert_grouped(500, 3);
}
