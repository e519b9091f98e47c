//! Pools, users and server connections are shown as the configuration and the operator want them to be.

use super::{operator, row, stage, table};
use crate::harness::cluster;
use crate::harness::message::{self, query};
use crate::harness::paceline::Paceline;
use crate::harness::raw::{PROTOCOL, RawClient};
use crate::harness::stage::Target;
use crate::harness::{Stage, until};

#[test]
fn the_settings_of_a_user_are_shown() {
    if Target::chosen() == Target::Bare {
        return;
    }
    let cluster = cluster::shared();
    let paceline = Paceline::configured(&format!(
        "[paceline]
        admin_users = \"boss\"
        [databases.\"*\"]
        primary = \"postgres://postgres@127.0.0.1:{port}\"
        [databases.strict]
        primary = \"postgres://postgres@127.0.0.1:{port}\"
        pool_mode = \"statement\"
        [users.thrifty]
        pool_size = 3
        reserve_pool_size = 2
        pool_mode = \"session\"\n",
        port = cluster.port()
    ))
    .spawn();
    let database = cluster.database();
    for user in ["thrifty", "other"] {
        let login = [("user", user), ("database", database.as_str())];
        RawClient::connect(paceline.port(), &login).ok("SELECT 1");
    }
    let boss = [("user", "boss"), ("database", "pgbouncer")];
    let mut operator = RawClient::connect(paceline.port(), &boss);
    let mut shown = |show: &str, user: &str, column: &str| {
        let which = if show == "SHOW USERS" { "name" } else { "user" };
        row(&mut operator, show, which, user)[column].clone()
    };
    assert_eq!(shown("SHOW POOLS", "thrifty", "pool_mode"), "session");
    assert_eq!(shown("SHOW POOLS", "other", "pool_mode"), "transaction");
    let columns = ["pool_size", "reserve_pool_size", "pool_mode"];
    let mut said = |user: &str| columns.map(|column| shown("SHOW USERS", user, column));
    assert_eq!(said("thrifty"), ["3", "2", "session"]);
    assert_eq!(said("other"), ["", "", ""]);
    let mut mode =
        |name: &str| row(&mut operator, "SHOW DATABASES", "name", name)["pool_mode"].clone();
    assert_eq!([mode("strict"), mode(&database)], ["statement", ""]);
}

#[test]
fn connections_that_are_kept_while_all_is_suspended_are_idle() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    let mut operator = operator(&stage);
    stage.client().ok("SELECT 1");
    operator.ok("SUSPEND");
    let server = row(&mut operator, "SHOW SERVERS", "database", &stage.database);
    assert_eq!(server["state"], "idle");
    let active = table(&operator.ok("SHOW ACTIVE_SOCKETS"));
    assert!(active.iter().all(|row| row["type"] == "C"), "{active:#?}");
    operator.ok("RESUME");
}

#[test]
fn a_connection_that_is_to_be_replaced_needs_to_be_closed() {
    let Some(stage) = stage(Stage::on_shared().set("default_pool_size=1")) else {
        return;
    };
    let (mut operator, mut client) = (operator(&stage), stage.client());
    let mut close_needed = || {
        let server = row(&mut operator, "SHOW SERVERS", "database", &stage.database);
        (server["id"].clone(), server["close_needed"].clone())
    };
    client.ok("BEGIN");
    let (first, before) = close_needed();
    assert_eq!(before, "0");
    super::operator(&stage).ok("RECONNECT");
    assert_eq!(close_needed(), (first.clone(), "1".to_owned()));
    client.ok("COMMIT");
    client.ok("SELECT 1");
    until("another one serves", || {
        let (id, close_needed) = close_needed();
        id != first && close_needed == "0"
    });
}

/// As in PgBouncer, a client that waits for a server connection while it logs in is a waiting client of its pool.
#[test]
fn logins_that_wait_are_shown() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    let mut operator = operator(&stage);
    operator.ok("PAUSE");
    let login = |name: &str, date_style: &str| {
        let mut client = RawClient::open(stage.port());
        let parameters = [
            ("user", "postgres"),
            ("database", stage.database.as_str()),
            ("application_name", name),
            ("datestyle", date_style),
        ];
        client.send(&message::startup(PROTOCOL, &parameters));
        client
    };
    let (mut first, mut second) = (login("first", "ISO"), login("second", "ISO"));
    let in_pools = |operator: &mut RawClient| {
        let pools = table(&operator.ok("SHOW POOLS"));
        let pool = pools
            .into_iter()
            .find(|row| row["database"] == stage.database);
        pool.map(|row| [row["cl_active"].clone(), row["cl_waiting"].clone()])
    };
    let counts = |active: &str, waiting: &str| Some([active.to_owned(), waiting.to_owned()]);
    until("both wait", || in_pools(&mut operator) == counts("0", "2"));
    let seen = row(&mut operator, "SHOW CLIENTS", "application_name", "first");
    assert_eq!(
        ["state", "user", "database"].map(|column| seen[column].as_str()),
        ["waiting", "postgres", stage.database.as_str()]
    );
    // An operator can end them as he can others.
    assert_eq!(
        operator.ok(&format!("KILL_CLIENT {}", seen["id"])).tag(),
        "KILL_CLIENT"
    );
    let last = first.receive_to_end();
    assert_eq!(
        last.last().unwrap().fields().text(),
        "admin forced disconnect"
    );
    until("one waits", || in_pools(&mut operator) == counts("0", "1"));
    operator.ok("RESUME");
    second.receive_until(b"Z");
    assert_eq!(in_pools(&mut operator), counts("1", "0"));
    // Of two clients one is idle, and one logs in. The server's reports under its settings are not known yet.
    operator.ok("PAUSE");
    let mut third = login("third", "German");
    until("one waits, one does not", || {
        in_pools(&mut operator) == counts("1", "1")
    });
    operator.ok("RESUME");
    third.receive_until(b"Z");
    second.send(&query("SELECT 1"));
    second.reply();
    assert_eq!(in_pools(&mut operator), counts("2", "0"));
}
