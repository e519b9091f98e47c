//! Builds the batch of a group with the code of its strategy.

use super::batch::Batch;
use super::build_context::BuildContext;
use super::chain::ChainBatch;
use super::messages::BatchWriter;
use super::pipeline::PipelineBatch;
use super::plan::PlannedRequest;
use super::share::ShareBatch;
use crate::strategy::Strategy;
use bytes::BytesMut;
use paceline_relay::request::RequestForm;
use paceline_relay::sequences::SequenceState;
use paceline_relay::server::ServerSide;
use std::sync::Arc;

/// Writes the messages of a group. All members must have the same [`GroupId`](crate::line::GroupId), and their settings must be
/// in force on the server. Returns `None` if these members cannot share a group after all; then nothing is written.
pub fn build(
    strategy: Strategy,
    members: &[&PlannedRequest],
    context: &BuildContext<'_>,
    server: &mut ServerSide,
    out: &mut BytesMut,
) -> Option<Box<dyn Batch>> {
    // In a pipeline or a shared read, the server describes them in the same batch.
    let describes = matches!(strategy, Strategy::Pipeline | Strategy::Share);
    let has_columns =
        |member: &PlannedRequest| server.has_described_columns(member).unwrap_or(describes);
    let executable = |member: &&PlannedRequest| {
        server_reads_alike(member, server) && (strategy.rewrites() || has_columns(member))
    };
    if !members.iter().all(executable) {
        return None;
    }
    let before = out.len();
    let batch = write(strategy, members, context, BatchWriter::new(server, out));
    if batch.is_none() && out.len() > before {
        // The statements in the discarded messages never reach the server.
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
    context: &BuildContext<'_>,
    writer: BatchWriter<'_>,
) -> Option<Box<dyn Batch>> {
    Some(match strategy {
        Strategy::Pipeline => Box::new(PipelineBatch::build(members, writer)),
        Strategy::Share => Box::new(ShareBatch::build(members, writer)?),
        Strategy::Chain => Box::new(ChainBatch::build(members, context.prelude, writer)?),
        // Every other strategy executes one statement, which the plan of its template writes.
        _ => {
            let plan = Arc::clone(members.first()?.plan.as_ref()?);
            plan.build(members, context, writer)?
        }
    })
}

/// Whether the server splits a member's text into the same tokens as the parser did.
pub(super) fn server_reads_alike(member: &PlannedRequest, server: &ServerSide) -> bool {
    let query = || member.frames().next().map(|frame| frame.body());
    let text = match member.form {
        RequestForm::Simple => query().and_then(|body| std::str::from_utf8(body).ok()),
        RequestForm::Extended { .. } => Some(member.template.text.as_str()),
    };
    text.is_some_and(|text| server.tokenizes_alike(text))
}
