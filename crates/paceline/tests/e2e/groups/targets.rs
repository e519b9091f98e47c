//! `TARGET_AFFECT_ROW`: PostgreSQL's own number of rows decides, whatever is known of the table, and however the client asks for the rows.

use crate::harness::message::{bind, execute, parse, query, run, sync, unit};
use crate::harness::stage::Target;
use crate::harness::{Stage, assert_same};

fn stage() -> Option<Stage> {
    let stage = Stage::on_shared().set("default_pool_size=2").open();
    (stage.target() == Target::Paceline).then_some(stage)
}

/// The statement runs alone, without any wait, so no group compares the table with the analysis.
#[test]
fn a_target_is_compared_although_the_table_has_changed() {
    let unconstrained = "ALTER TABLE t DROP CONSTRAINT t_code_key; INSERT INTO t VALUES (7, 10)";
    let inherited = "CREATE TABLE child () INHERITS (t); INSERT INTO child VALUES (7, 10)";
    let suppressed = "CREATE FUNCTION suppress() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN UPDATE other SET n = n + 1; RETURN NULL; END';
        CREATE TRIGGER suppress BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION suppress()";
    let update = "UPDATE /*+ COMMIT_ON_SUCCESS TARGET_AFFECT_ROW(1) */ t SET n = n + 1 WHERE code";
    for change in [unconstrained, inherited, suppressed] {
        let Some(stage) = stage() else { return };
        let mut direct = stage.direct();
        direct.ok(
            "CREATE TABLE t (code int UNIQUE, n int); INSERT INTO t VALUES (7, 10);
                   CREATE TABLE other (n int); INSERT INTO other VALUES (10)",
        );
        let requests = [
            query(&format!("{update} = 7")),
            unit(&format!("{update} = $1"), &[Some("7")]),
        ];
        let mut client = stage.client();
        for request in &requests {
            for _ in 0..3 {
                client.ask(request).expect_ok("one row has the code");
                stage.await_analysis();
            }
        }
        direct.ok("UPDATE t SET n = 10");
        direct.ok(change);
        for request in &requests {
            let reply = client.ask(request).expect_error("21000");
            assert_eq!((reply.tag().as_str(), reply.status()), ("", 'I'));
            let changed = "SELECT (SELECT count(*) FROM t WHERE n <> 10) + (SELECT count(*) FROM other WHERE n <> 10)";
            assert_eq!(direct.number(changed), 0, "{change}");
        }
    }
}

