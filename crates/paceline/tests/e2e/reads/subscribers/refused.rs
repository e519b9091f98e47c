//! The reasons for which a subscriber may not serve reads, as `SHOW HOSTS` shows them.

use super::{READ, Subscribed};
use crate::harness::cluster::Cluster;
use crate::harness::reply::assert_same;
use crate::harness::until;
use std::process::Command;

impl Subscribed {
    /// Returns when the subscriber serves no reads for this reason.
    fn await_reason(&self, reason: &str) {
        until(reason, || {
            let shown = self.shown(&["serves_reads", "reason"]);
            shown.starts_with('0') && shown.contains(reason)
        });
    }

    /// Returns when the subscriber has been probed after now.
    pub(super) fn await_probe(&self) {
        let age = || self.shown(&["probe_age_ms"]).parse::<u64>().unwrap();
        for _ in 0..2 {
            let mut last = age();
            until("the subscriber is probed", || {
                let before = std::mem::replace(&mut last, age());
                last < before
            });
        }
    }
}

/// Ends the session of the monitor, which keeps the settings that it began with.
fn end_monitor(server: &Cluster) {
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'paceline: monitor'";
    server.client("postgres").ok(end);
}

/// Each difference is made, found, and undone.
#[test]
fn a_subscriber_that_differs_serves_no_reads() {
    let subscribed = Subscribed::serving("reads = \"any\"\nmax_lag = 0");
    let mut client = subscribed.client();
    subscribed.await_answer(&mut client, READ);
    let changes = [
        (
            true,
            "ALTER TABLE orders ADD COLUMN note text",
            "the columns of public.orders are not those of the primary",
            "ALTER TABLE orders DROP COLUMN note",
        ),
        (
            false,
            "ALTER TABLE items ALTER COLUMN n TYPE bigint",
            "the columns of public.items are not those of the primary",
            "ALTER TABLE items ALTER COLUMN n TYPE int",
        ),
        (
            true,
            "ALTER PUBLICATION p SET TABLE orders WHERE (id > 5), items",
            "a row filter or a column list for public.orders",
            "ALTER PUBLICATION p SET TABLE orders, items",
        ),
        (
            true,
            "ALTER PUBLICATION p SET TABLE orders, items (id, n)",
            "a row filter or a column list for public.items",
            "ALTER PUBLICATION p SET TABLE orders, items",
        ),
        (
            true,
            "ALTER PUBLICATION p SET (publish = 'insert, update, delete')",
            "does not publish insert, update, delete and truncate",
            "ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')",
        ),
        (
            false,
            "ALTER TABLE orders ENABLE ROW LEVEL SECURITY",
            "public.orders on the subscriber: it has row-level security",
            "ALTER TABLE orders DISABLE ROW LEVEL SECURITY",
        ),
        (
            true,
            "ALTER TABLE orders ENABLE ROW LEVEL SECURITY",
            "public.orders on the primary: it has row-level security",
            "ALTER TABLE orders DISABLE ROW LEVEL SECURITY",
        ),
        (
            false,
            "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
             CREATE TRIGGER g BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION f();
             ALTER TABLE items ENABLE ALWAYS TRIGGER g",
            "a trigger fires when changes are applied",
            "DROP TRIGGER g ON items",
        ),
        (
            false,
            "ALTER SUBSCRIPTION s DISABLE",
            "the subscription is disabled",
            "ALTER SUBSCRIPTION s ENABLE",
        ),
        (
            false,
            "ALTER DATABASE postgres SET DateStyle = 'German'",
            "another setting for the form of answers differs",
            "ALTER DATABASE postgres RESET DateStyle",
        ),
    ];
    for (on_primary, change, reason, undo) in changes {
        let server = match on_primary {
            true => &subscribed.primary,
            false => &subscribed.subscriber,
        };
        server.client("postgres").ok(change);
        if reason.contains("form of answers") {
            end_monitor(server);
        }
        subscribed.await_reason(reason);
        subscribed.assert_elsewhere(&mut client, READ);
        server.client("postgres").ok(undo);
        if reason.contains("form of answers") {
            end_monitor(server);
        }
        subscribed.await_serving();
        subscribed.await_answer(&mut client, READ);
    }
}

/// A table that the subscription copies at this moment, or has not copied.
#[test]
fn a_table_that_is_not_copied_serves_no_reads() {
    let subscribed = Subscribed::serving("reads = \"any\"");
    let mut copy = subscribed.subscriber.client("postgres");
    // The copy of the rows fails repeatedly, because one of them exists.
    copy.ok("ALTER SUBSCRIPTION s SET PUBLICATION p WITH (refresh = false)");
    let mut publisher = subscribed.primary.client("postgres");
    publisher.ok("ALTER PUBLICATION p DROP TABLE items");
    copy.ok("ALTER SUBSCRIPTION s REFRESH PUBLICATION");
    subscribed.await_reason("no publication of the subscription has public.items");
    publisher.ok("ALTER PUBLICATION p ADD TABLE items");
    subscribed.await_reason("public.items is not part of the subscription");
    copy.ok("ALTER SUBSCRIPTION s REFRESH PUBLICATION");
    subscribed.await_reason("public.items has not caught up");
    copy.ok("TRUNCATE items");
    subscribed.await_serving();
    publisher.ok("ALTER PUBLICATION p DROP TABLE items");
    copy.ok("ALTER SUBSCRIPTION s REFRESH PUBLICATION");
    publisher.ok("ALTER PUBLICATION p ADD TABLE items");
    copy.ok("ALTER SUBSCRIPTION s REFRESH PUBLICATION WITH (copy_data = false)");
    subscribed.await_reason("has not copied the rows of public.items");
}

