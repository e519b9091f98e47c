//! The extended protocol: statements, portals, pipelines, errors in the middle of them.

use super::script::{Script, Step, alone, lockstep, q, ready, run, up_to, x};
use crate::harness::message::{
    bind, bind_formats, close, describe, execute, flush, parse, query, sync,
};

const READ: &str = "SELECT * FROM t WHERE id = $1";
const ALL: &str = "SELECT id, s FROM t ORDER BY id";
const ADD: &str = "UPDATE t SET n = n + $1 WHERE id = $2 RETURNING n";

pub(super) fn scripts() -> Vec<Script> {
    vec![
        lockstep("one statement", one_statement()),
        lockstep("formats", formats()),
        lockstep("pipelines with one Sync", pipelines()),
        alone("pipelines with many Syncs", many_syncs()),
        lockstep("mistakes", mistakes()),
        alone("names", names()),
        alone("portals", portals()),
        alone("flush", flushes()),
        alone("mixed protocols", mixed()),
    ]
}

fn one_statement() -> Vec<Step> {
    vec![
        run(READ, &[Some("2")]),
        run(READ, &[Some("99")]),
        run(READ, &[None]),
        run(
            "SELECT $1::text, $2::int, $3::numeric",
            &[Some("x"), None, Some("1.50")],
        ),
        run("", &[]),
        run("-- nothing", &[]),
        run(ADD, &[Some("5"), Some("1")]),
        run(ADD, &[Some("5"), Some("99")]),
        run(ADD, &[None, Some("1")]),
        run(
            "UPDATE t SET n = n + $1 WHERE id = $2",
            &[Some("1"), Some("2")],
        ),
        run(
            "INSERT INTO pair VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            &[Some("8"), Some("q"), Some("1")],
        ),
        run("DELETE FROM pair WHERE a = $1", &[Some("8")]),
        run("SELECT $1", &[Some("untyped")]),
        x(&[parse("", READ, &[23]), describe(b'S', "")]),
        x(&[parse("", ADD, &[]), describe(b'S', "")]),
        x(&[parse("", "", &[]), describe(b'S', "")]),
        x(&[
            parse("", "UPDATE t SET n = 1 WHERE id = 1", &[]),
            describe(b'S', ""),
        ]),
        x(&[
            parse("", READ, &[20]),
            bind("", "", &[Some("3")]),
            execute("", 0),
        ]),
        x(&[parse("", ALL, &[]), bind("", "", &[]), execute("", 0)]),
    ]
}

fn formats() -> Vec<Step> {
    let int4 = |value: i32| Some(value.to_be_bytes().to_vec());
    let both = |results: &[u16]| {
        x(&[
            parse("", ADD, &[]),
            bind_formats("", "", &[1], &[int4(3), int4(1)], results),
            describe(b'P', ""),
            execute("", 0),
        ])
    };
    let row = |formats: &[u16]| {
        x(&[
            parse("", "SELECT n, s, d FROM t WHERE id = $1", &[]),
            bind_formats("", "", &[1], &[int4(2)], formats),
            describe(b'P', ""),
            execute("", 0),
        ])
    };
    vec![
        both(&[]),
        both(&[0]),
        both(&[1]),
        row(&[1]),
        row(&[0, 1, 0]),
        row(&[1, 0]),
        row(&[7]),
        x(&[
            parse("", ADD, &[]),
            bind_formats("", "", &[1, 0], &[int4(3), Some(b"1".to_vec())], &[1]),
            execute("", 0),
        ]),
        x(&[
            parse("", ADD, &[]),
            bind_formats("", "", &[1], &[Some(vec![1, 2, 3]), int4(1)], &[]),
            execute("", 0),
        ]),
        x(&[
            parse("", ADD, &[]),
            bind_formats("", "", &[1], &[None, int4(1)], &[]),
            execute("", 0),
        ]),
        x(&[
            parse("", ADD, &[20, 20]),
            bind_formats(
                "",
                "",
                &[1],
                &[
                    Some(7_i64.to_be_bytes().to_vec()),
                    Some(1_i64.to_be_bytes().to_vec()),
                ],
                &[],
            ),
            execute("", 0),
        ]),
    ]
}

fn add(amount: &str, id: &str) -> Vec<u8> {
    [
        parse("", ADD, &[]),
        bind("", "", &[Some(amount), Some(id)]),
        execute("", 0),
    ]
    .concat()
}

