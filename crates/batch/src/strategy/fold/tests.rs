//! Folds without a server: which requests fit, what is sent, and the result of each member.

mod building;
mod distribute;
mod fitting;

use crate::strategy::PlannedRequest;
use crate::strategy::Prelude;
use crate::strategy::Strategy;
use crate::testing::fold_statement::{FoldStatement, INT4, INT8, table};
use crate::testing::group_run::GroupRun;
use paceline_relay::server::ServerSide;
use paceline_relay::settings::SettingsInterner;
use paceline_relay::template::Templates;
use paceline_testing::messages::server::column;

/// `qty = qty - $1` on a bigint key with a guard and one RETURNING column.
fn stock() -> FoldStatement {
    let table = table(&[("id", INT8), ("qty", INT4)], &["id"]);
    FoldStatement::prepared(
        "UPDATE t SET qty = qty - $1 WHERE id = $2 AND qty >= $1 RETURNING qty",
        &table,
        &[INT4, INT8],
        vec![column("qty", 23)],
    )
}

/// The same statement without RETURNING.
fn counter(hints: &str) -> FoldStatement {
    let table = table(&[("id", INT8), ("qty", INT4)], &["id"]);
    let text = format!("UPDATE {hints} t SET qty = qty - $1 WHERE id = $2");
    FoldStatement::prepared(&text, &table, &[INT4, INT8], Vec::new())
}

fn a_server() -> ServerSide {
    ServerSide::new(SettingsInterner::default().none(), 100)
}

fn leave<'a>(members: &[PlannedRequest], server: &'a mut ServerSide) -> Option<GroupRun<'a>> {
    GroupRun::send(
        Strategy::Fold,
        members,
        &Prelude::new(&Templates::default()),
        server,
    )
}
