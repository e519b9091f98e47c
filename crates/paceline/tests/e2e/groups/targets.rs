//! `TARGET_AFFECT_ROW`: PostgreSQL's own number of rows decides, whatever is known of the table.

use crate::harness::Stage;
use crate::harness::message::{bind, execute, parse, query, sync, unit};
use crate::harness::stage::Target;

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
