//! PolarDB's hints in both spellings, and what Paceline answers itself: `SHOW hotspot`, `SHOW VARIABLES`,
//! `SHOW GLOBAL STATUS`. PostgreSQL knows none of this, so there is nothing to compare with.

use crate::harness::message::{bind, describe, execute, parse, query, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Gate, Stage};

/// `None` when PostgreSQL is the target.
fn stage() -> Option<Stage> {
    let stage = Stage::on_shared().set("default_pool_size=2").open();
    stage.direct().ok(
        "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL CHECK (n >= 0));
         INSERT INTO t SELECT i, 10 FROM generate_series(1, 5) i",
    );
    (stage.target() == Target::Paceline).then_some(stage)
}

fn n(stage: &Stage, id: usize) -> i64 {
    stage
        .direct()
        .number(&format!("SELECT n FROM t WHERE id = {id}"))
}

/// A lone bare word would be the name of a table, so it takes two to be hints.
const TWO: [&str; 2] = ["COMMIT_ON_SUCCESS", "ROLLBACK_ON_FAIL"];

/// The statement in the spelling with a comment and in the one with bare words.
fn spellings(hints: &[&str], rest: &str) -> [String; 2] {
    let comment = hints.join(" ");
    let words = comment.replace('(', " ").replace(')', "");
    [
        format!("UPDATE /*+ {comment} */ t {rest}"),
        format!("UPDATE {words} t {rest}"),
    ]
}

#[test]
fn hinted_units_group_where_unhinted_do_not() {
    let Some(stage) = stage() else { return };
    let unhinted = "UPDATE t SET n = n + 1 WHERE id = 1 RETURNING n".to_owned();
    let [comment, words] = spellings(&TWO, "SET n = n + 1 WHERE id = 1 RETURNING n");
    let mut left = 10;
    for (sql, groups) in [(&comment, true), (&words, true), (&unhinted, false)] {
        let mut clients = stage.clients(6);
        clients[0].ok(&sql.replace("id = 1", "id = 99"));
        let before = stage.counters();
        let mut gate = Gate::close_all(&stage, 2);
        for client in &mut clients {
            gate.submit(client, &query(sql));
        }
        gate.open();
        let mut values: Vec<i64> = clients
            .iter_mut()
            .map(|client| client.reply().expect_ok(sql).value().parse().unwrap())
            .collect();
        // Those that do not group leave on both server connections, and may pass each other inside PostgreSQL.
        values.sort_unstable();
        assert_eq!(values, (left + 1..=left + 6).collect::<Vec<_>>(), "{sql}");
        left += 6;
        let after = stage.counters();
        let would_have = after.would_have_grouped - before.would_have_grouped;
        assert_eq!(after.members > before.members, groups, "{sql}: {after:?}");
        // The two statements at the gate have no hint, either.
        assert_eq!(would_have > 2, !groups, "{sql}: {before:?} {after:?}");
    }
}

#[test]
fn commit_on_success_commits_the_transaction() {
    let Some(stage) = stage() else { return };
    for (id, sql) in (1..).zip(spellings(&TWO, "SET n = n + 1 WHERE id = ? RETURNING n")) {
        let mut client = stage.client();
        client.ok("BEGIN");
        client.ok(&format!("UPDATE t SET n = n + 5 WHERE id = {id}"));
        let reply = client.ok(&sql.replace('?', &id.to_string()));
        assert_eq!(
            (reply.tag().as_str(), reply.status()),
            ("UPDATE 1", 'I'),
            "{reply:#?}"
        );
        assert_eq!(reply.value(), "16");
        assert_eq!(reply.tags(), "TDCZ");
        assert_eq!(n(&stage, id), 16);
        client.ok("BEGIN");
        let reply = client.ask(&unit(&sql.replace('?', "$1"), &[Some(&id.to_string())]));
        assert_eq!(
            (reply.tag().as_str(), reply.status()),
            ("UPDATE 1", 'I'),
            "{reply:#?}"
        );
        assert_eq!(n(&stage, id), 17);
        assert_eq!(client.simple("COMMIT").0[0].fields().sqlstate(), "25P01");
    }
}

/// BEGIN, work and the hinted statement in one batch of pipelined units, and in one text.
#[test]
fn commit_on_success_works_in_pipelines_and_multi_statements() {
    let Some(stage) = stage() else { return };
    let [hinted, _] = spellings(&["COMMIT_ON_SUCCESS"], "SET n = n + 1 WHERE id = 1");
    let mut client = stage.client();
    client.send(
        &[
            query("BEGIN"),
            unit("SELECT 1", &[]),
            unit(&hinted, &[]),
            query("SELECT 2"),
        ]
        .concat(),
    );
    let states: Vec<char> = (0..4)
        .map(|_| client.reply().expect_ok("pipeline").status())
        .collect();
    assert_eq!(states, ['T', 'T', 'I', 'I']);
    assert_eq!(n(&stage, 1), 11);
    let reply = client.ok(&format!(
        "BEGIN; UPDATE t SET n = n + 1 WHERE id = 2; {hinted}"
    ));
    assert_eq!(reply.status(), 'I');
    assert_eq!((n(&stage, 1), n(&stage, 2)), (12, 11));
}

