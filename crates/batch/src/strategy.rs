//! Strategies: how a group becomes a batch of messages on one server connection, and how the answers are dealt
//! back to its members. One file each, with the same three steps: *fits*, *build*, *deal*.
//!
//! (A request that travels alone needs no batch: see [`paceline_relay::relay`].)

mod array;
mod backoff;
mod batch;
pub mod chain;
pub mod distribute;
pub mod fold;
mod identical_reads;
mod messages;
pub mod multi_row;
mod outcome;
pub mod pipeline;
mod plan;
mod prelude;
pub mod probe;
mod progress;
mod row;
pub mod row_lock;
pub mod share;
pub mod upsert;

use crate::line::Strategy;
pub use batch::Batch;
use bytes::BytesMut;
pub use messages::FORMATS_MAX;
pub use outcome::{Invalidation, MemberOutcome, MemberResult, Retry};
use paceline_relay::request::Form;
use paceline_relay::sequences::SequenceState;
use paceline_relay::server::ServerSide;
pub use plan::{GroupPlan, PlannedRequest, Rewritten};
pub use prelude::{ChainFacts, Prelude, STATEMENT_MAX};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Writes the messages of a group. Every member has the same [`crate::line::GroupId`], and their settings are in
/// force on the server. `None`: this group cannot travel together after all.
pub fn build(
    strategy: Strategy,
    members: &[&PlannedRequest],
    prelude: &Prelude,
    server: &mut ServerSide,
    out: &mut BytesMut,
) -> Option<Box<dyn Batch>> {
    let fits = |member: &&PlannedRequest| {
        is_read(member, server) && (strategy.rewrites() || server.fits(member))
    };
    if !members.iter().all(fits) {
        return None;
    }
    let before = out.len();
    let batch = write(strategy, members, prelude, server, out);
    if batch.is_none() && out.len() > before {
        // What was written is not sent, and the server does not get to know the statements in it.
        out.truncate(before);
        server.retire_all();
    }
    if batch
        .as_ref()
        .is_some_and(|batch| batch.may_use_sequences())
    {
        server.sequences = SequenceState::Mixed;
    }
    batch
}

fn write(
    strategy: Strategy,
    members: &[&PlannedRequest],
    prelude: &Prelude,
    server: &mut ServerSide,
    out: &mut BytesMut,
) -> Option<Box<dyn Batch>> {
    Some(match strategy {
        Strategy::Pipeline => Box::new(pipeline::PipelineBatch::build(members, server, out)),
        Strategy::Share => Box::new(share::ShareBatch::build(members, server, out)?),
        Strategy::Chain => Box::new(chain::ChainBatch::build(members, prelude, server, out)?),
        Strategy::Fold | Strategy::Take | Strategy::Merge => {
            let plan = Arc::clone(members.first()?.plan.as_ref()?);
            plan.build(members, prelude, server, out)?
        }
    })
}

/// Does this server make the same tokens of a member's text as the parser here?
fn is_read(member: &PlannedRequest, server: &ServerSide) -> bool {
    let query = || member.frames().next().map(|frame| frame.body());
    let text = match member.form {
        Form::Simple => query().and_then(|body| std::str::from_utf8(body).ok()),
        Form::Extended { .. } => Some(member.template.text.as_str()),
    };
    text.is_some_and(|text| server.reads(text))
}
