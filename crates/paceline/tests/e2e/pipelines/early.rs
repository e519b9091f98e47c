//! A server executes messages when the client sends them, as PostgreSQL does, and not when the unit ends.

use super::{executions, prepare, stage};
use crate::harness::message::{bind, close, describe, execute, parse, query, run, sync};
use crate::harness::raw::RawClient;
use crate::harness::reply::{Message, transcript};
use crate::harness::stage::Target;
use crate::harness::{Stage, assert_same, until};

/// Another session of the same database, by both ways.
fn both(stage: &Stage) -> [RawClient; 2] {
    [stage.direct(), stage.client()]
}

/// Returns when a session has the advisory lock.
#[track_caller]
pub(super) fn await_lock(observer: &mut RawClient, key: u32) {
    until("the statement has been carried out", || {
        observer.number(&format!(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = {key} \
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )) == 1
    });
}

/// Takes the lock until the end of the transaction.
pub(super) fn lock(key: u32) -> Vec<u8> {
    run(&format!("SELECT pg_advisory_xact_lock({key})"), &[])
}

#[test]
fn what_cannot_be_grouped_is_executed_before_the_request_ends() {
    let stage = stage();
    let mut observer = stage.direct();
    let mut key = 0;
    for mut client in both(&stage) {
        for beginning in [
            // Two statements.
            run("SELECT 1", &[]),
            // A named portal.
            [parse("", "SELECT 1", &[]), bind("p", "", &[])].concat(),
            // A row limit.
            [
                parse("", "SELECT 1", &[]),
                bind("", "", &[]),
                execute("", 1),
            ]
            .concat(),
            [parse("", "SELECT 1", &[]), describe(b'S', "")].concat(),
            // No single read or write.
            run("BEGIN", &[]),
            run("SET LOCAL application_name TO 'x'", &[]),
        ] {
            key += 1;
            client.send(&[beginning, lock(key)].concat());
            await_lock(&mut observer, key);
            client.send(&[run("ROLLBACK", &[]), sync()].concat());
            client.reply().expect_ok("the rest");
        }
    }
}

/// It could have been grouped if its Sync had arrived.
#[test]
fn one_statement_is_executed_after_a_pause() {
    let stage = stage();
    let mut observer = stage.direct();
    for (key, mut client) in (100..).zip(both(&stage)) {
        client.send(&lock(key));
        await_lock(&mut observer, key);
        client.send(&sync());
        client.reply().expect_ok("the rest");
        client.send(&run("UPDATE t SET n = n + 1 WHERE id = 1", &[]));
        until("the row is locked", || {
            let free = "SELECT count(*) FROM (SELECT FROM t WHERE id = 1 FOR UPDATE SKIP LOCKED) f";
            observer.number(free) == 0
        });
        client.send(&sync());
        assert_eq!(client.reply().expect_ok("the rest").tag(), "UPDATE 1");
    }
}

/// PostgreSQL sends an error at once, whatever it keeps of other answers.
#[test]
fn an_error_is_sent_before_the_request_ends() {
    let stage = stage();
    let answers = |mut client: RawClient| {
        let mut told = Vec::new();
        for unit in [
            [run("SELECT 1", &[]), run("SELECT 1/0", &[])].concat(),
            run("SELECT 1/0", &[]),
            [
                run("SELECT 1", &[]),
                parse("", "no SQL", &[]),
                executions(9),
            ]
            .concat(),
        ] {
            client.send(&unit);
            told.extend(client.receive_until(b"E"));
            client.send(&[run("SELECT 2", &[]), sync()].concat());
            told.extend(client.reply().0);
        }
        told
    };
    let [bare, here] = both(&stage).map(answers);
    assert_same("errors", &bare, &here);
}

/// A pipeline that continues while its answers arrive.
#[test]
fn answers_come_as_postgresql_sends_them() {
    let stage = stage();
    for mut client in both(&stage) {
        client.send(&prepare());
        let mut answered = 0;
        for _ in 0..20 {
            // PostgreSQL sends its buffer when it has 8 KiB.
            client.send(&executions(1_000));
            while answered % 1_000 < 100 {
                answered += usize::from(client.receive().tag == b'C');
            }
            while answered % 1_000 != 0 && answered % 1_000 < 500 {
                answered += usize::from(client.receive().tag == b'C');
            }
            answered = answered / 1_000 * 1_000;
            client.send(&sync());
            let rest = client.reply();
            assert!(rest.0.iter().all(|m| m.tag != b'E'), "{rest:?}");
        }
    }
}

