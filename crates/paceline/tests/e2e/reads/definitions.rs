//! DDL while a replica may answer reads, and defaults that differ between the servers.

use super::READ;
use crate::failover::{Pair, shown};
use crate::harness::message::{bind, describe, execute, parse, sync, unit};
use crate::harness::until;

impl Pair {
    /// Returns when the replica has replayed what the primary has written so far.
    fn await_replay(&self) {
        let mut primary = self.primary.client("postgres");
        let end = primary.value("SELECT pg_current_wal_lsn()");
        let mut replica = self.replica.client("postgres");
        let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{end}'");
        until("the replica has replayed it", || {
            replica.value(&replayed) == "t"
        });
    }
}

/// The replica has parsed the statement before it replayed the DDL, and the client after the DDL.
#[test]
fn a_plan_that_is_stale_on_the_replica_is_no_answer() {
    const ALL: &str = "SELECT * FROM t WHERE id = $1";
    for describes in [false, true] {
        let Some(pair) = Pair::reading(&["reads=any", "max_lag=0"]) else {
            return;
        };
        let mut client = pair.client();
        let before = pair.reads();
        let read = unit(ALL, &[Some("1")]);
        until("the replica answers", || {
            client.ask(&read).expect_ok("a read");
            pair.reads() > before
        });
        pair.pause_replay();
        client.ok("ALTER TABLE t ADD c int");
        let described = describes.then(|| describe(b'S', "s")).unwrap_or_default();
        let prepare = [parse("s", ALL, &[]), described, sync()].concat();
        client.ask(&prepare).expect_ok("Parse");
        let read = [bind("", "s", &[Some("1")]), execute("", 0), sync()].concat();
        let mut columns = || client.ask(&read).expect_ok("a read").rows()[0].len();
        for _ in 0..5 {
            let columns = columns();
            assert!(columns == 3 || (columns == 2 && !describes), "{columns}");
        }
        pair.resume_replay();
        pair.await_replay();
        let before = pair.reads();
        until("the replica answers", || {
            assert_eq!(columns(), 3);
            pair.reads() > before
        });
    }
}
