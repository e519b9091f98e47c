//! The admin console: the users who may log in, the answers that PgBouncer's users and tools expect, and the sums of its numbers.

mod columns;
mod connections;
mod door;
mod numbers;
mod protocol;
mod snapshot;

use std::collections::BTreeMap;

use crate::harness::Stage;
use crate::harness::raw::RawClient;
use crate::harness::reply::Reply;
use crate::harness::stage::{StageBuilder, Target};

/// A stage on which `boss` may do everything. `None` when PostgreSQL is the target.
fn stage(builder: StageBuilder) -> Option<Stage> {
    let stage = builder
        .set("admin_users=boss")
        .set("stats_users=watch")
        .open();
    (stage.target() == Target::Paceline).then_some(stage)
}

/// An operator's connection.
#[track_caller]
fn operator(stage: &Stage) -> RawClient {
    console(stage, "pgbouncer", "boss")
}

#[track_caller]
fn console(stage: &Stage, database: &str, user: &str) -> RawClient {
    RawClient::connect(stage.port(), &[("user", user), ("database", database)])
}

/// Rows as values by column.
#[track_caller]
fn table(reply: &Reply) -> Vec<BTreeMap<String, String>> {
    let described = reply.0.iter().find(|message| message.tag == b'T');
    let columns = described.unwrap_or_else(|| panic!("{reply:#?}")).columns();
    let rows = reply.rows().into_iter().map(|row| {
        let values = row.into_iter().map(Option::unwrap_or_default);
        columns.iter().cloned().zip(values).collect()
    });
    rows.collect()
}

/// The row that has this value in this column.
#[track_caller]
pub(crate) fn row(
    operator: &mut RawClient,
    show: &str,
    column: &str,
    value: &str,
) -> BTreeMap<String, String> {
    let rows = table(&operator.ok(show));
    let found = rows.iter().find(|row| row[column] == value);
    found.unwrap_or_else(|| panic!("{show}: {rows:#?}")).clone()
}