/// A subscriber that is behind by more than `max_lag` answers nothing, although it is well otherwise.
#[test]
fn a_subscriber_that_lags_serves_no_reads() {
    let subscribed = Subscribed::serving("reads = \"any\"\nmax_lag = \"3s\"");
    let mut client = subscribed.client();
    subscribed.await_answer(&mut client, READ);
    // A lock keeps the subscription from applying what the primary writes.
    let mut copy = subscribed.subscriber.client("postgres");
    copy.ok("BEGIN; LOCK TABLE items IN SHARE MODE");
    let mut publisher = subscribed.primary.client("postgres");
    publisher.ok("UPDATE items SET n = 7 WHERE id = 1");
    until("the lag is shown", || {
        let lag = subscribed.shown(&["lag_bytes"]);
        lag.parse::<i64>().is_ok_and(|bytes| bytes > 0)
    });
    let sum = "SELECT n FROM items WHERE id = 1";
    until("reads leave the subscriber", || client.number(sum) == 7);
    until("the lag is more than max_lag", || {
        let lag = subscribed.shown(&["lag_ms"]);
        lag.parse::<i64>().is_ok_and(|time| time > 3_000)
    });
    subscribed.assert_elsewhere(&mut client, READ);
    copy.ok("COMMIT");
    subscribed.await_answer(&mut client, READ);
    subscribed.await_caught_up();
    subscribed.await_answer(&mut client, sum);
    assert_eq!(client.number(sum), 7);
}

/// DDL of a client counts at once, not with the next probe.
#[test]
fn ddl_of_a_client_takes_reads_away_before_it_is_answered() {
    let subscribed = Subscribed::serving("reads = \"any\"\nmax_lag = 0");
    let (mut reader, mut changer) = (subscribed.client(), subscribed.client());
    let all = "SELECT * FROM items WHERE id = 1";
    subscribed.await_answer(&mut reader, all);
    for round in 0..20 {
        changer.ok(&format!("ALTER TABLE items ADD COLUMN c{round} int"));
        let columns = reader.ok(all).0[0].columns().len();
        assert_eq!(columns, 4, "an answer with the columns of before");
        changer.ok(&format!("ALTER TABLE items DROP COLUMN c{round}"));
        subscribed.await_answer(&mut reader, all);
    }
}

/// DDL on the subscriber counts before the answer, not with the next probe. The type of a column would show it.
#[test]
fn ddl_on_the_subscriber_is_noticed_by_each_read() {
    let subscribed = Subscribed::serving("reads = \"any\"\nmax_lag = 0");
    let (mut reader, mut direct) = (subscribed.client(), subscribed.primary.client("postgres"));
    let sql = "SELECT n FROM items WHERE id = 1";
    let expected = direct.simple(sql);
    let mut copy = subscribed.subscriber.client("postgres");
    for _ in 0..20 {
        subscribed.await_answer(&mut reader, sql);
        copy.ok("ALTER TABLE items ALTER COLUMN n TYPE bigint");
        for _ in 0..3 {
            assert_same("a read", &expected.0, &reader.simple(sql).0);
        }
        copy.ok("ALTER TABLE items ALTER COLUMN n TYPE int");
    }
}

/// `paceline check --connect` compares the servers, too.
#[test]
fn a_check_names_what_differs() {
    let subscribed = Subscribed::serving("reads = \"any\"");
    let check = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        command.arg("check").arg(subscribed.paceline.file());
        let output = command.arg("--connect").output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let line = printed.lines().find(|line| line.contains(", subscriber "));
        (output.status.code(), line.unwrap_or_default().to_owned())
    };
    let port = subscribed.subscriber.port();
    let about = format!("database postgres, subscriber 127.0.0.1:{port}: ");
    let serves = format!("{about}may serve reads of 2 tables");
    assert_eq!(check(), (Some(0), serves));
    let mut copy = subscribed.subscriber.client("postgres");
    copy.ok("ALTER SUBSCRIPTION s DISABLE");
    let disabled = format!("{about}serves no reads: the subscription is disabled");
    assert_eq!(check(), (Some(0), disabled));
    subscribed.subscriber.kill();
    let (code, line) = check();
    assert_eq!(code, Some(1));
    assert!(line.contains("refused"), "{line}");
}