fn pipelines() -> Vec<Step> {
    vec![
        x(&[add("1", "1"), add("1", "2"), add("1", "1")]),
        x(&[add("1", "1"), add("-1000", "2"), add("1", "1")]),
        x(&[add("1", "1"), add("x", "2"), add("1", "1")]),
        x(&[add("1", "1"), parse("", "SELEC", &[]), add("1", "1")]),
        x(&[
            parse("", ADD, &[]),
            bind("", "", &[Some("1"), Some("1")]),
            execute("", 0),
            bind("", "", &[Some("1"), Some("2")]),
            execute("", 0),
        ]),
        x(&[
            parse("", ADD, &[]),
            bind("a", "", &[Some("1"), Some("1")]),
            bind("b", "", &[Some("1"), Some("2")]),
            execute("b", 0),
            execute("a", 0),
            close(b'P', "a"),
        ]),
        x(&[
            add("1", "4"),
            parse("", "SELECT n FROM t WHERE id = 4", &[]),
            bind("", "", &[]),
            execute("", 0),
        ]),
        run(READ, &[Some("1")]),
    ]
}

fn many_syncs() -> Vec<Step> {
    let units = |list: &[Vec<u8>]| ready(list.len(), list);
    let unit = |amount: &str, id: &str| [add(amount, id), sync()].concat();
    vec![
        units(&[
            unit("1", "1"),
            unit("1", "2"),
            unit("-1000", "3"),
            unit("1", "3"),
        ]),
        units(&[
            query("SELECT 1"),
            unit("1", "1"),
            query("SELEC"),
            unit("x", "1"),
            query("SELECT 2"),
        ]),
        units(&[sync(), sync(), query(""), sync()]),
        units(&[
            query("BEGIN"),
            unit("1", "1"),
            unit("-1000", "1"),
            unit("1", "1"),
            query("ROLLBACK"),
            unit("1", "1"),
        ]),
        units(&[
            [parse("p", ADD, &[]), sync()].concat(),
            [
                bind("", "p", &[Some("1"), Some("1")]),
                execute("", 0),
                sync(),
            ]
            .concat(),
            [
                bind("", "p", &[Some("1"), Some("2")]),
                execute("", 0),
                sync(),
            ]
            .concat(),
            [close(b'S', "p"), sync()].concat(),
            [
                bind("", "p", &[Some("1"), Some("2")]),
                execute("", 0),
                sync(),
            ]
            .concat(),
        ]),
    ]
}

fn mistakes() -> Vec<Step> {
    vec![
        x(&[bind("", "missing", &[])]),
        x(&[execute("missing", 0)]),
        x(&[describe(b'S', "missing")]),
        x(&[describe(b'P', "missing")]),
        x(&[close(b'S', "missing"), close(b'P', "missing")]),
        x(&[parse("", READ, &[]), bind("", "", &[]), execute("", 0)]),
        x(&[
            parse("", READ, &[]),
            bind("", "", &[Some("1"), Some("2")]),
            execute("", 0),
        ]),
        x(&[
            parse("", READ, &[]),
            bind_formats("", "", &[0, 0, 0], &[Some(b"1".to_vec())], &[]),
            execute("", 0),
        ]),
        x(&[parse("", "SELECT 1; SELECT 2", &[])]),
        x(&[
            parse("", "SELECT $1 + $2", &[]),
            bind("", "", &[Some("1"), Some("2")]),
            execute("", 0),
        ]),
        x(&[
            parse("", READ, &[25]),
            bind("", "", &[Some("1")]),
            execute("", 0),
        ]),
        x(&[parse("", ADD, &[25, 23]), describe(b'S', "")]),
        run(READ, &[Some("not a number")]),
        run("SELECT 1 / $1", &[Some("0")]),
        x(&[describe(b'X', "")]),
    ]
}