/// A client that prepares again would have no stale plan of its own.
#[test]
fn a_statement_with_a_target_meets_no_stale_plan() {
    for rows in [1, 2] {
        let Some(stage) = stage() else { return };
        let mut direct = stage.direct();
        direct.ok("CREATE TABLE t (id int PRIMARY KEY, n int);
                   INSERT INTO t VALUES (1, 0), (2, 0)");
        let update = format!(
            "UPDATE /*+ TARGET_AFFECT_ROW({rows}) */ t SET n = n + 1 WHERE id IN (1, {rows}) RETURNING *"
        );
        let mut client = stage.client();
        client
            .ask(&[parse("s", &update, &[]), sync()].concat())
            .expect_ok("parse");
        let request = [bind("", "s", &[]), execute("", 0), sync()].concat();
        for number in 1..4 {
            let reply = client.ask(&request).expect_ok(&update);
            assert_eq!(reply.rows()[0].len(), number + 1);
            assert_eq!(reply.rows()[0][1], Some(number.to_string()));
            stage.await_analysis();
            direct.ok(&format!("ALTER TABLE t ADD COLUMN c{number} int"));
        }
    }
}

/// The statement affects `found` rows; its hint demands `wanted`.
fn statements(found: u32, wanted: u32) -> Vec<String> {
    let hint = format!("/*+ TARGET_AFFECT_ROW({wanted}) */");
    vec![
        format!("UPDATE {hint} t SET n = 1 WHERE id <= {found} RETURNING id"),
        format!("UPDATE {hint} t SET n = 1 WHERE id <= {found}"),
        format!("DELETE {hint} FROM t WHERE id <= {found} RETURNING id, n"),
        format!(
            "INSERT {hint} INTO t SELECT i, 1 FROM generate_series(11, 10 + {found}) i RETURNING *"
        ),
        format!("SELECT {hint} id FROM t WHERE id <= {found} FOR UPDATE"),
    ]
}

fn returns_rows(sql: &str) -> bool {
    ["RETURNING", "SELECT"]
        .iter()
        .any(|word| sql.contains(word))
}

fn with_rows(mode: &str) -> Option<Stage> {
    let stage = Stage::on_shared()
        .set("default_pool_size=2")
        .set(&format!("pool_mode={mode}"))
        .open();
    if stage.target() == Target::Bare {
        return None;
    }
    stage
        .direct()
        .ok("CREATE TABLE t (id int PRIMARY KEY, n int);
        INSERT INTO t SELECT i, 0 FROM generate_series(1, 5) i");
    Some(stage)
}

const MODES: [&str; 2] = ["transaction", "session"];

/// The sum of the rows before any statement of [`statements`].
const UNCHANGED: &str = "SELECT sum(id + 100 * n) FROM t";

#[test]
fn a_row_limit_hides_no_row_that_the_hint_demands() {
    for mode in MODES {
        let Some(stage) = with_rows(mode) else { return };
        let (mut client, mut bare) = (stage.client(), stage.direct());
        for (rows, limit) in [(0, 1), (1, 1), (1, 2), (2, 2), (2, 3), (1, i32::MAX as u32)] {
            for sql in statements(rows, rows) {
                let begin = [parse("", &sql, &[]), bind("", "", &[])].concat();
                let once = [begin.clone(), execute("", limit), sync()].concat();
                let again = [begin, execute("", limit), execute("", limit), sync()].concat();
                let rest = [execute("", limit), execute("", 0), sync()].concat();
                for requests in [
                    vec![&once],
                    vec![&again],
                    vec![&query("BEGIN"), &once, &rest, &query("COMMIT")],
                    vec![&query("BEGIN"), &again, &rest, &query("COMMIT")],
                ] {
                    let answers = [&mut bare, &mut client].map(|connection| {
                        let all: Vec<_> = requests.iter().map(|r| connection.ask(r)).collect();
                        let number = connection.number(UNCHANGED);
                        connection.ok(
                            "TRUNCATE t; INSERT INTO t SELECT i, 0 FROM generate_series(1, 5) i",
                        );
                        (
                            all.iter().map(|reply| reply.0.clone()).collect::<Vec<_>>(),
                            number,
                        )
                    });
                    let [bare, here] = answers;
                    assert_eq!(bare.1, here.1, "{sql}, limit {limit}");
                    for (bare, here) in bare.0.iter().zip(&here.0) {
                        assert_same(&format!("{sql}, limit {limit}"), bare, here);
                    }
                }
            }
        }
    }
}

#[test]
fn a_target_is_missed_with_a_row_limit() {
    for mode in MODES {
        let Some(stage) = with_rows(mode) else { return };
        let (mut client, mut observer) = (stage.client(), stage.direct());
        let before = observer.number(UNCHANGED);
        for (found, wanted, limit) in [
            (2, 1, 1),
            (3, 1, 1),
            (3, 1, 2),
            (1, 2, 2),
            (0, 1, 1),
            (1, 0, 1),
        ] {
            for sql in statements(found, wanted) {
                let executions = [execute("", limit), execute("", limit)];
                // PostgreSQL executes a portal that returns no rows only once.
                let most = 1 + usize::from(returns_rows(&sql));
                for executions in [&executions[..1], &executions[..most]] {
                    let request = [
                        parse("", &sql, &[]),
                        bind("", "", &[]),
                        executions.concat(),
                        sync(),
                    ]
                    .concat();
                    let what = format!("{sql}, limit {limit}");
                    let reply = client.ask(&request);
                    assert_eq!(
                        (reply.sqlstate().as_str(), reply.status()),
                        ("21000", 'I'),
                        "{what}"
                    );
                    assert_eq!(observer.number(UNCHANGED), before, "{what}");
                    client.ok("BEGIN");
                    let reply = client.ask(&request);
                    assert_eq!(
                        (reply.sqlstate().as_str(), reply.status()),
                        ("21000", 'E'),
                        "{what}"
                    );
                    assert_eq!(client.ok("COMMIT").tag(), "ROLLBACK", "{what}");
                }
            }
        }
    }
}

/// PostgreSQL does not report the number of rows while the portal has more of them.
#[test]
fn a_row_limit_below_the_target_is_refused() {
    let Some(stage) = with_rows("transaction") else {
        return;
    };
    let (mut client, mut observer) = (stage.client(), stage.direct());
    let before = observer.number(UNCHANGED);
    for sql in statements(3, 3) {
        let request = [run(&sql, &[]), sync()].concat();
        let limited = [
            parse("", &sql, &[]),
            bind("", "", &[]),
            execute("", 2),
            sync(),
        ]
        .concat();
        client.ask(&request).expect_ok(&sql);
        observer.ok("TRUNCATE t; INSERT INTO t SELECT i, 0 FROM generate_series(1, 5) i");
        let reply = client.ask(&limited);
        // The limit has no effect on a statement that returns no rows.
        if returns_rows(&sql) {
            assert_eq!(
                (reply.sqlstate().as_str(), reply.status()),
                ("0A000", 'I'),
                "{sql}"
            );
            assert_eq!(observer.number(UNCHANGED), before, "{sql}");
        } else {
            assert_eq!(reply.expect_ok(&sql).tag(), "UPDATE 3");
            observer.ok("UPDATE t SET n = 0");
        }
    }
}
