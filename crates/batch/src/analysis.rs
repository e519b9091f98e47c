//! What was learned of a template from the catalog, and how its units travel because of it.

use crate::line::{ClientTimeouts, GroupId, LineKeys, TableId, WaitSpec};
use crate::strategy::{
    ChainFacts, GroupPlan, PlannedRequest, STATEMENT_MAX, chain, pipeline, share,
};
use paceline_relay::request::Request;
use paceline_sql::{Effect, SequenceUse};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// A group is meant to take no longer than its members' `statement_timeout` divided by this.
const GROUP_PART_OF_TIMEOUT: u32 = 4;

/// What is known of a template in one database, under one set of settings.
#[derive(Debug)]
pub struct TemplateAnalysis {
    /// How its units travel together in one statement, or why they do not.
    pub plan: Result<Arc<dyn GroupPlan>, String>,
    /// The facts that a chain with its requests relies on, or why no chain has them.
    pub chain_facts: Result<Arc<ChainFacts>, String>,
    /// A read of tables only, with functions that are PostgreSQL's own and not volatile: may be pipelined and shared. Or why
    /// its units travel alone, if it is a read.
    pub plain_read: Result<(), String>,
    /// Calls functions that may change the session.
    pub taints: bool,
    /// What it may do with sequences.
    pub sequences: SequenceUse,
    /// It may read the last number of a sequence where its text does not say so, as far as the catalog tells: in a group it would
    /// be another member's.
    pub reads_numbers: bool,
    /// Calls a function that the configuration declares: it travels as if it carried the hint.
    pub declared: bool,
    /// The time-outs that are in force under these settings.
    pub timeouts: ClientTimeouts,
}

/// What a user allows (configuration of the database and user).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Hinted statements may travel together (`hotspot`).
    pub hotspot: bool,
    /// Un-hinted autocommit statements too (`hotspot_for_autocommit`).
    pub for_autocommit: bool,
    /// Rows are locked once for a whole group: fold; else chain only (`hotspot_lock_type`).
    pub lock_type: bool,
    /// Plain reads may travel together: short ones in a pipeline, others with those that ask the same.
    pub pipeline: bool,
}

/// How a unit travels, and whether a hint or switch would have let it travel with others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupingDecision {
    /// For the line.
    pub spec: WaitSpec,
    /// It could fold, but is neither hinted nor is `hotspot_for_autocommit` on.
    pub would_group: bool,
}

impl GroupingDecision {
    /// How a unit travels about whose template nothing is known yet: alone, and in its place.
    pub fn without_analysis(request: &Request, policy: Policy) -> Self {
        match request.template.effect() {
            Some(Effect::Write) => alone_or(None).with_barrier(request, policy),
            _ => Self::default(),
        }
    }

    /// A write whose row is not known keeps its place among those that travel together.
    fn with_barrier(mut self, request: &Request, policy: Policy) -> Self {
        self.spec.barrier = policy.for_autocommit || policy.hotspot;
        self.spec.table = table_of(request);
        self
    }
}

/// The one table that a statement changes. `None`: it names none or several, or leaves that to a function.
fn table_of(request: &Request) -> Option<TableId> {
    let statement = request.template.statement.as_ref()?;
    if statement.effect == Effect::Read {
        return None;
    }
    let [name] = statement.relations.as_slice() else {
        return None;
    };
    let mut hasher = DefaultHasher::new();
    name.name.hash(&mut hasher);
    Some(TableId(hasher.finish()))
}

impl TemplateAnalysis {
    /// Nothing may be assumed of it, for this reason.
    pub fn refused(why: impl Into<String>) -> Self {
        let why = why.into();
        Self {
            plan: Err(why.clone()),
            chain_facts: Err(why.clone()),
            plain_read: Err(why),
            taints: true,
            sequences: SequenceUse::ANY,
            reads_numbers: true,
            declared: false,
            timeouts: ClientTimeouts::default(),
        }
    }

