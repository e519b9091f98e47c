//! Requests on a shard: the statement runs on the shard's own table, in place of a partition of the coordinator, and its answer is
//! in the coordinator's terms.
//!
//! Exactness: each batch compares the version of the definitions of all its tables with the version that was compared with the
//! coordinator's. Writes do so behind their statements and in the same transaction, which then has locks on the tables: if a
//! definition has changed, an error undoes the batch. Reads do so behind their statements, in a later transaction: a version never
//! returns, so that it was in force before, too. Then the members have done nothing, and the coordinator executes them.

mod checked;
mod error;
mod single;
mod table;

pub use table::{ShardPart, ShardTable, TableNames};

use super::batch::Batch;
use super::build::{build, server_reads_alike};
use super::build_context::BuildContext;
use super::messages::BatchWriter;
use super::plan::PlannedRequest;
use crate::strategy::Strategy;
use bytes::BytesMut;
use checked::{CheckedBatch, Checks};
use paceline_relay::server::ServerSide;
use single::SingleBatch;
use std::sync::Arc;

/// Writes the messages of a group on a shard; without a strategy, those of its only member. `None` if these members cannot share a
/// group after all; then nothing is written.
pub fn build_on_shard(
    strategy: Option<Strategy>,
    members: &[&PlannedRequest],
    context: &BuildContext<'_>,
    server: &mut ServerSide,
    out: &mut BytesMut,
) -> Option<Box<dyn Batch>> {
    let mut tables: Vec<Arc<ShardTable>> = Vec::new();
    for member in members {
        let table = &member.shard.as_ref()?.table;
        if !tables.iter().any(|known| Arc::ptr_eq(known, table)) {
            tables.push(Arc::clone(table));
        }
    }
    let from = out.len();
    let inner: Box<dyn Batch> = match (strategy, members) {
        (Some(strategy), _) => build(strategy, members, context, server, out)?,
        (None, [member]) if server_reads_alike(member, server) => {
            Box::new(SingleBatch::build(member, BatchWriter::new(server, out))?)
        }
        (None, _) => return None,
    };
    let checks = match strategy.is_some_and(Strategy::reads) {
        true => Checks::Behind,
        false => Checks::Within,
    };
    let tables = (tables, context.on_replica);
    let batch = CheckedBatch::build(inner, members.len(), checks, tables, server, out, from);
    Some(Box::new(batch))
}
