//! COPY, function calls, cursors, notices, notifications, SQL-level prepared statements, settings.

use super::script::{Script, Step, alone, lockstep, q, ready, run, to_end, up_to, x};
use crate::harness::message::{
    bind, copy_data, copy_done, copy_fail, execute, flush, function_call, parse, query, sync,
};

const COPY_IN: &str = "COPY t (id, n, s) FROM STDIN";

pub(super) fn scripts() -> Vec<Script> {
    vec![
        alone("copy in", copy_in()),
        alone("copy out", copy_out()),
        lockstep("function calls", function_calls()),
        alone("settings", settings()),
        alone("prepared by SQL", prepared()),
        alone("cursors", cursors()),
        lockstep("notices", notices()),
        alone("notifications", notifications()),
        alone("unexpected messages", unexpected()),
        alone("a query inside COPY", lost_in_copy()),
    ]
}

fn copy_in() -> Vec<Step> {
    vec![
        up_to(b"GE", &[query(COPY_IN)]),
        ready(
            1,
            &[
                copy_data(b"10\t1\tten\n11\t2\t\\N\n"),
                copy_data(b"12\t3\ttwel"),
                copy_data(b"ve\n"),
                copy_done(),
            ],
        ),
        up_to(b"GE", &[query(COPY_IN)]),
        ready(1, &[copy_data(b"13\t1\tx\n"), copy_fail("changed my mind")]),
        up_to(b"GE", &[query(COPY_IN)]),
        ready(
            1,
            &[
                copy_data(b"14\tnot a number\tx\n"),
                copy_data(b"15\t1\tx\n"),
                copy_done(),
            ],
        ),
        up_to(b"GE", &[query(COPY_IN)]),
        ready(1, &[copy_data(b"16\t-1\tnegative\n"), copy_done()]),
        up_to(b"GE", &[query(COPY_IN)]),
        ready(1, &[copy_data(b"10\t1\tduplicate\n"), copy_done()]),
        up_to(b"GE", &[query(COPY_IN)]),
        ready(1, &[copy_done()]),
        // All at once, and something behind it.
        ready(
            2,
            &[
                query(COPY_IN),
                copy_data(b"17\t1\tx\n"),
                copy_done(),
                query("SELECT count(*) FROM t"),
            ],
        ),
        up_to(
            b"GE",
            &[query(
                "COPY t (id, n) FROM STDIN; SELECT 1; COPY t (id, n) FROM STDIN",
            )],
        ),
        up_to(b"GE", &[copy_data(b"18\t1\n"), copy_done()]),
        ready(1, &[copy_data(b"19\t1\n"), copy_done()]),
        up_to(
            b"GE",
            &[
                parse("", COPY_IN, &[]),
                bind("", "", &[]),
                execute("", 0),
                flush(),
            ],
        ),
        ready(1, &[copy_data(b"20\t1\tx\n"), copy_done(), sync()]),
        ready(
            1,
            &[
                parse("", COPY_IN, &[]),
                bind("", "", &[]),
                execute("", 0),
                copy_data(b"21\t1\tx\n"),
                copy_done(),
                sync(),
            ],
        ),
        up_to(
            b"GE",
            &[
                parse("", COPY_IN, &[]),
                bind("", "", &[]),
                execute("", 0),
                flush(),
            ],
        ),
        ready(1, &[copy_data(b"22\tx\tx\n"), copy_done(), sync()]),
        q("SELECT id FROM t ORDER BY id"),
        q("COPY missing FROM STDIN"),
        q("BEGIN"),
        up_to(b"GE", &[query(COPY_IN)]),
        ready(1, &[copy_data(b"30\t1\tx\n"), copy_done()]),
        q("ROLLBACK"),
        up_to(b"GE", &[query("COPY pair FROM STDIN (FORMAT csv, HEADER)")]),
        ready(1, &[copy_data(b"a,b,n\n5,\"q,r\",6\n"), copy_done()]),
        q("SELECT 'still here'"),
    ]
}

fn copy_out() -> Vec<Step> {
    vec![
        q("COPY t TO STDOUT"),
        q("COPY (SELECT id, s FROM t WHERE id > 3) TO STDOUT (FORMAT csv, HEADER)"),
        q("COPY t TO STDOUT (FORMAT binary)"),
        q("COPY (SELECT 1/0) TO STDOUT"),
        q("COPY (SELECT 1 WHERE false) TO STDOUT; SELECT 1"),
        x(&[
            parse("", "COPY pair TO STDOUT", &[]),
            bind("", "", &[]),
            execute("", 0),
        ]),
        q("COPY (SELECT 10 / (3 - i) FROM generate_series(1, 3) i) TO STDOUT"),
        q("SELECT 1"),
    ]
}

