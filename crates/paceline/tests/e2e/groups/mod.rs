//! Causes for which a group could have other results than its members alone: settings, the language of messages, changes of the catalog
//! that do not touch a table, constraints that are deferred, hidden actions of functions. In each case the members get the answers of bare
//! PostgreSQL.

mod allow_deny;
mod backslashes;
mod blocked_take;
mod catalog;
mod chains;
mod claims;
mod collations;
mod corners;
mod ddl;
mod declared;
mod edges;
mod encodings;
mod equivalence;
mod errors;
mod first_requests;
mod hidden_functions;
mod hotspot_hints;
mod languages;
mod members;
mod merge;
mod order_variants;
mod orders;
mod outsider;
mod queue;
mod queue_clients;
mod queue_partitions;
mod queue_reorder;
mod queue_reorder_history;
mod queue_soak;
mod row_limits;
mod row_waits;
mod sell_out;
mod settings;
mod share;
mod shared_reads;
mod show_groups;
mod sizes;
mod synchronous;
mod targets;
mod upsert;
mod upsert_rows;

use crate::harness::message::{query, unit};
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::together::{CLIENTS, Tables, sorted};
use crate::harness::{Gate, Stage, assert_same};

/// Clients that send their requests together, on a stage with one server connection. `?` in their text is a number of their own.
struct Together<'a> {
    stage: &'a Stage,
    tables: Tables,
    /// The first statement of each client.
    begin: &'a str,
}

/// The template as queries; `$1`, `$2`, … are these values of each client.
fn simple(template: &str, values: &[&[&str]]) -> Vec<Vec<u8>> {
    println!("{template}");
    let fill = |values: &&[&str]| {
        let numbered = (1..).zip(*values);
        query(&numbered.fold(template.to_owned(), |sql, (n, value)| {
            sql.replace(&format!("${n}"), value)
        }))
    };
    values.iter().map(fill).collect()
}

/// The template as a statement with these parameters of each client.
fn prepared(template: &str, values: &[&[&str]]) -> Vec<Vec<u8>> {
    println!("{template}");
    let bind = |values: &&[&str]| {
        let bound: Vec<_> = values.iter().map(|value| Some(*value)).collect();
        unit(template, &bound)
    };
    values.iter().map(bind).collect()
}

/// As a prepared statement, or as a query.
fn ask(sql: &str, number: usize, prepared: bool) -> Vec<u8> {
    let number = (number % 4).to_string();
    match prepared {
        true if sql.contains('?') => unit(&sql.replace('?', "$1"), &[Some(&number)]),
        true => unit(sql, &[]),
        false => query(&sql.replace('?', &number)),
    }
}

impl Together<'_> {
    fn begun(&self, mut client: RawClient) -> RawClient {
        client.ok(self.begin);
        client
    }

    /// Runs them together, then one by one on bare PostgreSQL, and compares. True: all of them were grouped, and none ran again.
    #[track_caller]
    fn compare(&self, sql: &str, prepared: bool) -> bool {
        println!("{}: {sql}", self.begin);
        let Self { stage, tables, .. } = self;
        let mut direct = stage.direct();
        direct.ok(tables.fill);
        // The client stays connected: an analysis is kept only while its settings exist.
        let mut teacher = self.begun(stage.client());
        teacher.ask(&ask(sql, 0, prepared));
        // The only server connection is free when PostgreSQL has been asked, if it was.
        teacher.ok("BEGIN; COMMIT");
        let mut clients: Vec<RawClient> =
            (0..CLIENTS).map(|_| self.begun(stage.client())).collect();
        let before = stage.counters();
        let mut gate = Gate::close(stage);
        direct.ok(tables.fill);
        for (number, client) in clients.iter_mut().enumerate() {
            gate.submit(client, &ask(sql, number, prepared));
        }
        gate.open();
        let together: Vec<_> = clients.iter_mut().map(RawClient::reply).collect();
        let after = stage.counters();
        let left = direct.ok(tables.content).rows();
        direct.ok(tables.fill);
        let mut bare = self.begun(stage.direct());
        for (number, reply) in together.iter().enumerate() {
            let alone = bare.ask(&ask(sql, number, prepared));
            let label = format!("{}: client {number} of {sql}", self.begin);
            assert_same(&label, &sorted(&alone), &sorted(reply));
        }
        assert_eq!(
            direct.ok(tables.content).rows(),
            left,
            "{}: {sql}",
            self.begin
        );
        let members = after.members - before.members;
        let back = after.fallbacks - before.fallbacks;
        stage.target() == Target::Bare || members > back
    }
}
