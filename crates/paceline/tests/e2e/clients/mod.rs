//! Manners at the socket: clients that leave, cancel, dribble, flood or talk nonsense, and neighbours that notice nothing.

mod bytes;
mod cancel;
mod leaving;
mod startup;
mod transactions;
mod volume;

use crate::harness::Stage;
use crate::harness::raw::RawClient;

/// One server connection, un-hinted groups, a table with rows 1 to 5.
fn stage() -> Stage {
    let stage = Stage::for_groups();
    stage
        .direct()
        .ok("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL);
         INSERT INTO t SELECT i, 0 FROM generate_series(1, 5) i");
    stage
        .client()
        .ok("UPDATE t SET n = n + 1 WHERE id = 99 RETURNING n");
    stage
}

/// A statement that Paceline has seen.
const BUMP: &str = "UPDATE t SET n = n + 1 WHERE id = 1 RETURNING n";

fn n(stage: &Stage) -> i64 {
    stage.direct().number("SELECT n FROM t WHERE id = 1")
}

/// A neighbour in a transaction with state of its own. It checks that nothing has changed that state.
struct Neighbour(RawClient);

impl Neighbour {
    fn on(stage: &Stage) -> Self {
        let mut client = stage.client_with(&[("application_name", "neighbour")]);
        client.ok("SELECT 1");
        Self(client)
    }

    #[track_caller]
    fn check(&mut self) {
        assert_eq!(self.0.value("SHOW application_name"), "neighbour");
        assert_eq!(self.0.value("SELECT 41 + 1"), "42");
    }
}