fn function_calls() -> Vec<Step> {
    // int4pl, int4div, and one that does not exist; see pg_proc.dat.
    vec![
        ready(1, &[function_call(177, &[Some("40"), Some("2")])]),
        ready(1, &[function_call(177, &[None, Some("2")])]),
        ready(1, &[function_call(154, &[Some("1"), Some("0")])]),
        ready(1, &[function_call(177, &[Some("1")])]),
        ready(1, &[function_call(177, &[Some("x"), Some("2")])]),
        ready(1, &[function_call(4_000_000, &[])]),
    ]
}

fn settings() -> Vec<Step> {
    vec![
        q("SET application_name = 'scripts'"),
        q("SHOW application_name"),
        q("SET TIME ZONE 'Asia/Tokyo'"),
        q("SELECT '2024-01-01 00:00:00+00'::timestamptz"),
        q("SET datestyle = 'German'"),
        q("SELECT '2024-02-03'::date"),
        q("RESET datestyle"),
        q("SET client_encoding = 'LATIN1'"),
        q("SHOW client_encoding"),
        q("RESET client_encoding"),
        q("SET search_path = nowhere, public"),
        q("SHOW search_path"),
        q("SET nosuchsetting = 1"),
        q("SET work_mem = 'lots'"),
        q("SELECT set_config('statement_timeout', '11s', false)"),
        q("SHOW statement_timeout"),
        run(
            "SELECT set_config($1, $2, false)",
            &[Some("lock_timeout"), Some("5s")],
        ),
        q("SHOW lock_timeout"),
        q("SET custom.flag = 'on'"),
        q("SHOW custom.flag"),
        x(&[
            parse("", "SET application_name = 'extended'", &[]),
            bind("", "", &[]),
            execute("", 0),
        ]),
        x(&[
            parse("", "SHOW application_name", &[]),
            bind("", "", &[]),
            execute("", 0),
        ]),
        q("BEGIN"),
        q("SET application_name = 'inside'"),
        q("ROLLBACK"),
        q("SHOW application_name"),
        q("RESET ALL"),
        q("SHOW statement_timeout"),
        q("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
        q("SHOW default_transaction_isolation"),
        q("DISCARD ALL"),
        q("SHOW default_transaction_isolation"),
        q("SHOW application_name"),
    ]
}

fn prepared() -> Vec<Step> {
    vec![
        q("PREPARE p (int) AS UPDATE t SET n = n + $1 WHERE id = 1 RETURNING n"),
        q("EXECUTE p (3)"),
        q("EXECUTE p (-1000)"),
        q("EXECUTE missing"),
        x(&[bind("", "p", &[Some("4")]), execute("", 0)]),
        q("PREPARE p AS SELECT 1"),
        q("DEALLOCATE p"),
        q("EXECUTE p (3)"),
        q("DEALLOCATE p"),
        q("DEALLOCATE PREPARE ALL"),
    ]
}

/// A name from the protocol, used by SQL.
fn cursors() -> Vec<Step> {
    vec![
        q("DECLARE c CURSOR FOR SELECT 1"),
        q("DECLARE h CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY id"),
        q("FETCH 2 FROM h"),
        q("FETCH ALL FROM h"),
        q("CLOSE h"),
        q("FETCH 1 FROM h"),
        q("CREATE TEMP TABLE scratch (id int)"),
        q("INSERT INTO scratch VALUES (1), (2)"),
        q("SELECT count(*) FROM scratch"),
        q("DISCARD TEMP"),
        q("SELECT count(*) FROM scratch"),
    ]
}

fn notices() -> Vec<Step> {
    vec![
        q("DO $$ BEGIN RAISE NOTICE 'one'; RAISE WARNING 'two' USING HINT = 'none'; END $$"),
        q(
            "DO $$ BEGIN RAISE NOTICE 'before'; RAISE EXCEPTION 'after' USING ERRCODE = 'XX123', DETAIL = 'detail'; END $$",
        ),
        q("DROP TABLE IF EXISTS missing"),
        run("DROP TABLE IF EXISTS missing", &[]),
    ]
}

fn notifications() -> Vec<Step> {
    vec![
        q("LISTEN news"),
        up_to(b"Z", &[query("NOTIFY news, 'to myself'")]),
        q("UNLISTEN news"),
        q("NOTIFY news, 'to nobody'"),
    ]
}

/// A Query where CopyData is due: PostgreSQL gives the connection up.
fn lost_in_copy() -> Vec<Step> {
    vec![
        up_to(b"GE", &[query(COPY_IN)]),
        to_end(&[query("SELECT 1")]),
    ]
}

fn unexpected() -> Vec<Step> {
    vec![
        // Outside COPY these are ignored.
        ready(1, &[copy_data(b"x"), copy_done(), query("SELECT 1")]),
        ready(1, &[copy_fail("x"), sync()]),
        q("SELECT 2"),
    ]
}