#[test]
fn without_the_hint_nothing_is_committed() {
    let Some(stage) = stage() else { return };
    let mut client = stage.client();
    client.ok("BEGIN");
    assert_eq!(client.ok("UPDATE t SET n = 0 WHERE id = 1").status(), 'T');
    assert_eq!(n(&stage, 1), 10);
    client.ok("ROLLBACK");
}

#[test]
fn a_missed_target_is_an_error_and_changes_nothing() {
    let Some(stage) = stage() else { return };
    let misses = [("1", "id = 99"), ("2", "id = 1"), ("0", "id = 1")];
    for (target, condition) in misses {
        let hint = format!("TARGET_AFFECT_ROW({target})");
        for sql in spellings(
            &["COMMIT_ON_SUCCESS", &hint],
            &format!("SET n = n + 1 WHERE {condition}"),
        ) {
            let mut client = stage.client();
            for reply in [client.simple(&sql), client.ask(&unit(&sql, &[]))] {
                assert!(reply.error().is_some(), "{sql}: {reply:#?}");
                assert_eq!(reply.status(), 'I', "{sql}: {reply:#?}");
                assert_eq!(reply.tag(), "", "{sql}: {reply:#?}");
            }
            assert_eq!(n(&stage, 1), 10, "{sql}");
            assert_eq!(client.value("SELECT 1"), "1");
        }
    }
}

#[test]
fn a_target_that_is_met_is_no_error() {
    let Some(stage) = stage() else { return };
    let mut expected = 10;
    for sql in spellings(
        &["COMMIT_ON_SUCCESS", "TARGET_AFFECT_ROW(1)"],
        "SET n = n + 1 WHERE id = 1 RETURNING n",
    ) {
        let mut client = stage.client();
        for reply in [client.simple(&sql), client.ask(&unit(&sql, &[]))] {
            expected += 1;
            assert_eq!(reply.expect_ok(&sql).value(), expected.to_string());
        }
    }
}

#[test]
fn a_missed_target_fails_the_transaction() {
    let Some(stage) = stage() else { return };
    for sql in spellings(
        &["COMMIT_ON_SUCCESS", "TARGET_AFFECT_ROW(1)"],
        "SET n = n + 1 WHERE id = 99",
    ) {
        let mut client = stage.client();
        client.ok("BEGIN");
        client.ok("UPDATE t SET n = 0 WHERE id = 1");
        let reply = client.simple(&sql);
        assert!(reply.error().is_some(), "{reply:#?}");
        assert_eq!(reply.status(), 'E');
        client.simple("SELECT 1").expect_error("25P02");
        assert_eq!(client.ok("COMMIT").tag(), "ROLLBACK");
        assert_eq!(n(&stage, 1), 10);
    }
}

#[test]
fn rollback_on_fail_ends_the_transaction() {
    let Some(stage) = stage() else { return };
    let hints: [&[&str]; 2] = [
        &["COMMIT_ON_SUCCESS", "ROLLBACK_ON_FAIL"],
        &[
            "COMMIT_ON_SUCCESS",
            "ROLLBACK_ON_FAIL",
            "TARGET_AFFECT_ROW(1)",
        ],
    ];
    let failures = [
        "SET n = n / 0 WHERE id = 1",
        "SET n = n - 100 WHERE id = 1",
        "SET n = 1 WHERE id = 99",
    ];
    for (hints, rest) in [
        (hints[0], failures[0]),
        (hints[0], failures[1]),
        (hints[1], failures[2]),
    ] {
        for sql in spellings(hints, rest) {
            let mut client = stage.client();
            client.ok("BEGIN");
            client.ok("UPDATE t SET n = 0 WHERE id = 2");
            let reply = client.simple(&sql);
            assert!(reply.error().is_some(), "{sql}: {reply:#?}");
            assert_eq!(reply.status(), 'I', "{sql}: {reply:#?}");
            client.ok("BEGIN");
            client.ok("UPDATE t SET n = 0 WHERE id = 2");
            let reply = client.ask(&unit(&sql, &[]));
            assert_eq!(
                (reply.error().is_some(), reply.status()),
                (true, 'I'),
                "{sql}: {reply:#?}"
            );
            assert_eq!(client.value("SELECT n FROM t WHERE id = 2"), "10");
        }
    }
}

