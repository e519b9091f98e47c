//! `DROP DATABASE` and other statements that PostgreSQL refuses while another session is in a database: a pool closes its idle
//! connections for them.

use crate::harness::cluster::Cluster;
use crate::harness::message::{query, unit};
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Stage, until};

/// Another database of the same server.
struct Other<'a> {
    stage: &'a Stage,
    name: String,
}

impl<'a> Other<'a> {
    fn of(stage: &'a Stage) -> Self {
        let name = stage.cluster.database();
        Self { stage, name }
    }

    fn client(&self) -> RawClient {
        let parameters = [("user", "postgres"), ("database", self.name.as_str())];
        RawClient::connect(self.stage.port(), &parameters)
    }

    /// Its sessions on the server.
    fn sessions(&self, observer: &mut RawClient) -> i64 {
        let name = &self.name;
        observer.number(&format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'"
        ))
    }

    /// Leaves idle connections: more than one, and of two pools.
    fn leave_connections(&self) -> Vec<RawClient> {
        let mut clients = vec![self.client(), self.client()];
        clients.iter_mut().for_each(|client| {
            client.ok("BEGIN");
        });
        clients.iter_mut().for_each(|client| {
            client.ok("COMMIT");
        });
        let parameters = [("user", "visitor"), ("database", self.name.as_str())];
        let mut visitor = RawClient::connect(self.stage.port(), &parameters);
        visitor.ok("SELECT 1");
        clients.push(visitor);
        clients
    }
}

/// A server of its own: DROP DATABASE waits until each backend of the server has closed its files of the database, and a backend whose
/// client does not read what it sends does not do that.
fn stage(mode: &str) -> Option<Stage> {
    let stage = Stage::on(Cluster::private()).set(mode).open();
    stage.direct().ok("CREATE ROLE visitor LOGIN");
    (stage.target() == Target::Paceline).then_some(stage)
}

#[test]
fn idle_connections_are_closed_for_it() {
    let Some(stage) = stage("pool_mode=transaction") else {
        return;
    };
    let mut admin = stage.client();
    let mut observer = stage.direct();
    observer.ok("SET allow_in_place_tablespaces = on");
    let space = format!("space_{}", stage.database);
    observer.ok(&format!("CREATE TABLESPACE {space} LOCATION ''"));
    for extended in [false, true] {
        let mut ask = |sql: &str| {
            let unit = if extended { unit(sql, &[]) } else { query(sql) };
            admin.ask(&unit).expect_ok(sql)
        };
        let other = Other::of(&stage);
        let name = &other.name;
        for sql in [
            format!("ALTER DATABASE {name} RENAME TO {name}_x"),
            format!("ALTER DATABASE {name} SET TABLESPACE {space}"),
            format!("CREATE DATABASE {name}_y TEMPLATE {name}"),
            format!("DROP DATABASE {name}"),
        ] {
            let _clients = other.leave_connections();
            assert!(other.sessions(&mut observer) >= 3);
            ask(&sql);
            if sql.contains("RENAME") {
                ask(&format!("ALTER DATABASE {name}_x RENAME TO {name}"));
            }
        }
        ask(&format!("DROP DATABASE {name}_y"));
    }
    observer.ok(&format!("DROP TABLESPACE {space}"));
}

/// In session pooling a connection is free when its client has left.
#[test]
fn a_session_that_is_over_does_not_stand_in_the_way() {
    let Some(stage) = stage("pool_mode=session") else {
        return;
    };
    let other = Other::of(&stage);
    drop(other.leave_connections());
    let mut observer = stage.direct();
    let name = &other.name;
    let busy = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND query NOT LIKE 'DISCARD%'"
    );
    until("they were reset", || observer.number(&busy) == 0);
    let mut admin = stage.client();
    admin.ok("SELECT 1");
    admin.ok(&format!("DROP DATABASE {name}"));
}

/// PostgreSQL waits for sessions to leave, for 5 s. Meanwhile a transaction ends, and nothing else begins.
#[test]
fn a_returned_connection_is_closed_and_none_is_opened() {
    let Some(stage) = stage("default_pool_size=2") else {
        return;
    };
    let other = Other::of(&stage);
    let name = &other.name;
    let (mut holder, mut late) = (other.client(), other.client());
    late.ok("SELECT 1");
    holder.ok("BEGIN");
    let (mut admin, mut observer) = (stage.client(), stage.direct());
    admin.send(&query(&format!("DROP DATABASE {name}")));
    until("it waits for the holder", || {
        let waits = format!(
            "SELECT count(*) FROM pg_stat_activity \
             WHERE query = 'DROP DATABASE {name}' AND state = 'active'"
        );
        observer.number(&waits) == 1 && other.sessions(&mut observer) == 1
    });
    late.send(&query("SELECT 2"));
    until("the other client is in the line", || {
        stage.counters().waiting == 1
    });
    holder.ok("COMMIT");
    admin.reply().expect_ok("the holder has left");
    let told = late.receive_to_end();
    assert_eq!(told.last().unwrap().fields().sqlstate(), "3D000");
}

/// A session that is in use stays open, and PostgreSQL reports its error.
#[test]
fn a_connection_in_use_stays_and_others_are_served_again() {
    let Some(stage) = stage("default_pool_size=1") else {
        return;
    };
    let other = Other::of(&stage);
    let name = &other.name;
    let mut holder = other.client();
    holder.ok("BEGIN; CREATE TABLE kept (id int)");
    let mut admin = stage.client();
    admin
        .simple(&format!("DROP DATABASE {name}"))
        .expect_error("55006");
    holder.ok("COMMIT");
    let mut late = other.client();
    assert_eq!(late.number("SELECT count(*) FROM kept"), 0);
    admin.ok(&format!("DROP DATABASE {name}"));
}
