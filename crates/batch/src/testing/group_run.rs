//! A group in flight, with the test as the server.

use crate::strategy::PlannedRequest;
use crate::strategy::Prelude;
use crate::strategy::Strategy;
use crate::strategy::{self, Batch, BuildContext, MemberOutcome, MemberResult};
use crate::template_stats::Fallback;
use bytes::BytesMut;
use paceline_relay::server::ServerSide;
use paceline_testing::messages::Wire;
use paceline_testing::read_out;
use paceline_wire::Frames;
use paceline_wire::frontend::{BindNames, BindValues, tag};
use std::time::{Duration, Instant};

/// A batch and its server.
pub(crate) struct GroupRun<'a> {
    pub(crate) batch: Box<dyn Batch>,
    server: &'a mut ServerSide,
    /// The messages that were sent.
    pub(crate) sent: Vec<u8>,
    /// Members that returned, with the reason, in order.
    pub(crate) retried: Vec<(usize, Fallback)>,
    over: bool,
}

impl<'a> GroupRun<'a> {
    /// Sends a group. `None` if these members cannot share one.
    pub(crate) fn send(
        strategy: Strategy,
        members: &[PlannedRequest],
        prelude: &Prelude,
        server: &'a mut ServerSide,
    ) -> Option<Self> {
        let context = BuildContext {
            prelude,
            now: Instant::now(),
            queue_reorder_time: Duration::ZERO,
            on_replica: false,
        };
        Self::send_in(&context, strategy, members, server)
    }

    /// Sends a group in this context.
    pub(crate) fn send_in(
        context: &BuildContext<'_>,
        strategy: Strategy,
        members: &[PlannedRequest],
        server: &'a mut ServerSide,
    ) -> Option<Self> {
        let members: Vec<&PlannedRequest> = members.iter().collect();
        let mut out = BytesMut::new();
        let batch = strategy::build(strategy, &members, context, server, &mut out)?;
        Some(Self {
            batch,
            server,
            sent: out.to_vec(),
            retried: Vec::new(),
            over: false,
        })
    }

    /// The messages that were sent, one by one.
    pub(crate) fn sent(&self) -> Vec<String> {
        read_out::to_server(&self.sent)
    }

    /// Answers as the server; returns the results that follow from it.
    pub(crate) fn answer<const N: usize>(&mut self, messages: [Wire; N]) -> Vec<String> {
        let mut results = Vec::new();
        for frame in Frames::new(&messages.concat()) {
            assert!(!self.over, "a message after the batch was over: {frame:?}");
            let progress = self.batch.receive(frame, self.server, &mut results);
            self.over = progress.is_complete();
        }
        let retried = results.iter().filter_map(|results| match results.outcome {
            MemberOutcome::Retry(_, why) => Some((results.member, why)),
            MemberOutcome::Answer(_) => None,
        });
        self.retried.extend(retried);
        results.iter().map(line).collect()
    }

    /// Whether the answer is complete.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }
}

/// The time at which the server has analyzed the statements of groups.
const ANALYZED_AT: [u8; 8] = 1_000_i64.to_be_bytes();

/// The first column of a group's result: NULL if the catalog version has changed, otherwise the time of the analysis.
pub(crate) fn unchanged(is: bool) -> Option<&'static [u8]> {
    is.then_some(&ANALYZED_AT)
}

/// For each `Bind` of a group, whether it has the time of [`unchanged`].
pub(crate) fn have_analysis_time(sent: &[u8]) -> Vec<bool> {
    let binds = Frames::new(sent).filter(|frame| frame.tag == tag::BIND);
    binds
        .map(|bind| {
            let rest = BindNames::read(bind.body()).expect("a Bind").rest;
            let values = BindValues::read(rest, 0).expect("values").values;
            let mut values = values.into_iter().flatten().map(|range| &rest[range]);
            values.any(|value| value == ANALYZED_AT)
        })
        .collect()
}

/// A result as text.
pub(crate) fn line(results: &MemberResult) -> String {
    let outcome = match &results.outcome {
        MemberOutcome::Answer(answer) => read_out::to_client(answer).join(", "),
        MemberOutcome::Retry(how, _) => format!("retry {how:?}"),
    };
    format!("{}: {outcome}", results.member)
}
