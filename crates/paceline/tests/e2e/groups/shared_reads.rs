//! Reads that are executed once for several clients: `now()`, which each transaction has of its own, shows it.

use std::collections::BTreeSet;

use crate::harness::message::{bind_formats, execute, parse, query, sync, unit};
use crate::harness::stage::Target;
use crate::harness::{Gate, Stage, until};

const SETUP: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE TABLE people (name text, mood mood);
    INSERT INTO people VALUES ('ann', 'ok'), ('bob', 'sad');
    CREATE FUNCTION calm(a mood, b mood) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT a = b';
    CREATE OPERATOR <=~ (LEFTARG = mood, RIGHTARG = mood, FUNCTION = calm);
    CREATE FUNCTION noted(a mood, b mood) RETURNS bool VOLATILE LANGUAGE plpgsql AS $$ BEGIN RETURN a = b; END $$;
    CREATE OPERATOR <~> (LEFTARG = mood, RIGHTARG = mood, FUNCTION = noted);
    CREATE TYPE pair AS (a int, b int);
    CREATE FUNCTION tick(anyelement) RETURNS float8 VOLATILE LANGUAGE sql AS 'SELECT random()'";
const CLIENTS: usize = 6;

/// The number of transactions that answer all clients which wait with the same read.
fn transactions(stage: &Stage, sql: &str) -> usize {
    let ask = unit(sql, &[]);
    let mut clients = stage.clients(CLIENTS);
    for client in &mut clients {
        client.ask(&ask).expect_ok(sql);
    }
    let mut gate = Gate::close(stage);
    for client in &mut clients {
        gate.submit(client, &ask);
    }
    gate.open();
    let times: BTreeSet<String> = clients.iter_mut().map(|c| c.reply().value()).collect();
    times.len()
}

#[test]
fn reads_without_side_effects_are_shared() {
    let stage = Stage::on_shared().set("default_pool_size=1").open();
    stage.direct().ok(SETUP);
    for sql in [
        "SELECT now(), count(*) FROM people WHERE mood = 'ok'::mood",
        "SELECT now(), ARRAY['ok']::public.mood[] FROM people",
        "SELECT now(), mood <=~ 'ok' FROM people",
    ] {
        // On a busy machine a read may count as long for a while.
        until(sql, || {
            transactions(&stage, sql) == 1 || stage.target() == Target::Bare
        });
    }
    for sql in [
        "SELECT now(), mood <~> 'ok' FROM people",
        "SELECT now(), '(1,2)'::pair",
        "SELECT now(), people.tick FROM people",
        "SELECT now(), (p).tick FROM people AS p",
        "SELECT now(), count(*) FROM people TABLESAMPLE bernoulli (50)",
        "SELECT now(), table_to_xml('people', true, true, '')",
    ] {
        assert_eq!(transactions(&stage, sql), CLIENTS, "{sql}");
    }
    // A cast that calls a volatile function may be anywhere.
    stage.direct().ok("CREATE FUNCTION rank(mood) RETURNS bigint VOLATILE LANGUAGE sql AS 'SELECT 1::bigint'; CREATE CAST (mood AS bigint) WITH FUNCTION rank(mood) AS IMPLICIT");
    let sql = "SELECT now(), mood + 1::bigint FROM people";
    assert_eq!(transactions(&stage, sql), CLIENTS, "{sql}");
}

#[test]
fn a_read_with_a_wrong_number_of_rows_gets_the_error_in_a_group_too() {
    let stage = Stage::on_shared().set("default_pool_size=1").open();
    if stage.target() == Target::Bare {
        return;
    }
    stage.direct().ok(SETUP);
    let ask = query("SELECT /*+ TARGET_AFFECT_ROW(1) */ name FROM people");
    stage.client().ask(&ask).expect_error("21000");
    stage
        .client()
        .ask(&query(
            "SELECT /*+ TARGET_AFFECT_ROW(2) */ name FROM people",
        ))
        .expect_ok("two rows");
    let mut clients = stage.clients(3);
    let mut gate = Gate::close(&stage);
    for client in &mut clients {
        gate.submit(client, &ask);
    }
    gate.open();
    for client in &mut clients {
        client.reply().expect_error("21000");
    }
}

/// A client that has prepared a statement knows its columns, and gets an error if they have changed.
#[test]
fn a_stale_plan_is_an_error_in_a_group_too() {
    let stage = Stage::on_shared().set("default_pool_size=1").open();
    let mut direct = stage.direct();
    direct.ok("CREATE TABLE later (id int); INSERT INTO later VALUES (1)");
    let prepare = [parse("s", "SELECT id FROM later", &[]), sync()].concat();
    let run = [bind_formats("", "s", &[], &[], &[]), execute("", 0), sync()].concat();
    let mut clients = stage.clients(3);
    for client in &mut clients {
        client.ask(&prepare).expect_ok("prepared");
        client.ask(&run).expect_ok("as it was");
    }
    stage.await_analysis();
    let mut gate = Gate::close(&stage);
    direct.ok("ALTER TABLE later ALTER id TYPE bigint");
    for client in &mut clients {
        gate.submit(client, &run);
    }
    gate.open();
    for client in &mut clients {
        client.reply().expect_error("0A000");
    }
}
