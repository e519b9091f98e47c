//! Pairs of a write and a read of the same row, of many clients at once, so that both also run in groups. The replicas are paused,
//! delayed and restarted meanwhile. `PACELINE_READS` is the number of pairs of each test.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::thread;

use super::several::Chain;
use crate::failover::client;
use crate::harness::cluster::Cluster;
use crate::harness::message::{bind, execute, parse, query, run, sync, unit};
use crate::harness::raw::RawClient;
use crate::harness::{Rng, until};

/// Writers at once. Each has a row of its own.
const WRITERS: usize = 24;
/// The row of the first writer.
const FIRST: usize = 10;
/// Pairs between two disturbances of the replicas.
const CALM: usize = 500;

/// The client that reads what another one has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// The same client.
    Writer,
    /// Another one, which does not know the position.
    Other,
    /// Another one, which takes the position of the writer.
    Follower,
}

/// The protocol of a read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    Simple,
    Extended,
    /// By a statement that an earlier request has prepared.
    Prepared,
    /// In a transaction that begins READ ONLY.
    Transaction,
    /// The same, by the extended protocol, with BEGIN in the packet of the read.
    ExtendedTransaction,
}

impl Way {
    pub(super) const ALL: [Self; 5] = [
        Self::Simple,
        Self::Extended,
        Self::Prepared,
        Self::Transaction,
        Self::ExtendedTransaction,
    ];
}

/// Servers with the table `t`, which has a row for each writer, and Paceline in front of them.
pub(crate) trait Lab: Sync {
    /// A client of Paceline.
    fn client(&self) -> RawClient;

    /// The replicas.
    fn replicas(&self) -> Vec<&Cluster>;

    /// The reads that a replica has answered.
    fn reads(&self, replica: &Cluster) -> i64;
}

impl Lab for Chain {
    fn client(&self) -> RawClient {
        client(&self.paceline)
    }

    fn replicas(&self) -> Vec<&Cluster> {
        self.servers[1..].iter().map(|server| &**server).collect()
    }

    fn reads(&self, replica: &Cluster) -> i64 {
        self.reads_at(replica)
    }
}

/// The state that all writers share.
struct Run<'a> {
    lab: &'a dyn Lab,
    reader: Reader,
    pairs: usize,
    begun: AtomicUsize,
    /// The last value of each writer that was acknowledged.
    acknowledged: [AtomicI64; WRITERS],
    /// Only the holder of this lock disturbs the replicas.
    disturbance: Mutex<()>,
}

#[test]
fn of_one_client_in_session() {
    run_with(Reader::Writer, "session");
}

#[test]
fn of_two_clients_in_global() {
    run_with(Reader::Other, "global");
}

#[test]
fn of_two_clients_that_hand_over_positions() {
    run_with(Reader::Follower, "session");
}

fn run_with(reader: Reader, reads: &str) {
    let reads = format!("reads={reads}");
    let Some(chain) = Chain::start(&[&reads, "default_pool_size=3", "replica_wait=100ms"]) else {
        return;
    };
    for server in &chain.servers {
        do_not_sync(server);
    }
    let mut primary = chain.servers[0].client("postgres");
    primary.ok(FILL);
    run_in(&chain, reader);
}

/// Only processes are killed here, not the machine. A slow disk would keep the replicas behind, and the reads from them.
pub(crate) fn do_not_sync(server: &Cluster) {
    let mut server = server.client("postgres");
    server.ok("ALTER SYSTEM SET fsync = off");
    server.ok("SELECT pg_reload_conf()");
}

/// Inserts the rows of the writers.
pub(crate) const FILL: &str = "INSERT INTO t SELECT i, 0 FROM generate_series(10, 41) i";

/// Runs pairs of writes and reads, and checks each answer.
pub(crate) fn run_in(lab: &dyn Lab, reader: Reader) {
    let pairs = std::env::var("PACELINE_READS").map_or(2_000, |pairs| pairs.parse().unwrap());
    let seed = paceline_testing::seed();
    let run = Run {
        lab,
        reader,
        pairs,
        begun: AtomicUsize::new(0),
        acknowledged: Default::default(),
        disturbance: Mutex::new(()),
    };
    let reads = || -> Vec<i64> {
        let replicas = lab.replicas().into_iter();
        replicas.map(|replica| lab.reads(replica)).collect()
    };
    let before = reads();
    thread::scope(|scope| {
        for place in 0..WRITERS {
            let rng = Rng::new(seed.wrapping_add(place as u64));
            let run = &run;
            scope.spawn(move || Worker::new(run, place, rng).work());
        }
    });
    let after = reads().into_iter().zip(before);
    let answered: Vec<i64> = after.map(|(after, before)| after - before).collect();
    println!("{pairs} pairs; the replicas have answered {answered:?} reads");
    assert!(answered.iter().all(|reads| *reads > 0), "{answered:?}");
}