    /// How `unit` travels; notes in it what its group will have to know of it.
    pub fn decide(&self, request: &mut PlannedRequest, policy: Policy) -> GroupingDecision {
        request.taints = self.taints && request.template.calls_functions();
        request.sequences = self.sequences;
        match request.template.effect() {
            Some(Effect::Read) if self.is_requested(request, policy) && self.writes(request) => {
                self.decide_write(request, policy)
            }
            Some(Effect::Read)
                if policy.pipeline
                    && self.plain_read.is_ok()
                    && request.template.hints().target_affect_row.is_none() =>
            {
                alone_or(match request.template.pace.is_short() {
                    true => Some(pipeline::fits(request)),
                    false => share::fits(request),
                })
            }
            Some(Effect::Write) => self.decide_write(request, policy),
            _ => GroupingDecision::default(),
        }
    }

    /// By a hint or by a declaration, does the user want it to travel with others?
    fn is_requested(&self, request: &Request, policy: Policy) -> bool {
        policy.hotspot && (self.declared || request.template.hints().commit_on_success)
    }

    /// A SELECT whose functions may write: one of the user's own, whatever it is declared as in the catalog.
    fn writes(&self, request: &Request) -> bool {
        self.declared || (self.taints && request.template.calls_functions())
    }

    fn decide_write(&self, request: &mut PlannedRequest, policy: Policy) -> GroupingDecision {
        if self.timeouts.transaction.is_some() {
            // A group that takes longer than one member may would lose its connection, and nobody could tell what became of it.
            return alone_or(None).with_barrier(request, policy);
        }
        let asked = self.is_requested(request, policy);
        let chain_facts = self.chain_facts.as_ref().ok();
        let chain_facts =
            chain_facts.filter(|_| asked && !self.reads_numbers && self.permits_chain());
        let chain = chain_facts.and_then(|_| chain::fits(request));
        request.chain_facts = chain_facts.cloned();
        // In a chain, or alone, consumers of a queue need not wait for one another.
        let plan = self.plan.as_ref().ok();
        let plan = plan.filter(|plan| policy.lock_type || plan.orders_requests_outside_groups());
        let together = plan.and_then(|plan| Some((plan, plan.fits(request)?)));
        let Some((plan, (plan_group, keys))) = together else {
            return alone_or(chain).with_barrier(request, policy);
        };
        if !asked && !policy.for_autocommit {
            return GroupingDecision {
                would_group: true,
                ..GroupingDecision::default()
            };
        }
        let group = match policy.lock_type {
            true => Some(plan_group),
            false => chain,
        };
        let in_one = group.is_some_and(|id: GroupId| id.strategy.rewrites());
        request.plan = Some(Arc::clone(plan));
        GroupingDecision {
            spec: WaitSpec {
                group,
                table: table_of(request).filter(|_| in_one),
                // Which rows an insert meets is not known.
                barrier: keys == LineKeys::Unknown,
                keys,
                probe: Some(plan_group).filter(|_| plan.probe().is_some()),
                locks: in_one && plan.lock().is_some(),
                timeouts: self.timeouts,
                size_max: self.size_max(request),
            },
            would_group: false,
        }
    }

    /// A chain replaces its members' `statement_timeout`: a shorter one would be exceeded unnoticed.
    fn permits_chain(&self) -> bool {
        let limit = self.timeouts.statement;
        limit.is_none_or(|limit| limit >= STATEMENT_MAX)
    }

    /// Most units in a group so that none of them times out because of the others.
    fn size_max(&self, request: &Request) -> Option<usize> {
        let limit = self.timeouts.statement?;
        Some(
            request
                .template
                .pace
                .most_within(limit / GROUP_PART_OF_TIMEOUT),
        )
    }
}

fn alone_or(group: Option<GroupId>) -> GroupingDecision {
    GroupingDecision {
        spec: WaitSpec {
            group,
            ..WaitSpec::default()
        },
        would_group: false,
    }
}
