//! Grouping that operators and the configuration allow or deny for tables and statements, and tables that logical replication reads.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::harness::cluster::{self, Cluster};
use crate::harness::message::unit;
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::stage::{Counters, REASON, Target, counters};
use crate::harness::until;

const SETUP: &str = "
    CREATE TABLE stock (id int PRIMARY KEY, qty int NOT NULL);
    CREATE TABLE other (id int PRIMARY KEY, qty int NOT NULL);
    INSERT INTO stock VALUES (1, 0); INSERT INTO other VALUES (1, 0);
    CREATE TABLE gate (id int PRIMARY KEY, passed int NOT NULL);
    INSERT INTO gate VALUES (1, 0)";

const ADD: &str = "UPDATE stock SET qty = qty + 1 WHERE id = $1 RETURNING qty";
const ADD_HINTED: &str =
    "UPDATE /*+ COMMIT_ON_SUCCESS */ stock SET qty = qty + 1 WHERE id = $1 RETURNING qty";
const ADD_OTHER: &str = "UPDATE other SET qty = qty + 1 WHERE id = $1 RETURNING qty";
const READ: &str = "SELECT qty FROM stock WHERE id = $1";

const DENIED: &str = "an operator or the configuration denies grouping";
const CAPTURED: &str =
    "it has no hint, and its table is in a publication or behind a logical replication slot";

/// Members of a group.
const CLIENTS: i64 = 5;

/// A database, and Paceline with one server connection in front of it.
struct Scene {
    cluster: Arc<Cluster>,
    database: String,
    paceline: Paceline,
}

/// `None` when PostgreSQL is the target.
fn scene(cluster: Arc<Cluster>, settings: &str, of_database: &str) -> Option<Scene> {
    if Target::chosen() == Target::Bare {
        return None;
    }
    let database = cluster.database();
    cluster.client(&database).ok(SETUP);
    let file = configuration(&cluster, &database, settings, of_database);
    Some(Scene {
        paceline: Paceline::configured(&file).spawn(),
        cluster,
        database,
    })
}

fn configuration(cluster: &Cluster, database: &str, settings: &str, of_database: &str) -> String {
    format!(
        "[paceline]\nadmin_users = \"postgres\"\ndefault_pool_size = 1\n{settings}\n\
         [databases.{database}]\nprimary = \"postgres://127.0.0.1:{}/{database}\"\n{of_database}\n",
        cluster.port()
    )
}

impl Scene {
    fn client(&self) -> RawClient {
        self.to(&self.database)
    }

    fn to(&self, database: &str) -> RawClient {
        RawClient::connect(
            self.paceline.port(),
            &[("user", "postgres"), ("database", database)],
        )
    }

    fn order(&self, command: &str) {
        self.to("pgbouncer").ok(command);
    }

    fn counters(&self) -> Counters {
        counters(&mut self.client())
    }

    /// Executes a statement of several clients that arrive while the only server connection waits. Each must be answered as if it had
    /// run alone, in the order of arrival. Returns whether all were one group.
    fn together(&self, sql: &str) -> bool {
        let ask = unit(sql, &[Some("1")]);
        self.learn(sql);
        let before = self.counters();
        let mut outsider = self.cluster.client(&self.database);
        outsider.ok("BEGIN; SELECT FROM gate FOR UPDATE");
        let mut held = self.client();
        held.send(&unit(
            "UPDATE gate SET passed = passed + 1 WHERE id = $1",
            &[Some("1")],
        ));
        until("the connection waits", || {
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
            outsider.number(waiting) == 1
        });
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| self.client()).collect();
        let mut status = self.client();
        for (number, client) in (1..).zip(&mut clients) {
            client.send(&ask);
            until("the request waits", || {
                counters(&mut status).waiting == number
            });
        }
        outsider.ok("COMMIT");
        held.reply();
        let answers: Vec<i64> = clients
            .iter_mut()
            .map(|client| client.reply().expect_ok(sql).value().parse().unwrap())
            .collect();
        if sql.starts_with("UPDATE") {
            let first = answers[0];
            let expected: Vec<i64> = (first..first + CLIENTS).collect();
            assert_eq!(answers, expected, "{sql}");
        }
        let after = self.counters();
        assert_eq!(after.fallbacks, before.fallbacks);
        match (after.groups - before.groups, after.members - before.members) {
            (0, 0) => false,
            (1, CLIENTS) => true,
            other => panic!("{other:?} groups and members of {sql}"),
        }
    }

    /// Executes a statement until Paceline has found out about it.
    fn learn(&self, sql: &str) {
        until("the statement is analyzed", || {
            self.client().ask(&unit(sql, &[Some("1")])).expect_ok(sql);
            self.reason(sql) != "PostgreSQL has not been asked about it yet"
        });
    }

    /// The reason why the requests of a statement run alone; empty if they do not.
    fn reason(&self, sql: &str) -> String {
        let rows = self.client().ok("SHOW GROUPS").rows();
        let row = rows.iter().find(|row| row[0].as_deref() == Some(sql));
        let reason = row.and_then(|row| row[REASON].clone());
        reason.unwrap_or_default()
    }

    /// The id of a statement, as operators see it.
    fn id(&self, sql: &str) -> String {
        let rows = self.to("pgbouncer").ok("SHOW GROUPS").rows();
        let begins = sql.split(" = ").next().unwrap();
        let mut names = rows.iter().filter_map(|row| row[2].as_deref());
        let name = names.find(|name| name[9..].starts_with(begins));
        name.unwrap()[..8].to_owned()
    }

    /// The rows of `SHOW GROUPING`, each as one line, without the database.
    fn decisions(&self) -> Vec<String> {
        let rows = self.to("pgbouncer").ok("SHOW GROUPING").rows();
        let line = |row: &Vec<Option<String>>| {
            assert_eq!(row[0].as_deref(), Some(&*self.database));
            row[1..].iter().fold(String::new(), |mut line, value| {
                let _ = write!(line, "{} ", value.as_deref().unwrap());
                line
            })
        };
        rows.iter().map(line).collect()
    }
}

