//! A client with a long pipeline delays no other. Nothing here is measured: other clients get answers before its end.

use super::{executions, prepare, stage};
use crate::harness::message::{query, sync};
use crate::harness::raw::{RawClient, socket};
use crate::harness::stage::Target;
use crate::harness::{Stage, until};
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// One that talks and listens at once.
struct Talker {
    reader: RawClient,
    writer: TcpStream,
}

impl Talker {
    fn of(stage: &Stage, port: u16) -> Self {
        let reader = socket(port);
        let writer = reader.try_clone().unwrap();
        let parameters = [("user", "postgres"), ("database", stage.database.as_str())];
        let reader = RawClient::over(port, Box::new(reader)).try_log_in(&parameters);
        Self {
            reader: reader.unwrap(),
            writer,
        }
    }
}

/// Reads up to ReadyForQuery; counts the statements that were executed.
fn carried_out(client: &mut RawClient) -> usize {
    let mut count = 0;
    loop {
        let message = client.receive();
        match message.tag {
            b'Z' => return count,
            b'E' => panic!("{message:?}"),
            tag => count += usize::from(tag == b'C'),
        }
    }
}

#[test]
fn a_pipeline_of_a_hundred_thousand_rows_ends() {
    const ROWS: usize = 100_000;
    let mut stage = stage();
    let Talker {
        mut reader,
        mut writer,
    } = Talker::of(&stage, stage.port());
    thread::scope(|scope| {
        scope.spawn(move || {
            let bytes = [prepare(), executions(ROWS), sync()].concat();
            writer.write_all(&bytes).unwrap();
        });
        assert_eq!(carried_out(&mut reader), ROWS);
    });
    assert_eq!(reader.number("SELECT count(*) FROM log"), ROWS as i64);
    if let Some(paceline) = stage.paceline() {
        let peak = paceline.memory_kib("VmHWM");
        assert!(peak < 64 << 10, "{peak} KiB");
    }
}

