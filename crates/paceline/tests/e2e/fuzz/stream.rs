//! Mutated streams against a running Paceline. Meanwhile, other clients get their own answers; afterwards no connection is left, to clients
//! or to PostgreSQL, and the use of memory is as before.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use super::mutate::mutated;
use super::{corpus, keep, long_run};
use crate::harness::stage::Target;
use crate::harness::wait::LIMIT;
use crate::harness::{Rng, Stage, until};

/// Streams in an ordinary run.
const STREAMS: usize = 600;

/// Number of streams before the first measurement of memory: pools, templates and buffers exist then.
const WARM: usize = 150;

/// Maximum difference of memory then: enough for many more templates, but not for many connections.
const GROWTH_KIB_MAX: u64 = 32 * 1024;

const POOL_SIZE: i64 = 2;

/// Stands in the corpus for the name of the database; as long as any name here is at the most.
const DATABASE: &[u8] = b"DATABASE";

#[test]
fn streams() {
    let mut rng = Rng::new(paceline_testing::seed());
    let mut stage = Stage::on_shared()
        .set(&format!("default_pool_size={POOL_SIZE}"))
        .set("hotspot_for_autocommit=true")
        .open();
    stage.direct().ok(
        "CREATE TABLE fuzzed (id int PRIMARY KEY, n int); CREATE TABLE mine (n int);
        INSERT INTO fuzzed SELECT i, 0 FROM generate_series(1, 5) i; INSERT INTO mine VALUES (0)",
    );
    beside_a_neighbour(&stage, || send_streams(&stage, &mut rng, WARM));
    let warm = memory(&mut stage);
    beside_a_neighbour(&stage, || send_streams(&stage, &mut rng, STREAMS - WARM));
    if stage.target() == Target::Bare {
        return;
    }
    until("no client is left", || clients(stage.port()) == 0);
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    assert!(stage.direct().number(sessions) <= POOL_SIZE);
    let now = memory(&mut stage);
    println!("resident memory: {warm} KiB after {WARM} streams, {now} KiB in the end");
    assert!(now < warm + GROWTH_KIB_MAX, "{warm} KiB, then {now} KiB");
}

fn memory(stage: &mut Stage) -> u64 {
    stage
        .paceline()
        .map_or(0, |paceline| paceline.memory_kib("VmRSS"))
}

/// Connections that were accepted on a port and not closed (proc(5), `/proc/net/tcp`).
fn clients(port: u16) -> usize {
    /// Established, and closed by the other side only.
    const OPEN: [&str; 2] = ["01", "08"];
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let local = format!(":{port:04X}");
    let open = table.lines().filter(|line| {
        let mut words = line.split_whitespace().skip(1);
        let here = words
            .next()
            .is_some_and(|address| address.ends_with(&local));
        here && words.nth(1).is_some_and(|state| OPEN.contains(&state))
    });
    open.count()
}

/// Does `work` while another client checks its own answers.
fn beside_a_neighbour(stage: &Stage, work: impl FnOnce()) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let neighbour = scope.spawn(|| check_answers(stage, &over));
        let worked = catch_unwind(AssertUnwindSafe(work));
        over.store(true, Ordering::Relaxed);
        neighbour.join().unwrap();
        worked.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

/// A client that checks its own answers: it reads what it wrote.
fn check_answers(stage: &Stage, over: &AtomicBool) {
    let mut client = stage.client_with(&[("application_name", "neighbour")]);
    let mut n = client.number("SELECT n FROM mine");
    while !over.load(Ordering::Relaxed) {
        n += 1;
        assert_eq!(client.number("UPDATE mine SET n = n + 1 RETURNING n"), n);
        assert_eq!(
            client.value(&format!("SELECT {n} + 1")),
            (n + 1).to_string()
        );
        assert_eq!(client.value("SHOW application_name"), "neighbour");
        assert_eq!(client.value("SHOW TimeZone"), client.parameters["TimeZone"]);
    }
}

/// At least `count`, first the corpus as it is; on a long run for as long as that takes.
fn send_streams(stage: &Stage, rng: &mut Rng, count: usize) {
    let (startups, sessions) = (corpus("startup"), corpus("frontend"));
    let plain = std::slice::from_ref(&startups[plain(&startups)]);
    let deadline = Instant::now() + long_run().unwrap_or_default() / 2;
    let mut sent = 0;
    while sent < count || Instant::now() < deadline {
        let (startup, session) = match sessions.get(sent) {
            Some(session) => (plain[0].clone(), session.clone()),
            None if rng.chance(20) => (mutated(&startups, rng), mutated(&sessions, rng)),
            None => (plain[0].clone(), mutated(&sessions, rng)),
        };
        let stream = [with_database(&startup, &stage.database), session].concat();
        if let Err(why) = send(stage.port(), &stream) {
            panic!("{why}: {}", keep("stream", &stream).display());
        }
        sent += 1;
    }
}

/// The packet that every server takes.
fn plain(startups: &[Vec<u8>]) -> usize {
    let shortest = |packet: &&Vec<u8>| packet.windows(DATABASE.len()).any(|name| name == DATABASE);
    let shortest = startups
        .iter()
        .filter(shortest)
        .min_by_key(|packet| packet.len());
    startups
        .iter()
        .position(|packet| Some(packet) == shortest)
        .unwrap()
}

/// Puts the name of the database where it belongs; the length of the packet stays right.
fn with_database(packet: &[u8], database: &str) -> Vec<u8> {
    let Some(at) = packet
        .windows(DATABASE.len())
        .position(|name| name == DATABASE)
    else {
        return packet.to_vec();
    };
    let mut named = [
        &packet[..at],
        database.as_bytes(),
        &packet[at + DATABASE.len()..],
    ]
    .concat();
    let shorter = (DATABASE.len() - database.len()) as u32;
    let word: [u8; 4] = named[..4].try_into().unwrap();
    named[..4].copy_from_slice(&u32::from_be_bytes(word).wrapping_sub(shorter).to_be_bytes());
    named
}

/// Sends all bytes, shuts down its side of the socket, and waits until the other side has closed.
fn send(port: u16, stream: &[u8]) -> Result<(), String> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket.set_write_timeout(Some(LIMIT)).unwrap();
    // The other side may close the connection at any time.
    let _ = socket.write_all(stream);
    let _ = socket.shutdown(Shutdown::Write);
    let mut answers = Vec::new();
    match socket.read_to_end(&mut answers) {
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
            ) =>
        {
            Err(format!("it hangs after {} bytes", answers.len()))
        }
        _ => Ok(()),
    }
}