#[test]
fn an_operator_denies_and_allows_grouping() {
    let on = "hotspot_for_autocommit = true";
    let Some(scene) = scene(cluster::shared(), on, "") else {
        return;
    };
    let database = &scene.database;
    assert!(scene.together(ADD));
    scene.order(&format!("DENY GROUPING {database} public.stock"));
    assert!(!scene.together(ADD));
    assert_eq!(scene.reason(ADD), DENIED);
    assert!(!scene.together(ADD_HINTED), "the hint does not count");
    assert!(scene.together(ADD_OTHER), "another table");
    assert_eq!(scene.decisions(), ["public.stock deny console "]);
    // A decision on a statement has precedence over those on its table.
    let id = scene.id(ADD);
    scene.order(&format!("allow grouping {database} TEMPLATE {id};"));
    assert!(scene.together(ADD));
    scene.order(&format!("RESET GROUPING {database} template {id}"));
    assert!(!scene.together(ADD));
    scene.order(&format!("RESET GROUPING {database} public.stock"));
    assert!(scene.together(ADD));
    assert!(scene.decisions().is_empty());
}

#[test]
fn an_allowed_table_needs_no_hint() {
    let allowed = "allow_grouping = [\"public.stock\"]";
    let Some(scene) = scene(cluster::shared(), "", allowed) else {
        return;
    };
    assert!(scene.together(ADD));
    assert!(!scene.together(ADD_OTHER));
    assert_eq!(scene.decisions(), ["public.stock allow configuration "]);
}

#[test]
fn reads_of_a_denied_table_are_not_shared() {
    let Some(scene) = scene(cluster::shared(), "", "") else {
        return;
    };
    let statistics = |scene: &Scene| {
        let rows = scene.client().ok("SHOW GROUPS").rows();
        let shared = |row: &&Vec<Option<String>>| {
            row[0].as_deref() == Some(READ)
                && ["share", "pipeline"].map(Some).contains(&row[1].as_deref())
        };
        rows.iter().filter(shared).count()
    };
    scene.order(&format!("DENY GROUPING {} public.stock", scene.database));
    scene.together(READ);
    assert_eq!(statistics(&scene), 0);
    scene.order(&format!("RESET GROUPING {} public.stock", scene.database));
    scene.together(READ);
    assert_eq!(statistics(&scene), 1);
}

#[test]
fn a_reload_applies_the_configuration_and_keeps_what_operators_decide() {
    let on = "hotspot_for_autocommit = true";
    let denied = "deny_grouping = [\"public.stock\", \"public.other\"]";
    let Some(scene) = scene(cluster::shared(), on, denied) else {
        return;
    };
    assert!(!scene.together(ADD));
    scene.order(&format!("ALLOW GROUPING {} public.stock", scene.database));
    assert!(scene.together(ADD));
    assert!(!scene.together(ADD_OTHER));
    let denied = "deny_grouping = [\"public.stock\"]";
    let text = configuration(&scene.cluster, &scene.database, on, denied);
    scene.paceline.reload(&text, "Reload: done");
    assert!(scene.together(ADD_OTHER));
    assert!(scene.together(ADD));
    assert_eq!(scene.decisions(), ["public.stock allow console "]);
}

#[test]
fn published_tables_are_grouped_with_hints_or_if_allowed() {
    let on = "hotspot_for_autocommit = true";
    let Some(scene) = scene(cluster::shared(), on, "") else {
        return;
    };
    scene
        .cluster
        .client(&scene.database)
        .ok("CREATE PUBLICATION changes FOR TABLE stock");
    assert!(!scene.together(ADD));
    assert_eq!(scene.reason(ADD), CAPTURED);
    assert!(scene.together(ADD_OTHER));
    assert!(
        scene
            .paceline
            .logged("are not grouped unless allow_grouping names it")
    );
    assert!(scene.together(ADD_HINTED));
    assert!(
        scene
            .paceline
            .logged("its consumers see one change for a group of updates of a row")
    );
    scene.order(&format!("ALLOW GROUPING {} public.stock", scene.database));
    assert!(scene.together(ADD));
    let warnings = scene.paceline.heard("logical replication slot");
    assert_eq!(warnings, 2, "one for each kind");
}

/// A slot whose plugin needs no publication shows changes of all tables.
#[test]
fn a_logical_slot_captures_all_tables() {
    let cluster = Cluster::with(&[("wal_level", "logical")]);
    let on = "hotspot_for_autocommit = true";
    let Some(scene) = scene(cluster, on, "") else {
        return;
    };
    let mut direct = scene.cluster.client(&scene.database);
    direct.ok("SELECT pg_create_logical_replication_slot('decoded', 'test_decoding')");
    assert!(!scene.together(ADD));
    assert_eq!(scene.reason(ADD), CAPTURED);
    direct.ok("SELECT pg_drop_replication_slot('decoded')");
}

#[test]
fn a_wrong_decision_is_refused() {
    let Some(scene) = scene(cluster::shared(), "", "") else {
        return;
    };
    let mut operator = scene.to("pgbouncer");
    for command in [
        "DENY GROUPING",
        "DENY GROUPING nowhere public.stock",
        &format!("DENY GROUPING {} stock", scene.database),
        &format!("DENY GROUPING {} template 12", scene.database),
        &format!("DENY {} public.stock", scene.database),
    ] {
        operator.simple(command).expect_error("08P01");
    }
    assert!(scene.decisions().is_empty());
}