/// Messages that cost a server nothing must not stop those that it would answer.
#[test]
fn a_client_may_say_much_before_it_waits() {
    let stage = stage();
    let said = |mut client: RawClient| {
        let nothing = close(b'S', "nothing").repeat(40_000);
        client.send(&[prepare(), bind("", "log", &[Some("1")]), nothing].concat());
        client.send(&[execute("", 0), sync()].concat());
        tags(&client.reply().0)
    };
    let [bare, here] = both(&stage).map(said);
    assert_eq!(bare, here);
}

fn tags(messages: &[Message]) -> String {
    messages.iter().map(|m| char::from(m.tag)).collect()
}

const TARGETED: &str = "UPDATE /*+ TARGET_AFFECT_ROW(1) */ t SET n = n + 1 WHERE id = $1";

/// If a statement with TARGET_AFFECT_ROW misses its number of rows, its request fails, at any position in the request and however
/// the request arrives.
#[test]
fn a_target_is_missed_late_in_a_long_unit() {
    let stage = stage();
    if stage.target() == Target::Bare {
        return;
    }
    let mut client = stage.client();
    client.ask(&[prepare(), parse("aim", TARGETED, &[23]), sync()].concat());
    let aim = |id: &str| [bind("", "aim", &[Some(id)]), execute("", 0)].concat();
    let unnamed = |id: &str| {
        [
            parse("", TARGETED, &[23]),
            bind("", "", &[Some(id)]),
            execute("", 0),
        ]
        .concat()
    };
    let mut observer = stage.direct();
    let logged = |observer: &mut RawClient| observer.number("SELECT count(*) FROM log");
    for aim in [aim, unnamed] {
        for before in [1, 1_000] {
            for all_at_once in [true, false] {
                let start = logged(&mut observer);
                for (id, lasts) in [("77", false), ("1", true)] {
                    client.send(&executions(before));
                    if !all_at_once {
                        // It is on its way before the rest is sent.
                        until("the server works on it", || {
                            observer.number(
                                "SELECT count(*) FROM pg_locks WHERE relation = 'log'::regclass",
                            ) > 0
                        });
                    }
                    client.send(&[aim(id), sync()].concat());
                    let reply = client.reply();
                    match lasts {
                        true => drop(reply.expect_ok("it touches one row")),
                        false => drop(reply.expect_error("21000")),
                    }
                }
                assert_eq!(logged(&mut observer), start + before as i64);
            }
        }
    }
    // In the client's own transaction, which it has begun in the same unit.
    let own = [run("BEGIN", &[]), executions(2), aim("77"), sync()].concat();
    client.ask(&own).expect_error("21000");
    let left = client.simple("COMMIT");
    assert_eq!(left.tag(), "ROLLBACK");
}

/// Messages of other clients are not mixed up with it.
#[test]
fn a_unit_in_parts_is_one_transaction() {
    let stage = stage();
    let mut observer = stage.direct();
    for mut client in both(&stage) {
        let start = observer.number("SELECT count(*) FROM log");
        let mut others = stage.clients(8);
        client.send(&[prepare(), executions(2_000)].concat());
        for other in &mut others {
            assert_eq!(other.value("SELECT 5"), "5");
        }
        client.send(&[run("SELECT 1/0", &[]), executions(10), sync()].concat());
        client.reply().expect_error("22012");
        assert_eq!(observer.number("SELECT count(*) FROM log"), start);
        // A name is defined although what follows is undone.
        client
            .ask(&[executions(2_000), sync()].concat())
            .expect_ok("all");
        assert_eq!(observer.number("SELECT count(*) FROM log"), start + 2_000);
        client.ok("DEALLOCATE log");
    }
}

/// Units in parts, one behind the other, in one packet or in many.
#[test]
fn units_in_parts_follow_one_another() {
    let stage = stage();
    let lines = |mut client: RawClient, part: usize| {
        let mut bytes = [prepare(), executions(700), sync(), query("SELECT 1")].concat();
        bytes.extend([executions(700), sync(), run("SELECT 2", &[]), sync()].concat());
        bytes.chunks(part).for_each(|part| client.send(part));
        let replies: Vec<Message> = (0..4).flat_map(|_| client.reply().0).collect();
        transcript(&replies)
    };
    let bare = lines(stage.direct(), usize::MAX);
    for part in [usize::MAX, 4_000, 97] {
        assert_eq!(bare, lines(stage.client(), part));
    }
}
