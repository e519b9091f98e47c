//! The span of a group, if any of its members is traced. It begins a trace of its own, because its members belong to several; links
//! lead from it to the spans of its members, and back.

use crate::pool::{Pool, Waiter};
use crate::server::ServerConn;
use crate::shared::Shared;
use crate::traces::{EndedSpan, server_name};
use paceline_batch::line::WaitEntry;
use paceline_batch::strategy::{PlannedRequest, Strategy};
use paceline_relay::template::Template;
use paceline_traces::{GROUPS_MAX, GroupTrace, MemberTrace, Span, SpanContext};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// The strategy of a statement alone on a shard.
const ALONE: &str = "solo";

/// The span of a group that is under way. It is sent when the group ends, in whatever way.
pub(super) struct RunTrace {
    shared: Arc<Shared>,
    context: SpanContext,
    group: Arc<GroupTrace>,
    members: Vec<SpanContext>,
    template: Option<Arc<Template>>,
    began: SystemTime,
    since: Instant,
    failed: bool,
}

impl RunTrace {
    /// Begins the span of a group that is about to be sent, and tells its members. `None`: no member is traced, or there are no others.
    pub(super) fn begin(
        pool: &Pool,
        conn: &ServerConn,
        entries: &[Option<WaitEntry<Waiter>>],
        strategy: Option<Strategy>,
        since: Instant,
    ) -> Option<Box<Self>> {
        let traced = || entries.iter().flatten().filter_map(trace_of);
        traced().next()?;
        let several = entries.len() > 1;
        let context = pool.shared.traces.new_trace();
        let group = Arc::new(GroupTrace {
            context: several.then_some(context),
            left: since,
            strategy: strategy.map_or(ALONE, Strategy::name),
            members: entries.len(),
            server: server_name(conn.key.address()),
        });
        traced().for_each(|member| member.joined(&group));
        if !several {
            return None;
        }
        let is_traced = |entry: &&WaitEntry<Waiter>| trace_of(entry).is_some();
        let first = entries.iter().flatten().find(is_traced);
        let request = first.and_then(request_of);
        Some(Box::new(Self {
            shared: Arc::clone(&pool.shared),
            context,
            group,
            members: traced()
                .map(|member| member.context)
                .take(GROUPS_MAX)
                .collect(),
            template: request.map(|request| Arc::clone(&request.template)),
            began: SystemTime::now() - since.elapsed(),
            since,
            failed: false,
        }))
    }

    /// The group has ended.
    pub(super) fn end(mut self, failed: bool) {
        self.failed = failed;
    }
}

fn request_of(entry: &WaitEntry<Waiter>) -> Option<&Arc<PlannedRequest>> {
    entry.request.request.as_ref()
}

fn trace_of(entry: &WaitEntry<Waiter>) -> Option<&Arc<MemberTrace>> {
    request_of(entry)?.trace.as_ref()
}

impl Drop for RunTrace {
    fn drop(&mut self) {
        let mut span = Span {
            context: self.context,
            parent: None,
            name: "group".into(),
            began: self.began,
            took: self.since.elapsed(),
            attributes: Vec::new(),
            links: std::mem::take(&mut self.members),
            failed: self.failed,
        };
        span.add_server(&self.group.server);
        span.add_group(&self.group);
        self.shared.traces.send(EndedSpan {
            span,
            template: self.template.take(),
        });
    }
}
