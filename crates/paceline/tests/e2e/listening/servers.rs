//! Listeners and server connections: their own, one that does not answer, and one of a database that moves.

use super::{heard, payloads, receive, rest};
use crate::harness::caretaker;
use crate::harness::cluster::Cluster;
use crate::harness::message::query;
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{Stage, until};

const DO_LISTEN: &str = "DO $$BEGIN EXECUTE 'LISTEN d'; END$$";

/// The client's own server listens: it executes LISTEN and UNLISTEN.
#[test]
fn a_client_does_not_listen_by_both() {
    let stage = Stage::on_shared().set("listen_mode=shared").open();
    let mut observer = stage.direct();
    for mut client in [stage.direct(), stage.client()] {
        client.ok(DO_LISTEN);
        client.ok("LISTEN d; LISTEN e");
        observer.ok("NOTIFY d, '1'; NOTIFY e, '2'; NOTIFY d, '3'");
        assert_eq!(payloads(&receive(&mut client, 3)), ["1", "2", "3"]);
        client.ok("UNLISTEN d");
        observer.ok("NOTIFY d, 'no'; NOTIFY e, '4'");
        assert_eq!(payloads(&rest(&mut client)), ["4"]);
        client.ok("UNLISTEN *");
        observer.ok("NOTIFY d, 'no'; NOTIFY e, 'no'");
        assert_eq!(rest(&mut client), []);
    }
}

/// It is ambiguous which of the two is meant.
#[test]
fn a_client_that_has_come_to_listen_by_both_is_refused_more() {
    let stage = Stage::on_shared().set("listen_mode=shared").open();
    if stage.target() == Target::Bare {
        return;
    }
    let (mut client, mut observer) = (stage.client(), stage.direct());
    client.ok("LISTEN s");
    client.ok(DO_LISTEN);
    for sql in ["LISTEN x", "UNLISTEN s", "UNLISTEN *", "BEGIN; UNLISTEN d"] {
        client.simple(sql).expect_error("0A000");
        client.ok("ROLLBACK");
    }
    client.ok("DISCARD ALL");
    observer.ok("NOTIFY s; NOTIFY d");
    assert_eq!(rest(&mut client), []);
}

fn shared_backend(observer: &mut RawClient) -> u32 {
    let pid = observer.number(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'paceline: LISTEN' AND datname = current_database()",
    );
    u32::try_from(pid).unwrap()
}

/// The shared connection is stopped: clients that do not listen have the pool.
#[test]
fn a_shared_connection_that_does_not_answer_keeps_no_server_of_the_pool() {
    let stage = Stage::on(Cluster::private())
        .set("listen_mode=shared")
        .set("default_pool_size=1")
        .open();
    if stage.target() == Target::Bare {
        return;
    }
    let (mut listener, mut other, mut observer) = (stage.client(), stage.client(), stage.direct());
    listener.ok("LISTEN a");
    other.ok("SELECT 1");
    let backend = shared_backend(&mut observer);
    caretaker::signal("STOP", backend);
    listener.send(&query("NOTIFY a, 'own'"));
    until("it has notified", || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE query = 'NOTIFY a, ''own''' AND state = 'idle'";
        observer.number(sql) == 1
    });
    // The server is lost, and another one takes its place.
    other.ok("SELECT 1");
    // A client that leaves does not wait: its connection is closed at once.
    let mut leaves = stage.client();
    leaves.send(&query("LISTEN b"));
    leaves.hang_up();
    other.ok("SELECT 1");
    caretaker::signal("CONT", backend);
    let own = heard(&listener.reply().expect_ok("notify").0);
    assert_eq!(payloads(&own), ["own"]);
    assert_eq!(own[0].process, listener.process());
}

