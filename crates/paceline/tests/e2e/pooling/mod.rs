//! Pool modes, limits and time-outs, with PgBouncer's names, words and SQLSTATEs.
//!
//! Times are short here so that they end soon, or long so that they never do; no test depends on how long anything takes.

mod admission;
mod exclusive;
mod limits;
mod modes;
mod overload;
mod servers;
mod timeouts;

use crate::harness::cluster;
use crate::harness::raw::RawClient;
use crate::harness::reply::Fields;
use crate::harness::stage::{Target, counters};
use crate::harness::{Stage, until};

/// A stage whose database has these keys; what follows the first table belongs to further ones. `None` when PostgreSQL
/// is the target, which has none of this.
fn stage(settings: &[&str], of_database: &str) -> Option<Stage> {
    if Target::chosen() == Target::Bare {
        return None;
    }
    let builder = Stage::on_shared().declare(of_database);
    let builder = settings
        .iter()
        .fold(builder, |builder, set| builder.set(set));
    Some(builder.open())
}

/// A client that names another user.
fn client_as(stage: &Stage, user: &str) -> RawClient {
    RawClient::connect(
        stage.port(),
        &[("user", user), ("database", &stage.database)],
    )
}

/// A role that this test has for itself, with these attributes.
fn role(name: &str, attributes: &str) {
    if Target::chosen() == Target::Paceline {
        let mut direct = cluster::shared().client("postgres");
        direct.ok(&format!("CREATE ROLE {name} LOGIN {attributes}"));
    }
}

/// Returns when this number of requests is in the line.
#[track_caller]
fn await_waiting(stage: &Stage, units: i64) {
    let mut client = stage.client();
    until(&format!("{units} units wait"), || {
        counters(&mut client).waiting == units
    });
}

/// Server connections of the stage's database, without the caller's.
fn servers(direct: &mut RawClient) -> i64 {
    direct.number(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
}

/// The error with which the client's connection ends.
#[track_caller]
fn farewell(client: &mut RawClient) -> Fields {
    let messages = client.receive_to_end();
    let last = messages.last().unwrap();
    assert_eq!(last.tag, b'E', "{messages:?}");
    last.fields()
}

#[track_caller]
fn assert_message(fields: &Fields, message: &str) {
    assert_eq!(
        (fields.sqlstate(), fields.text()),
        ("08P01", message),
        "{fields:?}"
    );
}
