//! The result of the catalog analysis for a template whose requests one statement can execute.

use super::batch::Batch;
use super::build_context::BuildContext;
use super::described::DescribedTemplate;
use super::explain_lines::ExplainLines;
use super::messages::{BatchWriter, InjectedStatement};
use super::prelude::ChainFacts;
use super::row_key::{RowKey, RowKeys};
use super::shard::ShardPart;
use crate::line::{GroupId, LineKeys};
use crate::strategy::Strategy;
use crate::template_stats::TemplateStats;
use bytes::Bytes;
use paceline_relay::request::Request;
use paceline_relay::template::Templates;
use paceline_sql::fold::Carried;
use paceline_traces::MemberTrace;
use std::fmt::Debug;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Executes the requests of a template by one statement.
///
/// A new strategy implements the first four methods. The others are optional:
/// - Without [`GroupPlan::probe`], a request waits for its row even if PostgreSQL would answer it without the lock. So implement
///   it, and [`GroupPlan::rows`], if the WHERE clause may reject the row, or if an existing key answers the request.
/// - If the row stays locked for longer than a group may wait, and the plan has [`GroupPlan::lock`] and [`GroupPlan::row_of`], a
///   server connection waits for the lock; when it has it, the requests in the line leave as a group. Without these methods the
///   first request runs alone.
pub trait GroupPlan: Debug + Send + Sync {
    /// The strategy.
    fn strategy(&self) -> Strategy;

    /// The group that a request may join, and the keys for which it waits in the line. If the keys are
    /// [`LineKeys::Unknown`], the request is a barrier to later writes on its table. `None` if the request must run alone.
    ///
    /// If requests wait for rows, those with equal keys of one table must have the same [`LineKey`](crate::line::LineKey),
    /// whatever their strategy and template, because the line orders them by it. `RowKeys` computes such keys.
    fn group_and_keys(&self, request: &Request) -> Option<(GroupId, LineKeys)>;

    /// Writes the messages of a group. `None` if these members cannot share a group after all; the caller discards what was
    /// written.
    fn build(
        self: Arc<Self>,
        members: &[&PlannedRequest],
        context: &BuildContext<'_>,
        writer: BatchWriter<'_>,
    ) -> Option<Box<dyn Batch>>;

    /// Appends what `paceline explain` shows of the plan; with `verbose`, also the statements.
    fn explain(&self, lines: &mut ExplainLines, verbose: bool);

    /// Whether requests take rows from a queue. Then they wait for the queue, not for a row.
    fn is_queue(&self) -> bool {
        false
    }

    /// Whether a group may start at a position in the order of the queue ([`BuildContext::queue_reorder_time`]). Then a single
    /// request is a group, too.
    fn starts_at_position(&self) -> bool {
        false
    }

    /// Whether each request waits in the line for several rows at once ([`LineKeys::MultiRow`]).
    fn waits_for_several_rows(&self) -> bool {
        false
    }

    /// Whether requests wait for each other's rows even if they leave the line alone or in a chain.
    fn orders_requests_outside_groups(&self) -> bool {
        false
    }

    /// The probe of requests that wait for a row. `None` if PostgreSQL locks the row before it decides anything.
    fn probe(&self) -> Option<&ProbePlan> {
        None
    }

    /// The rows of requests, for a probe.
    fn rows(&self) -> Option<PlanRows<'_>> {
        None
    }

    /// The answers to requests whose guards no row satisfies. `None` if the requests have no guards.
    fn unmet_guards(&self, _members: &[&PlannedRequest]) -> Option<UnmetGuards> {
        None
    }

    /// The statement that locks the row of a request. `None` if its lock cannot be requested separately.
    fn lock(&self) -> Option<&LockPlan> {
        None
    }

    /// The row that [`GroupPlan::lock`] locks for a request.
    fn row_of(&self, _request: &Request) -> Option<RowKey> {
        None
    }
}

/// The rows that requests of a plan change.
#[derive(Debug)]
pub struct PlanRows<'a> {
    pub(super) keys: &'a [RowKeys],
    pub(super) described: &'a DescribedTemplate,
}

/// The answers of requests whose guards are false.
#[derive(Debug)]
pub struct UnmetGuards {
    pub(super) answers: Vec<Bytes>,
    /// Whether the statement may raise an error that the probe does not raise.
    pub(super) may_fail_unseen: bool,
}

/// The probe of a template.
#[derive(Debug)]
pub struct ProbePlan {
    id: u64,
    text: String,
    /// Parameters that it reads besides the key.
    pub(super) carried: Vec<Carried>,
}

impl ProbePlan {
    pub(super) fn new(
        text: Option<&String>,
        carried: &[Carried],
        templates: &Templates,
    ) -> Option<Self> {
        text.map(|text| Self {
            id: templates.new_id(),
            text: text.clone(),
            carried: carried.to_vec(),
        })
    }

    pub(super) fn statement(&self) -> InjectedStatement<'_> {
        InjectedStatement {
            id: self.id,
            text: &self.text,
        }
    }
}

/// The statement that locks a row.
#[derive(Debug)]
pub struct LockPlan {
    id: u64,
    text: String,
}

impl LockPlan {
    pub(super) fn new(text: &str, templates: &Templates) -> Self {
        Self {
            id: templates.new_id(),
            text: text.to_owned(),
        }
    }

    pub(super) fn statement(&self) -> InjectedStatement<'_> {
        InjectedStatement {
            id: self.id,
            text: &self.text,
        }
    }
}

/// A request with the analysis of its template at the time at which it enters the line.
#[derive(Debug, Clone)]
pub struct PlannedRequest {
    /// The request.
    pub request: Box<Request>,
    /// The plan, if one statement can execute it with others.
    pub plan: Option<Arc<dyn GroupPlan>>,
    /// The facts that a chain with this request relies on.
    pub chain_facts: Option<Arc<ChainFacts>>,
    /// The statistics of its template.
    pub stats: Option<Arc<TemplateStats>>,
    /// Another client will analyze its template. If the request still waits in the line then, it is decided again.
    pub awaits_analysis: bool,
    /// Its client would have a replica answer it. Only of interest if it is decided again.
    pub prefers_replica: bool,
    /// Grouping is denied: it shares no execution with an identical read.
    pub is_denied: bool,
    /// The part for its shard, if it runs on one.
    pub shard: Option<Box<ShardPart>>,
    /// Its span; `None` if it is not traced.
    pub trace: Option<Arc<MemberTrace>>,
}

impl From<Box<Request>> for PlannedRequest {
    fn from(request: Box<Request>) -> Self {
        Self {
            request,
            plan: None,
            chain_facts: None,
            stats: None,
            awaits_analysis: false,
            prefers_replica: false,
            is_denied: false,
            shard: None,
            trace: None,
        }
    }
}

impl Deref for PlannedRequest {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.request
    }
}

impl DerefMut for PlannedRequest {
    fn deref_mut(&mut self) -> &mut Request {
        &mut self.request
    }
}
