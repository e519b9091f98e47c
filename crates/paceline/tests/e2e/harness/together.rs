//! Clients with the same statement, in the line together: the answers and the tables afterwards must be as if bare PostgreSQL had
//! executed each alone, in the order of arrival.

use super::message::{query, unit};
use super::stage::Target;
use super::{Gate, Message, Reply, Stage, assert_same};

/// Number of clients that send their requests together.
pub(crate) const CLIENTS: usize = 10;

/// The tables of a test.
pub(crate) struct Tables {
    /// Brings them into the state that every trial begins with.
    pub(crate) fill: &'static str,
    /// Reads all that is in them, in order.
    pub(crate) content: &'static str,
}

/// The unit of a client, prepared or simple: `$1` in the text is the client's number, `$2` is 1.
pub(crate) fn ask(sql: &str, number: usize, prepared: bool) -> Vec<u8> {
    let (number, one) = (number.to_string(), "1");
    if !prepared {
        return query(&sql.replace("$1", &format!("'{number}'")).replace("$2", one));
    }
    // Every parameter up to the highest must be there.
    match (sql.contains("$1"), sql.contains("$2")) {
        (true, true) => unit(sql, &[Some(&number), Some(one)]),
        (true, false) => unit(sql, &[Some(&number)]),
        (false, true) => unit(&sql.replace("$2", "$1"), &[Some(one)]),
        (false, false) => unit(sql, &[]),
    }
}

impl Tables {
    /// Clients send these in this order, all in the line before the first leaves; each must get the answer that it gets one by one. The
    /// first of `asks` was sent before. True: members of groups were answered, and did not all run again.
    #[track_caller]
    pub(crate) fn compare_asks(&self, stage: &Stage, asks: &[Vec<u8>]) -> bool {
        let mut bare = stage.direct();
        bare.ok(self.fill);
        stage.client().ask(&asks[0]);
        stage.await_analysis();
        bare.ok(self.fill);
        let before = stage.counters();
        let mut clients = stage.clients(asks.len());
        let mut gate = Gate::close(stage);
        for (client, ask) in clients.iter_mut().zip(asks) {
            gate.submit(client, ask);
        }
        gate.open();
        let together: Vec<_> = clients.iter_mut().map(|client| client.reply()).collect();
        let after = stage.counters();
        let left = bare.ok(self.content).rows();
        bare.ok(self.fill);
        for (number, (ask, reply)) in asks.iter().zip(&together).enumerate() {
            let alone = bare.ask(ask);
            assert_same(&format!("client {number}"), &alone.0, &reply.0);
        }
        assert_eq!(bare.ok(self.content).rows(), left);
        let (members, back) = (
            after.members - before.members,
            after.fallbacks - before.fallbacks,
        );
        stage.target() == Target::Bare || members > back
    }

    /// Compares a statement of clients that arrive together with the same of clients that arrive one by one.
    #[track_caller]
    pub(crate) fn compare(&self, stage: &Stage, sql: &str, prepared: bool) {
        println!("{sql}");
        let mut bare = stage.direct();
        bare.ok(self.fill);
        // Paceline analyzes the template.
        stage.client().ask(&ask(sql, 0, prepared));
        let mut clients = stage.clients(CLIENTS);
        let mut gate = Gate::close(stage);
        bare.ok(self.fill);
        for (number, client) in clients.iter_mut().enumerate() {
            gate.submit(client, &ask(sql, number, prepared));
        }
        gate.open();
        let together: Vec<_> = clients.iter_mut().map(|client| client.reply()).collect();
        let left = bare.ok(self.content).rows();
        bare.ok(self.fill);
        for (number, reply) in together.iter().enumerate() {
            let alone = bare.ask(&ask(sql, number, prepared));
            let label = format!("client {number} of {sql}");
            assert_same(&label, &sorted(&alone), &sorted(reply));
        }
        assert_eq!(bare.ok(self.content).rows(), left, "{sql}");
    }

    /// The same for several statements, on a new stage; the clients of each must have been one group.
    #[track_caller]
    pub(crate) fn compare_groups(&self, stage: &Stage, statements: &[&str], prepared: bool) {
        for (groups, sql) in (1..).zip(statements) {
            self.compare(stage, sql, prepared);
            let counters = stage.counters();
            let expected = (groups, groups * CLIENTS as i64, 0);
            let found = (counters.groups, counters.members, counters.fallbacks);
            let together = found == expected || stage.target() == Target::Bare;
            assert!(together, "{sql}: {counters:?}");
        }
    }
}

/// PostgreSQL does not define the order of the rows that one DELETE or UPDATE returns; Paceline returns them in the queue's order.
pub(crate) fn sorted(reply: &Reply) -> Vec<Message> {
    let mut messages = reply.0.clone();
    messages
        .chunk_by_mut(|a, b| a.tag == b'D' && b.tag == b'D')
        .for_each(|rows| rows.sort_by(|a, b| a.body.cmp(&b.body)));
    messages
}