/// A pipeline that continues until it is stopped, and counts its executed statements.
fn while_it_runs(stage: &Stage, act: impl FnOnce(&AtomicUsize)) {
    let (ends, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let Talker {
        mut reader,
        mut writer,
    } = Talker::of(stage, stage.port());
    thread::scope(|scope| {
        scope.spawn(|| {
            writer.write_all(&prepare()).unwrap();
            let some = executions(1_000);
            // Paceline may end first.
            let mut sent = Ok(());
            while !ends.load(Ordering::Relaxed) && sent.is_ok() {
                sent = writer.write_all(&some);
            }
            let _ = writer.write_all(&sync());
        });
        scope.spawn(|| {
            while let Ok(message) = reader.try_receive() {
                match message.tag {
                    b'C' => drop(done.fetch_add(1, Ordering::Relaxed)),
                    b'Z' | b'E' => return,
                    _ => {}
                }
            }
        });
        act(&done);
        ends.store(true, Ordering::Relaxed);
    });
}

/// The pipeline's end is sent when the others are done.
#[test]
fn others_are_served_while_a_pipeline_runs() {
    let stage = stage();
    while_it_runs(&stage, |done| {
        let mut others = stage.clients(4);
        until("it is well under way", || {
            done.load(Ordering::Relaxed) > 20_000
        });
        for round in 0..50 {
            for (number, other) in others.iter_mut().enumerate() {
                let id = number + 1;
                other.ok(&format!("UPDATE t SET n = n + 1 WHERE id = {id}"));
                assert_eq!(other.number(&format!("SELECT {round} + 1")), round + 1);
            }
        }
        let before = done.load(Ordering::Relaxed);
        until("it continues", || done.load(Ordering::Relaxed) > before);
    });
}

/// So does a client in a transaction, and one with many units: it continues until the others are done.
#[test]
fn others_are_served_while_many_requests_are_executed() {
    const PART: usize = 1_000;
    let stage = stage();
    for begin in ["SELECT 1", "BEGIN"] {
        let mut talker = Talker::of(&stage, stage.port());
        talker.reader.ok(begin);
        let by_itself = match stage.target() {
            Target::Paceline => "SHOW hotspot",
            Target::Bare => "SHOW datestyle",
        };
        let units = [query(by_itself), query("SELECT 1")]
            .concat()
            .repeat(PART / 2);
        let mut other = stage.client();
        let (ends, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            // One part is always on its way while another is answered.
            scope.spawn(|| {
                talker.reader.send(&units);
                while !ends.load(Ordering::Relaxed) {
                    talker.reader.send(&units);
                    for _ in 0..PART {
                        carried_out(&mut talker.reader);
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            until("it is under way", || {
                answered.load(Ordering::Relaxed) > PART
            });
            for _ in 0..20 {
                assert_eq!(other.value("SELECT 7"), "7");
            }
            let before = answered.load(Ordering::Relaxed);
            until("it continues", || answered.load(Ordering::Relaxed) > before);
            ends.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn a_termination_does_not_wait_for_a_pipeline() {
    let mut stage = Stage::on_shared().set("shutdown_timeout=1").open();
    if stage.target() == Target::Bare {
        return;
    }
    stage.direct().ok("CREATE TABLE log (n int)");
    let mut paceline = stage.take_paceline().unwrap();
    let port = paceline.port();
    let ended = AtomicBool::new(false);
    let Talker {
        mut reader,
        mut writer,
    } = Talker::of(&stage, port);
    thread::scope(|scope| {
        scope.spawn(|| {
            writer.write_all(&prepare()).unwrap();
            let some = executions(1_000);
            while writer.write_all(&some).is_ok() {}
            assert!(ended.load(Ordering::Relaxed), "it ends by itself");
        });
        scope.spawn(|| while reader.try_receive().is_ok() {});
        let mut observer = stage.direct();
        until("the pipeline is under way", || {
            observer.number("SELECT count(*) FROM pg_locks WHERE relation = 'log'::regclass") > 0
        });
        ended.store(true, Ordering::Relaxed);
        paceline.signal_and_hear("TERM", "shutting down");
        assert_eq!(paceline.ended(), Some(0));
    });
}

/// The requests that a client has sent before it disconnected are executed until the server, or Paceline in its place, notices
/// that the client is gone: not all of them.
#[test]
fn a_pipeline_whose_client_leaves_is_not_executed_to_the_end() {
    const UNITS: usize = 30_000;
    let stage = stage();
    for port in [stage.cluster.port(), stage.port()] {
        for (begin, unit) in [
            ("SELECT 1", query("INSERT INTO log VALUES (1)")),
            ("BEGIN", query("SELECT nextval('numbers')")),
        ] {
            let mut observer = stage.direct();
            observer.ok("TRUNCATE log; DROP SEQUENCE IF EXISTS numbers; CREATE SEQUENCE numbers");
            let mut talker = Talker::of(&stage, port);
            talker.reader.ok(begin);
            let parameters = [("user", "postgres"), ("database", stage.database.as_str())];
            let mut other = RawClient::connect(port, &parameters);
            let mut writer = talker.writer.try_clone().unwrap();
            thread::scope(|scope| {
                scope.spawn(move || {
                    // It does not end if no client reads it.
                    let _ = writer.write_all(&unit.repeat(UNITS));
                });
                until("it is under way", || carried_out_so_far(&mut observer) > 0);
                talker.reader.receive();
                let _ = talker.writer.shutdown(Shutdown::Both);
            });
            drop(talker);
            for _ in 0..20 {
                assert_eq!(other.value("SELECT 7"), "7");
            }
            until("it has come to an end", || sessions(&mut observer) == 0);
            let done = carried_out_so_far(&mut observer);
            assert!(done < UNITS as i64, "{done} of {begin}");
        }
    }
}

/// Sessions that execute a statement of the busy clients of this test.
fn sessions(observer: &mut RawClient) -> i64 {
    observer.number(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
         AND (query LIKE 'INSERT INTO log%' OR query LIKE '%nextval%') AND state <> 'idle' AND pid <> pg_backend_pid()",
    )
}

fn carried_out_so_far(observer: &mut RawClient) -> i64 {
    observer.number("SELECT (SELECT count(*) FROM log) + (SELECT last_value - 1 FROM numbers)")
}