#[test]
fn without_rollback_on_fail_the_transaction_has_failed() {
    let Some(stage) = stage() else { return };
    let [sql, _] = spellings(&["COMMIT_ON_SUCCESS"], "SET n = n / 0 WHERE id = 1");
    let mut client = stage.client();
    client.ok("BEGIN");
    let reply = client.simple(&sql).expect_error("22012");
    assert_eq!(reply.status(), 'E');
    client.ok("ROLLBACK");
}

#[test]
fn members_with_a_target_fail_alone() {
    let Some(stage) = stage() else { return };
    let sql = "UPDATE /*+ COMMIT_ON_SUCCESS TARGET_AFFECT_ROW(1) */ t SET n = n - 4 WHERE id = 3 AND n >= 4 RETURNING n";
    let mut clients = stage.clients(5);
    assert!(
        clients[0]
            .simple(&sql.replace("id = 3", "id = 99"))
            .error()
            .is_some()
    );
    let mut gate = Gate::close_all(&stage, 2);
    for client in &mut clients {
        gate.submit(client, &query(sql));
    }
    gate.open();
    let replies: Vec<_> = clients.iter_mut().map(RawClient::reply).collect();
    let values: Vec<Option<String>> = replies
        .iter()
        .map(|reply| reply.error().is_none().then(|| reply.value()))
        .collect();
    assert_eq!(
        values,
        [Some("6".into()), Some("2".into()), None, None, None]
    );
    assert_eq!(n(&stage, 3), 2);
}

fn rows(client: &mut RawClient, sql: &str) -> Vec<Vec<Option<String>>> {
    let simple = client.ok(sql);
    let extended = client.ask(
        &[
            parse("", sql, &[]),
            bind("", "", &[]),
            describe(b'P', ""),
            execute("", 0),
            sync(),
        ]
        .concat(),
    );
    assert_eq!(
        simple.tags(),
        extended.tags().trim_start_matches("12"),
        "{extended:#?}"
    );
    let rows = simple.rows();
    assert_eq!(extended.expect_ok(sql).rows(), rows);
    rows
}

#[test]
fn paceline_answers_questions_about_itself() {
    let Some(stage) = stage() else { return };
    let mut client = stage.client();
    assert_eq!(client.ok("SHOW hotspot").value(), "on");
    assert_eq!(client.ok("SHOW hotspot_for_autocommit").value(), "off");
    assert_eq!(rows(&mut client, "SHOW hotspot"), [[Some("on".to_owned())]]);
    let variables = rows(&mut client, "SHOW VARIABLES LIKE 'hotspot%'");
    let mut names: Vec<&str> = variables
        .iter()
        .map(|row| row[0].as_deref().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "hotspot",
            "hotspot_for_autocommit",
            "hotspot_lock_type",
            "hotspot_update_max_wait_time"
        ]
    );
    let status = rows(&mut client, "SHOW GLOBAL STATUS LIKE 'Group_update%'");
    assert!(status.len() >= 7, "{status:?}");
    assert_eq!(
        rows(
            &mut client,
            "SHOW GLOBAL STATUS LIKE 'Group_update_members'"
        )
        .len(),
        1
    );
    assert_eq!(rows(&mut client, "SHOW STATUS LIKE 'nothing%'").len(), 0);
    // PostgreSQL answers for names that Paceline does not have.
    assert_eq!(client.value("SHOW server_version_num").len(), 6);
    client
        .simple("SHOW hotspot_of_nothing")
        .expect_error("42704");
}

/// Also while every server connection waits, and in the middle of a transaction.
#[test]
fn answers_about_itself_need_no_server() {
    let Some(stage) = stage() else { return };
    let gate = Gate::close_all(&stage, 2);
    let mut client = stage.client();
    assert_eq!(client.ok("SHOW hotspot").value(), "on");
    gate.open();
    client.ok("BEGIN");
    let reply = client.ok("SHOW hotspot");
    assert_eq!((reply.value().as_str(), reply.status()), ("on", 'T'));
    client.ok("COMMIT");
}

#[test]
fn a_pinned_client_must_meet_each_target() {
    let Some(stage) = stage() else { return };
    let mut client = stage.client();
    client.ok("LISTEN something");
    let all = "UPDATE /*+ TARGET_AFFECT_ROW(1) */ t SET n = 0";
    let one = "UPDATE /*+ TARGET_AFFECT_ROW(1) */ t SET n = n + 1 WHERE id = 2";
    for _ in 0..2 {
        assert_eq!(client.simple(all).sqlstate(), "21000");
        assert_eq!(client.ask(&unit(all, &[])).sqlstate(), "21000");
    }
    assert_eq!(n(&stage, 1), 10, "nothing has changed");
    client.ok(one);
    assert_eq!(n(&stage, 2), 11, "it is committed");
}
