//! What the catalog analysis says of a template: how its requests become one statement.

use super::batch::Batch;
use super::prelude::{ChainFacts, Prelude};
use super::row::{RowKey, RowKeys};
use crate::line::{GroupId, LineKeys, Strategy};
use crate::template_stats::TemplateStats;
use bytes::{Bytes, BytesMut};
use paceline_relay::request::Request;
use paceline_relay::server::ServerSide;
use paceline_relay::template::Templates;
use paceline_sql::dealing::Dealing;
use paceline_sql::fold::{Carried, Fold};
use paceline_sql::merge::upsert::{Several, Upsert};
use std::fmt::Debug;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// How the requests of a template travel together in one statement.
pub trait GroupPlan: Debug + Send + Sync {
    /// The strategy as users know it.
    fn strategy(&self) -> Strategy;

    /// The companions of a request, and what it waits for while that is in flight, if anything. `None`: this one must run alone.
    fn fits(&self, request: &Request) -> Option<(GroupId, LineKeys)>;

    /// Writes the messages of a group. `None`: it cannot travel together after all.
    fn build(
        self: Arc<Self>,
        members: &[&PlannedRequest],
        prelude: &Prelude,
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Box<dyn Batch>>;

    /// The rewritten statement, for `paceline explain`.
    fn rewritten(&self) -> Rewritten<'_>;

    /// Do its requests take from a queue? What they wait for meanwhile is not the rows of one another.
    fn is_queue(&self) -> bool {
        false
    }

    /// Do its requests change several rows each?
    fn is_of_several_rows(&self) -> bool {
        false
    }

    /// The probe of its requests. `None`: PostgreSQL locks their rows before it decides anything.
    fn probe(&self) -> Option<&ProbePlan> {
        None
    }

    /// The rows of its requests, for a probe.
    fn rows(&self) -> Option<PlanRows<'_>> {
        None
    }

    /// What requests with a guard are answered if no row meets it. `None`: they have no guards.
    fn unmet_guards(&self, _members: &[&PlannedRequest]) -> Option<UnmetGuards> {
        None
    }

    /// The statement that locks a request's row, if there is one.
    fn lock(&self) -> Option<&LockPlan> {
        None
    }

    /// The row that the lock is for.
    fn row_of(&self, _request: &Request) -> Option<RowKey> {
        None
    }
}

/// The statement of a plan.
#[derive(Debug, Clone, Copy)]
pub enum Rewritten<'a> {
    /// Updates of single rows.
    Fold(&'a Fold),
    /// Consumers of a queue, and inserts: rows are dealt in order.
    Distribute(&'a Dealing),
    /// Inserts with ON CONFLICT.
    Upsert(&'a Upsert),
    /// The same of several rows each.
    Several(&'a Several),
}

/// The keys of the rows that requests of a plan change.
#[derive(Debug)]
pub struct PlanRows<'a> {
    pub(super) keys: &'a [RowKeys],
    /// OIDs of the template's parameters.
    pub(super) parameters: &'a [u32],
    pub(super) fingerprint: &'a str,
}

/// The answers of requests whose guards are not met.
#[derive(Debug)]
pub struct UnmetGuards {
    pub(super) answers: Vec<Bytes>,
    /// The statement may fail where the probe does not see it.
    pub(super) may_fail_unseen: bool,
}

/// The probe of a template.
#[derive(Debug)]
pub struct ProbePlan {
    pub(super) id: u64,
    pub(super) text: String,
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
}

/// The statement that locks the row.
#[derive(Debug)]
pub struct LockPlan {
    pub(super) id: u64,
    pub(super) text: String,
}

impl LockPlan {
    pub(super) fn new(text: &str, templates: &Templates) -> Self {
        Self {
            id: templates.new_id(),
            text: text.to_owned(),
        }
    }
}

/// A request, and what is known of its template when it is put in line.
#[derive(Debug, Clone)]
pub struct PlannedRequest {
    /// The request.
    pub request: Box<Request>,
    /// How it travels with others in one statement, if it does.
    pub plan: Option<Arc<dyn GroupPlan>>,
    /// The facts that a chain with it relies on.
    pub chain_facts: Option<Arc<ChainFacts>>,
    /// Where it is counted.
    pub stats: Option<Arc<TemplateStats>>,
}

impl From<Box<Request>> for PlannedRequest {
    fn from(request: Box<Request>) -> Self {
        Self {
            request,
            plan: None,
            chain_facts: None,
            stats: None,
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