/// Without a connection nothing can be waited for.
#[test]
fn a_listener_works_on_while_its_connection_is_away() {
    let stage = Stage::on(Cluster::private())
        .set("listen_mode=shared")
        .set("listen_lost=log")
        .set("server_login_retry=600s")
        .open();
    if stage.target() == Target::Bare {
        return;
    }
    let mut admin = stage.cluster.client("postgres");
    let mut client = stage.client();
    client.ok("LISTEN a");
    client.ok("SELECT count(*) FROM pg_class");
    let name = &stage.database;
    admin.ok(&format!(
        "UPDATE pg_database SET datallowconn = false WHERE datname = '{name}'"
    ));
    admin.ok(&format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'paceline: LISTEN' AND datname = '{name}'"
    ));
    for _ in 0..3 {
        client.ok("SELECT count(*) FROM pg_class");
        client.ok("NOTIFY a, 'missed'");
    }
}

/// Most of those that listen may not log in any more.
#[test]
fn another_user_may_open_the_connection() {
    let stage = Stage::on(Cluster::private())
        .set("listen_mode=shared")
        .set("listen_lost=log")
        .set("server_login_retry=100ms")
        .open();
    let mut direct = stage.direct();
    let users: Vec<String> = (0..8).map(|number| format!("listener_{number}")).collect();
    let mut clients: Vec<RawClient> = Vec::new();
    for user in &users {
        direct.ok(&format!("CREATE ROLE {user} LOGIN"));
        let mut client = stage.client_with(&[("user", user)]);
        client.ok("LISTEN a");
        clients.push(client);
    }
    if stage.target() == Target::Bare {
        return;
    }
    for user in &users[1..] {
        direct.ok(&format!("ALTER ROLE {user} NOLOGIN"));
    }
    let backend = shared_backend(&mut direct);
    direct.ok(&format!("SELECT pg_terminate_backend({backend})"));
    until("another connection listens", || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'paceline: LISTEN' AND usename = 'listener_0' \
             AND pid <> ";
        direct.number(&format!("{sql}{backend}")) == 1
    });
    // Its channels are listened on when this is answered.
    clients[0].ok("LISTEN b");
    direct.ok("NOTIFY a, 'again'");
    assert_eq!(payloads(&receive(&mut clients[7], 1)), ["again"]);
}

/// Two databases of the configuration are one, and then they are not.
#[test]
fn a_database_that_moves_takes_only_its_own_clients_along() {
    if Target::chosen() == Target::Bare {
        return;
    }
    let cluster = Cluster::private();
    let (one, two) = (cluster.database(), cluster.database());
    let file = |first: &str| {
        let at = |name: &str, database: &str| {
            let port = cluster.port();
            format!("[databases.{name}]\nprimary = \"postgres://127.0.0.1:{port}/{database}\"\n")
        };
        let settings = "[paceline]\nlisten_mode = \"shared\"\nlisten_lost = \"log\"\n";
        format!("{settings}{}{}", at("first", first), at("second", &one))
    };
    let paceline = Paceline::configured(&file(&one)).spawn();
    let connect = |database: &str| {
        RawClient::connect(
            paceline.port(),
            &[("user", "postgres"), ("database", database)],
        )
    };
    let mut first: Vec<_> = (0..5).map(|_| connect("first")).collect();
    let mut second: Vec<_> = (0..5).map(|_| connect("second")).collect();
    first.iter_mut().chain(&mut second).for_each(|client| {
        client.ok("LISTEN a");
    });
    paceline.reload(&file(&two), "Reload: done");
    for mut client in first {
        let last = client.receive_to_end().pop().unwrap().fields();
        assert_eq!(last.sqlstate(), "08006");
    }
    let mut again = connect("first");
    again.ok("LISTEN a");
    cluster.client(&one).ok("NOTIFY a, 'one'");
    cluster.client(&two).ok("NOTIFY a, 'two'");
    for client in &mut second {
        assert_eq!(payloads(&rest(client)), ["one"]);
    }
    assert_eq!(payloads(&rest(&mut again)), ["two"]);
}