fn names() -> Vec<Step> {
    vec![
        x(&[parse("a", READ, &[]), describe(b'S', "a")]),
        x(&[parse("a", READ, &[])]),
        x(&[bind("", "a", &[Some("1")]), execute("", 0)]),
        x(&[
            parse("b", ADD, &[]),
            bind("", "b", &[Some("1"), Some("1")]),
            execute("", 0),
            bind("", "a", &[Some("1")]),
            execute("", 0),
        ]),
        x(&[
            close(b'S', "a"),
            parse("a", ALL, &[]),
            bind("", "a", &[]),
            execute("", 0),
        ]),
        x(&[parse("c", "SELEC", &[])]),
        x(&[bind("", "c", &[])]),
        x(&[parse("d", "SELECT 7", &[]), parse("e", "SELEC", &[])]),
        x(&[bind("", "d", &[]), execute("", 0)]),
        // The unnamed statement survives Syncs, and errors elsewhere.
        x(&[parse("", ADD, &[])]),
        x(&[bind("", "", &[Some("2"), Some("2")]), execute("", 0)]),
        x(&[bind("", "", &[Some("x"), Some("2")]), execute("", 0)]),
        x(&[
            describe(b'S', ""),
            bind("", "", &[Some("2"), Some("2")]),
            execute("", 0),
        ]),
        // PostgreSQL skips queries, too, until the Sync.
        x(&[
            bind("", "", &[Some("x"), Some("2")]),
            query("SELECT 'a query that is skipped drops nothing'"),
        ]),
        x(&[bind("", "", &[Some("2"), Some("2")]), execute("", 0)]),
        x(&[bind("", "", &[Some("x"), Some("2")]), query("DEALLOCATE b")]),
        x(&[bind("", "b", &[Some("1"), Some("1")]), execute("", 0)]),
        q("SELECT 'a simple query drops it'"),
        x(&[bind("", "", &[Some("2"), Some("2")]), execute("", 0)]),
        q("DEALLOCATE b"),
        x(&[bind("", "b", &[Some("1"), Some("1")]), execute("", 0)]),
        q("DEALLOCATE ALL"),
        x(&[bind("", "a", &[]), execute("", 0)]),
        x(&[parse("a", ALL, &[]), parse("b", READ, &[])]),
        q("DISCARD ALL"),
        x(&[bind("", "a", &[]), execute("", 0)]),
    ]
}

fn portals() -> Vec<Step> {
    vec![
        x(&[
            parse("", ALL, &[]),
            bind("", "", &[]),
            execute("", 2),
            execute("", 2),
            execute("", 0),
            execute("", 0),
        ]),
        x(&[execute("", 1)]),
        x(&[
            parse("", ALL, &[]),
            bind("", "", &[]),
            execute("", 5),
            execute("", 1),
        ]),
        q("BEGIN"),
        x(&[
            parse("", ALL, &[]),
            bind("cursor", "", &[]),
            execute("cursor", 2),
        ]),
        x(&[describe(b'P', "cursor"), execute("cursor", 2)]),
        x(&[bind("cursor", "", &[])]),
        q("ROLLBACK"),
        q("BEGIN"),
        x(&[
            parse("", ALL, &[]),
            bind("cursor", "", &[]),
            execute("cursor", 1),
            close(b'P', "cursor"),
        ]),
        x(&[execute("cursor", 1)]),
        q("COMMIT"),
        q("BEGIN"),
        q("DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id"),
        x(&[execute("c", 2)]),
        q("FETCH 2 FROM c"),
        q("MOVE 1 IN c"),
        q("FETCH ALL FROM c"),
        q("CLOSE c"),
        q("COMMIT"),
        x(&[
            parse("", "UPDATE t SET n = n + 1 RETURNING id", &[]),
            bind("", "", &[]),
            execute("", 2),
            execute("", 2),
        ]),
        q("SELECT n FROM t ORDER BY id"),
    ]
}

fn flushes() -> Vec<Step> {
    vec![
        up_to(b"1E", &[parse("", READ, &[]), flush()]),
        up_to(b"2E", &[bind("", "", &[Some("1")]), flush()]),
        up_to(b"TE", &[describe(b'P', ""), flush()]),
        up_to(b"CE", &[execute("", 0), flush()]),
        ready(1, &[sync()]),
        up_to(b"E", &[parse("", "SELEC", &[]), flush()]),
        ready(
            1,
            &[bind("", "", &[]), flush(), execute("", 0), flush(), sync()],
        ),
        up_to(b"CE", &[add("1", "1"), flush()]),
        up_to(b"E", &[add("-1000", "1"), flush()]),
        ready(1, &[sync()]),
        q("SELECT n FROM t WHERE id = 1"),
        up_to(
            b"nTE",
            &[parse("f", READ, &[]), describe(b'S', "f"), flush()],
        ),
        ready(1, &[flush(), flush(), sync()]),
        x(&[bind("", "f", &[Some("2")]), execute("", 0)]),
    ]
}

fn mixed() -> Vec<Step> {
    vec![
        ready(2, &[parse("", READ, &[]), query("SELECT 1"), sync()]),
        ready(
            2,
            &[add("1", "1"), query("SELECT n FROM t WHERE id = 1"), sync()],
        ),
        ready(
            2,
            &[
                add("-1000", "1"),
                query("SELECT 1"),
                sync(),
                query("SELECT 2"),
            ],
        ),
        q("SELECT n FROM t WHERE id = 1"),
    ]
}