impl Run<'_> {
    /// Restarts, pauses or delays a replica, or lets it continue.
    fn disturb(&self, rng: &mut Rng) {
        let _alone = self.disturbance.lock();
        let replicas = self.lab.replicas();
        let server = *rng.pick(&replicas);
        let reload = "SELECT pg_reload_conf()";
        let statements = match rng.below(6) {
            0 => return server.restart(),
            1 | 2 => ["SELECT pg_wal_replay_pause()", reload, ""],
            3 => ["ALTER SYSTEM SET recovery_min_apply_delay = 30", reload, ""],
            _ => {
                let reset = "ALTER SYSTEM RESET recovery_min_apply_delay";
                [reset, reload, "SELECT pg_wal_replay_resume()"]
            }
        };
        let mut client = server.client("postgres");
        for sql in statements {
            // It may be cancelled because it conflicts with replay.
            until(sql, || client.simple(sql).error().is_none());
        }
    }
}

/// A writer, with the client that reads.
struct Worker<'a> {
    run: &'a Run<'a>,
    place: usize,
    rng: Rng,
    writer: RawClient,
    /// Unless the writer reads.
    other: Option<RawClient>,
    written: i64,
    /// The last value of each writer that the reader has seen.
    seen: [i64; WRITERS],
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.run.begun.store(self.run.pairs, Ordering::SeqCst);
        }
    }
}

impl<'a> Worker<'a> {
    fn new(run: &'a Run<'a>, place: usize, rng: Rng) -> Self {
        let client = || prepared(run.lab.client());
        Self {
            run,
            place,
            rng,
            writer: client(),
            other: (run.reader != Reader::Writer).then(client),
            written: 0,
            seen: [0; WRITERS],
        }
    }

    fn work(mut self) {
        loop {
            let number = self.run.begun.fetch_add(1, Ordering::SeqCst);
            if number >= self.run.pairs {
                return;
            }
            if number % CALM == CALM - 1 {
                self.run.disturb(&mut self.rng);
            }
            self.write();
            let value = self.read(self.place);
            assert_eq!(
                value, self.written,
                "writer {} at pair {number}",
                self.place
            );
            self.read_another(number);
        }
    }

    fn write(&mut self) {
        self.written += 1;
        write(
            &mut self.rng,
            &mut self.writer,
            FIRST + self.place,
            self.written,
        );
        self.run.acknowledged[self.place].store(self.written, Ordering::SeqCst);
        if self.run.reader == Reader::Follower {
            let position = self.writer.value("SHOW paceline.position");
            let reader = self.other.as_mut().unwrap();
            reader.ok(&format!("SET paceline.after = '{position}'"));
        }
    }

    fn read(&mut self, place: usize) -> i64 {
        let reader = self.other.as_mut().unwrap_or(&mut self.writer);
        read(*self.rng.pick(&Way::ALL), reader, FIRST + place)
    }

    /// Reads the row of another writer, which may go on meanwhile. Time does not go back: if the reader has seen a value, and it was
    /// acknowledged, it sees no earlier one. (Before that, a replica may show a commit earlier than the primary does.)
    fn read_another(&mut self, number: usize) {
        let place = self.rng.below(WRITERS);
        let acknowledged = self.run.acknowledged[place].load(Ordering::SeqCst);
        let value = self.read(place);
        let least = match self.run.reader {
            Reader::Other => acknowledged,
            Reader::Writer | Reader::Follower => acknowledged.min(self.seen[place]),
        };
        assert!(
            value >= least,
            "{value} instead of {least} of writer {place} at pair {number}"
        );
        self.seen[place] = value.max(self.seen[place]);
    }
}

const SELECT: &str = "SELECT n FROM t WHERE id = $1::int";

/// The client, when it has prepared the statement of [`Way::Prepared`].
pub(super) fn prepared(mut client: RawClient) -> RawClient {
    let request = [parse("r", SELECT, &[]), sync()].concat();
    client.ask(&request).expect_ok("Parse");
    client
}

fn write(rng: &mut Rng, client: &mut RawClient, id: usize, n: i64) {
    let (id, n) = (id.to_string(), n.to_string());
    match rng.below(4) {
        0 => client.ok(&format!("UPDATE t SET n = {n} WHERE id = {id}")),
        1 => client.ok(&format!(
            "BEGIN; UPDATE t SET n = {n} WHERE id = {id}; COMMIT"
        )),
        2 => client.ok(&format!(
            "SET synchronous_commit = off; UPDATE t SET n = {n} WHERE id = {id}"
        )),
        _ => {
            let update = "UPDATE t SET n = $1::int WHERE id = $2::int";
            client
                .ask(&unit(update, &[Some(&n), Some(&id)]))
                .expect_ok("an update")
        }
    };
}

pub(super) fn read(way: Way, client: &mut RawClient, id: usize) -> i64 {
    let simple = query(&format!("SELECT n FROM t WHERE id = {id}"));
    let id = id.to_string();
    let parameters = [Some(id.as_str())];
    let reply = match way {
        Way::Simple => client.ask(&simple),
        Way::Extended => client.ask(&unit(SELECT, &parameters)),
        Way::Prepared => client.ask(&[bind("", "r", &parameters), execute("", 0), sync()].concat()),
        Way::Transaction => {
            client.ok("BEGIN READ ONLY");
            client.ask(&simple)
        }
        Way::ExtendedTransaction => {
            let begin = run("BEGIN READ ONLY", &[]);
            client.ask(&[begin, unit(SELECT, &parameters)].concat())
        }
    };
    if matches!(way, Way::Transaction | Way::ExtendedTransaction) {
        client.ok("COMMIT");
    }
    let reply = reply.expect_ok("a read");
    reply.rows()[0][0].as_ref().unwrap().parse().unwrap()
}
