//! `lock_timeout` and `statement_timeout` of a client count while its request waits for a row, with PostgreSQL's errors.

use super::*;

/// The source of a client's limit.
#[derive(Debug, Clone, Copy)]
enum By {
    Set,
    Startup,
    /// `ALTER DATABASE`, for sessions that begin later.
    Database,
}

const LOCK: (&str, &str, &str) = (
    "lock_timeout",
    "55P03",
    "canceling statement due to lock timeout",
);
const STATEMENT: (&str, &str, &str) = (
    "statement_timeout",
    "57014",
    "canceling statement due to statement timeout",
);

/// Clients with a limit of 300 ms whose requests wait: each gets its error while the outsider still holds the row.
#[track_caller]
fn waits_no_longer(
    (setting, sqlstate, text): (&str, &str, &str),
    by: By,
    sql: &dyn Fn(usize) -> String,
) {
    let stage = unused_stage(2);
    let limit = "300ms";
    if let By::Database = by {
        let database = &stage.database;
        let role = format!("ALTER DATABASE \"{database}\" SET {setting} = '{limit}'");
        stage.direct().ok(&role);
    }
    let client = || match by {
        By::Startup => stage.client_with(&[("options", &format!("-c {setting}={limit}"))]),
        By::Set => {
            let mut client = stage.client();
            client.ok(&format!("SET {setting} = '{limit}'"));
            client
        }
        By::Database => stage.client(),
    };
    client().ok(&sql(SPARE));
    stage.await_analysis();
    let mut outsider = stage.direct();
    outsider.ok("SET lock_timeout = 0");
    outsider.ok(HOLD);
    let mut clients: Vec<RawClient> = (0..6).map(|_| client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&both_protocols(&sql(1))[number % 2]);
    }
    for client in &mut clients {
        let error = client.reply().expect_error(sqlstate).error().unwrap();
        assert_eq!(error.text(), text);
    }
    assert_eq!(clients[0].value("SELECT 5"), "5");
    outsider.ok("COMMIT");
    let expected = if sql(1).starts_with("INSERT") {
        "INSERT 0 1"
    } else {
        "UPDATE 1"
    };
    assert_eq!(clients[1].ok(&sql(1)).tag(), expected);
    assert_eq!(
        stage.direct().number("SELECT qty FROM stock WHERE id = 1"),
        1
    );
}

#[test]
fn lock_timeout_counts_behind_a_row() {
    for by in [By::Set, By::Startup, By::Database] {
        waits_no_longer(LOCK, by, &add);
    }
    waits_no_longer(LOCK, By::Set, &upsert);
}

#[test]
fn statement_timeout_counts_behind_a_row() {
    for by in [By::Set, By::Startup, By::Database] {
        waits_no_longer(STATEMENT, by, &add);
    }
    waits_no_longer(STATEMENT, By::Set, &upsert);
}

/// Requests without a limit continue to wait when those with one time out, in whichever order they arrived.
#[test]
fn limits_concern_only_the_clients_that_have_them() {
    let stage = stage(2, &[&add(SPARE)]);
    let limited = || {
        let mut client = stage.client();
        client.ok("SET lock_timeout = '200ms'");
        client
    };
    limited().ok(&add(SPARE));
    stage.await_analysis();
    let mut outsider = outsider(&stage);
    let mut clients: Vec<RawClient> = (0..8)
        .map(|n| {
            if n % 2 == 0 {
                limited()
            } else {
                stage.client()
            }
        })
        .collect();
    for client in &mut clients {
        client.send(&query(&add(1)));
    }
    for client in clients.iter_mut().step_by(2) {
        client.reply().expect_error("55P03");
    }
    outsider.ok("COMMIT");
    for client in clients.iter_mut().skip(1).step_by(2) {
        assert_eq!(
            client.reply().expect_ok("without a limit").tag(),
            "UPDATE 1"
        );
    }
    assert_eq!(
        stage.direct().number("SELECT qty FROM stock WHERE id = 1"),
        4
    );
}

/// Waiting for a server connection counts toward `query_wait_timeout`, as with PgBouncer, not toward the client's limits.
#[test]
fn waiting_for_a_connection_is_not_waiting_for_a_row() {
    let stage = stage(1, &[]);
    if stage.target() == Target::Bare {
        return;
    }
    let mut client = stage.client();
    // Long enough for a statement on a busy machine.
    client.ok("SET lock_timeout = '2s'; SET statement_timeout = '2s'");
    client.ok(&add(SPARE));
    stage.await_analysis();
    let mut other = stage.client();
    other.ok("BEGIN");
    client.send(&query(&add(1)));
    let mut observer = stage.client();
    until("it waits in the line", || {
        crate::harness::stage::counters(&mut observer).waiting == 1
    });
    other.ok("SELECT pg_sleep(2.5)");
    other.ok("COMMIT");
    assert_eq!(
        client.reply().expect_ok("a connection came late").tag(),
        "UPDATE 1"
    );
}
