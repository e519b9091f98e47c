//! Many messages without a Sync: the part that PostgreSQL executes before the Sync arrives, and its effect on other clients.

mod early;
mod fair;
mod long;
mod parsing;
mod parts;

use crate::harness::Stage;
use crate::harness::message::{bind, execute, parse};

/// A table with rows 1 to 5.
fn stage() -> Stage {
    let stage = Stage::on_shared().set("default_pool_size=4").open();
    stage
        .direct()
        .ok("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL);
         INSERT INTO t SELECT i, 0 FROM generate_series(1, 5) i;
         CREATE TABLE log (n int)");
    stage
}

/// Prepares the statement that the pipelines here repeat.
fn prepare() -> Vec<u8> {
    parse("log", "INSERT INTO log VALUES ($1)", &[])
}

/// Some of its executions.
fn executions(count: usize) -> Vec<u8> {
    let one = [bind("", "log", &[Some("7")]), execute("", 0)].concat();
    one.repeat(count)
}
