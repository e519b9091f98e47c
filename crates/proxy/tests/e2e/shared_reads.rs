//! Which reads are carried out once for several clients that ask the same: told by `now()`, which is each transaction's own.

use std::collections::BTreeSet;

use crate::harness::message::unit;
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
    CREATE TYPE pair AS (a int, b int)";
const CLIENTS: usize = 6;

/// How many transactions it takes to answer all clients who wait with the same read.
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
    ] {
        assert_eq!(transactions(&stage, sql), CLIENTS, "{sql}");
    }
}
