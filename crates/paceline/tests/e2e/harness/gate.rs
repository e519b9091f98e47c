//! Forces groups without sleeping: every server connection of the pool waits inside PostgreSQL for an outsider's row
//! lock, units are sent and seen in Paceline's line one by one, then the outsider commits and the line leaves.

use super::message;
use super::raw::RawClient;
use super::stage::{self, Stage, Target};
use super::wait::until;

/// A pool whose every server connection waits. When PostgreSQL is the target, nothing is: units then run one at a
/// time in the order of their submission, which is what a group must be equal to.
pub(crate) struct Gate {
    outsider: RawClient,
    held: Vec<RawClient>,
    status: Option<RawClient>,
    in_line: i64,
}

impl Gate {
    /// Holds up the only server connection of the pool.
    #[track_caller]
    pub(crate) fn close(stage: &Stage) -> Self {
        Self::close_all(stage, 1)
    }

    /// Holds up all `servers` connections of the pool, each on a row of a table made for this.
    #[track_caller]
    pub(crate) fn close_all(stage: &Stage, servers: usize) -> Self {
        let mut outsider = stage.direct();
        outsider.ok(
            "CREATE TABLE IF NOT EXISTS gate (id int PRIMARY KEY, passed int NOT NULL DEFAULT 0)",
        );
        for id in 0..servers {
            outsider.ok(&format!(
                "INSERT INTO gate VALUES ({id}) ON CONFLICT DO NOTHING"
            ));
        }
        let hold: Vec<String> = (0..servers)
            .map(|id| format!("UPDATE gate SET passed = passed + 1 WHERE id = {id}"))
            .collect();
        Self::close_on(stage, "SELECT FROM gate ORDER BY id FOR UPDATE", &hold)
    }

    /// Holds up server connections by the statements `held`, each of which waits for what the outsider's `lock` holds.
    #[track_caller]
    pub(crate) fn close_on(stage: &Stage, lock: &str, held: &[String]) -> Self {
        let mut gate = Self {
            outsider: stage.direct(),
            held: Vec::new(),
            status: None,
            in_line: 0,
        };
        if stage.target() == Target::Bare {
            return gate;
        }
        gate.status = Some(stage.client());
        gate.outsider.ok("BEGIN");
        gate.outsider.ok(lock);
        let mut observer = stage.direct();
        for sql in held {
            let mut client = stage.client();
            client.send(&message::query(sql));
            gate.held.push(client);
            let blocked = gate.held.len() as i64;
            until(&format!("{blocked} server connections are held up"), || {
                lock_waiters(&mut observer) >= blocked
            });
        }
        gate
    }

    /// Sends a request and returns when it is in the line.
    #[track_caller]
    pub(crate) fn submit(&mut self, client: &mut RawClient, unit: &[u8]) {
        client.send(unit);
        self.in_line += 1;
        match &self.status {
            Some(_) => self.await_line(self.in_line),
            None => client.await_reply(),
        }
    }

    /// Returns when exactly `count` requests are in the line.
    #[track_caller]
    pub(crate) fn await_line(&mut self, count: i64) {
        let Some(status) = &mut self.status else {
            return;
        };
        self.in_line = count;
        until(&format!("{count} requests are in the line"), || {
            stage::counters(status).waiting == count
        });
    }

    /// Lets the line leave; returns when the requests that occupied the server connections are answered.
    #[track_caller]
    pub(crate) fn open(mut self) {
        if self.status.is_none() {
            return;
        }
        self.outsider.ok("COMMIT");
        for client in &mut self.held {
            client.reply().expect_ok("a unit at the gate");
        }
    }
}

/// The number of sessions of this database that wait for a lock inside PostgreSQL.
#[track_caller]
pub(crate) fn lock_waiters(observer: &mut RawClient) -> i64 {
    observer.number(
        "SELECT count(*) FROM pg_stat_activity \
         WHERE datname = current_database() AND wait_event_type = 'Lock'",
    )
}
