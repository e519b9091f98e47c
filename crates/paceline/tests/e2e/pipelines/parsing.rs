//! Texts that take long to parse.

use super::stage;
use crate::harness::message::{bind, describe, execute, parse, query, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Reply, Stage, assert_same};
use std::thread;

/// Each is another one.
fn nested_comments(number: usize) -> String {
    let depth = 7_000;
    format!(
        "{}{}SELECT {number} AS c{number}",
        "/*".repeat(depth),
        "*/".repeat(depth)
    )
}

/// The lexers of PostgreSQL and of the parser take about a second for each: twenty of them and more, one after the other, would
/// be longer than anything here may take.
#[test]
fn texts_that_take_long_to_parse_delay_no_other_client() {
    let stage = Stage::on_shared().set("default_pool_size=1").open();
    if stage.target() == Target::Bare {
        return;
    }
    let mut other = RawClient::connect(
        stage.port(),
        &[("user", "postgres"), ("database", "postgres")],
    );
    let mut senders = stage.clients(60);
    thread::scope(|scope| {
        for (number, sender) in senders.iter_mut().enumerate() {
            let text = nested_comments(number);
            let bytes = match number % 3 {
                0 => query(&text),
                1 => unit(&text, &[]),
                _ => [parse("", &text, &[]), describe(b'S', ""), sync()].concat(),
            };
            scope.spawn(move || sender.send(&bytes));
        }
        for _ in 0..50 {
            assert_eq!(other.value("SELECT 7"), "7");
        }
    });
    // Those whose answers are not waited for are given up.
    let reply = senders[0].reply();
    assert_eq!(reply.expect_ok("nested comments").value(), "0");
}

fn list(count: usize) -> String {
    let numbers: Vec<String> = (0..count).map(|n| n.to_string()).collect();
    numbers.join(", ")
}

/// Long texts have the same effect as in PostgreSQL, in every message that can contain a text.
#[test]
fn a_long_text_says_the_same() {
    let stage = stage();
    // Parsed here, elsewhere, and not at all.
    for count in [10, 400, 3_000, 12_000] {
        let list = list(count);
        let read = format!("SELECT count(*) FROM t WHERE id IN ({list})");
        let write = format!("UPDATE t SET n = n + 1 WHERE id IN ({list}) RETURNING id");
        let insert = format!("INSERT INTO log VALUES ({}", list.replace(", ", "), (")) + ")";
        let steps = [
            query(&read),
            query(&write),
            query(&insert),
            unit(&read, &[]),
            unit(&write, &[]),
            unit(&insert, &[]),
            query(&format!("{insert}, ('no number')")),
            [parse("s", &read, &[]), sync()].concat(),
            [bind("", "s", &[]), execute("", 0), sync()].concat(),
            [parse("s", &read, &[]), sync()].concat(),
            query("BEGIN"),
            query(&write),
            unit(&insert, &[]),
            unit(&write, &[]),
            query(&format!("PREPARE q AS {read}")),
            query("EXECUTE q"),
            query(&format!(
                "PREPARE r(int[]) AS SELECT count(*) FROM t WHERE id = ANY ($1) OR id IN ({list})"
            )),
            query(&format!("EXECUTE r(ARRAY[{list}])")),
            query(&format!("SELECT 1; {read}; SELECT 1/0")),
            query("ROLLBACK"),
            unit("EXECUTE q", &[]),
            query(&format!("SELECT {list} no SQL")),
            query("DEALLOCATE ALL"),
        ];
        let said = |mut client: RawClient| -> Vec<Reply> {
            steps.iter().map(|step| client.ask(step)).collect()
        };
        let before = stage.direct();
        reset(before);
        let bare = said(stage.direct());
        reset(stage.direct());
        let here = said(stage.client());
        for (number, (bare, here)) in bare.iter().zip(&here).enumerate() {
            assert_same(&format!("step {number} with {count}"), &bare.0, &here.0);
        }
    }
}

fn reset(mut client: RawClient) {
    client.ok("UPDATE t SET n = 0");
}

/// The settings of a long text follow its client to other servers, and its hints count.
#[test]
fn a_long_text_is_understood() {
    let stage = stage();
    if stage.target() == Target::Bare {
        return;
    }
    // Parsed, not parsed, and only its beginning looked at.
    for count in [1_000, 12_000, 60_000] {
        let sets = format!(
            "SET search_path TO pg_catalog; SELECT 1 IN ({})",
            list(count)
        );
        let by_function =
            format!("SELECT set_config('search_path', 'pg_catalog', false) -- {sets}");
        for text in [sets, by_function] {
            let mut client = stage.client();
            client.ok(&text);
            let mut others = stage.clients(2);
            // Whichever server is free next.
            others.iter_mut().for_each(|other| drop(other.ok("BEGIN")));
            for other in &mut others {
                assert_eq!(client.value("SHOW search_path"), "pg_catalog");
                other.ok("COMMIT");
            }
            client.hang_up();
            assert_ne!(stage.client().value("SHOW search_path"), "pg_catalog");
        }
    }
    for count in [1_000, 12_000] {
        let list = list(count);
        let mut hinted = stage.client();
        hinted.ok("BEGIN");
        let text = format!("UPDATE /*+ COMMIT_ON_SUCCESS */ t SET n = 9 WHERE id IN ({list})");
        assert_eq!(hinted.ok(&text).status(), 'I', "{count}");
        let text = format!("UPDATE /*+ TARGET_AFFECT_ROW(2) */ t SET n = 10 WHERE id IN ({list})");
        hinted.simple(&text).expect_error("21000");
        assert_eq!(hinted.number("SELECT count(*) FROM t WHERE n = 9"), 5);
    }
    let list = list(400);
    let mut bare = stage.client();
    let text = format!("UPDATE COMMIT_ON_SUCCESS t SET n = 11 WHERE id IN ({list})");
    assert_eq!(bare.ok(&text).tag(), "UPDATE 5");
}
