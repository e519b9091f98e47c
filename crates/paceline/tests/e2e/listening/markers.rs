//! LISTEN inside a transaction is a NOTIFY on the client's server: other clients, and functions, must not notice it.

use super::{heard, payloads, receive, rest, shared};
use crate::harness::Stage;
use crate::harness::stage::Target;

/// Operators and the checks of domains that notify, and functions that send the payload of an old marker.
const SLY: &str = "CREATE FUNCTION op(int, int) RETURNS int LANGUAGE plpgsql AS $$BEGIN PERFORM pg_notify('a', 'x'); RETURN 1; END$$; \
        CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = op); \
        CREATE FUNCTION checked(int) RETURNS bool LANGUAGE plpgsql AS $$BEGIN PERFORM pg_notify('a', 'x'); RETURN true; END$$; \
        CREATE DOMAIN sly AS int CHECK (checked(VALUE)); \
        CREATE FUNCTION forge(int, int) RETURNS int LANGUAGE plpgsql AS $$BEGIN PERFORM pg_notify('paceline_listen', '*1 '); RETURN 1; END$$; \
        CREATE OPERATOR =!= (LEFTARG = int, RIGHTARG = int, FUNCTION = forge)";

/// The name of the channel that Paceline uses, as a client of the same role can see it.
fn channel_of_markers(stage: &Stage) -> String {
    let mut client = stage.client();
    client.ok("BEGIN; LISTEN z");
    let sql = stage.direct().value(
        "SELECT query FROM pg_stat_activity WHERE query ~ '; NOTIFY \\w+, ''L' AND datname = current_database()",
    );
    client.ok("ROLLBACK");
    let name = sql.split("NOTIFY ").nth(1).unwrap();
    name.split(',').next().unwrap().to_owned()
}

#[test]
fn no_client_takes_the_channel_of_markers_from_others() {
    let stage = Stage::on_shared().set("listen_mode=shared").open();
    if stage.target() == Target::Bare {
        return;
    }
    let (mut client, mut other, mut observer) = (stage.client(), stage.client(), stage.direct());
    client.ok("LISTEN keep");
    let name = channel_of_markers(&stage);
    for sql in ["LISTEN", "BEGIN; LISTEN"] {
        other.simple(&format!("{sql} {name}")).expect_error("53400");
        other.ok("ROLLBACK");
        other.ok(&format!("UNLISTEN {name}"));
    }
    // A name that any client may use.
    other.ok("LISTEN paceline_listen; UNLISTEN paceline_listen");
    other.ok("LISTEN paceline_listen");
    client.ok("BEGIN");
    client.ok("LISTEN x");
    client.ok("COMMIT");
    observer.ok("NOTIFY x, '1'; NOTIFY paceline_listen, '2'");
    assert_eq!(payloads(&rest(&mut client)), ["1"]);
    assert_eq!(payloads(&rest(&mut other)), ["2"]);
}

#[test]
fn a_notification_by_an_sql_operator_is_the_clients_own() {
    let stage = shared();
    stage.direct().ok(SLY);
    let (mut client, mut other) = (stage.client(), stage.client());
    client.ok("LISTEN a");
    for round in 0..100 {
        for sql in ["SELECT 1 === 2", "SELECT 5::sly"] {
            let own = heard(&client.ok(sql).0);
            assert_eq!(own.len(), 1, "{sql}");
            assert_eq!(own[0].process, client.process(), "{sql}");
            other.ok(sql);
            let mut all = heard(&client.ok(&format!("NOTIFY a, '{round}'")).0);
            while all.len() < 2 {
                all.extend(receive(&mut client, 1));
            }
            for heard in all {
                let own = heard.payload != "x";
                assert_eq!(own, heard.process == client.process(), "{sql}: {heard:?}");
            }
        }
    }
}

#[test]
fn notifications_of_other_clients_change_no_channels() {
    let stage = shared();
    stage.direct().ok(SLY);
    let (mut client, mut other) = (stage.client(), stage.client());
    client.ok("LISTEN keep");
    for _ in 0..100 {
        other.ok("SELECT 1 =!= 2");
        client.ok("BEGIN");
        client.ok("LISTEN y");
        client.ok("COMMIT");
        assert_eq!(
            payloads(&heard(&client.ok("NOTIFY keep, 'here'").0)),
            ["here"]
        );
    }
}

/// Transactions that receive their own notifications, while others receive theirs.
#[test]
fn a_transaction_receives_all_its_own_notifications_beside_others() {
    let stage = Stage::on_shared().set("listen_mode=shared").open();
    let others: Vec<_> = (0..3)
        .map(|_| {
            let mut other = stage.client();
            std::thread::spawn(move || {
                other.ok("LISTEN other");
                for _ in 0..300 {
                    assert!(!heard(&other.ok("NOTIFY other").0).is_empty());
                }
            })
        })
        .collect();
    for _ in 0..40 {
        let mut client = stage.client();
        client.ok("BEGIN; SELECT count(pg_notify('a', g::text)) FROM generate_series(1, 300) g");
        client.ok("LISTEN a");
        assert_eq!(heard(&client.ok("COMMIT").0).len(), 300);
    }
    for other in others {
        other.join().unwrap();
    }
}
