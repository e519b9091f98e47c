//! The result of the catalog analysis of a template, and the groups that its requests may join because of it.

use crate::line::{ClientTimeouts, GroupId, LineKeys, TableId, WaitSpec};
use crate::policy::{Permission, Policy};
use crate::strategy::{
    ChainFacts, GroupPlan, PlannedRequest, STATEMENT_MAX, chain, pipeline, share,
};
use paceline_relay::request::Request;
use paceline_relay::server::own_meaning;
use paceline_relay::template::Template;
use paceline_sql::{Effect, Name, SequenceUse};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// The size of a group is limited so that it should take at most its members' `statement_timeout` divided by this.
const GROUP_PART_OF_TIMEOUT: u32 = 4;

/// The catalog analysis of a template in one database, under one set of settings.
#[derive(Debug)]
pub struct TemplateAnalysis {
    /// The plan by which one statement executes its requests, or why there is none.
    pub plan: Result<Arc<dyn GroupPlan>, String>,
    /// The facts that a chain with its requests relies on, or why its requests join no chain.
    pub chain_facts: Result<Arc<ChainFacts>, String>,
    /// Whether it reads tables only, and calls only functions of PostgreSQL's that are not volatile, so that its requests join
    /// pipelines and shared reads. Otherwise why the reads run alone.
    pub plain_read: Result<(), String>,
    /// Whether it is a read that has the same answer on a replica that has replayed the same log: a plain read, but for functions
    /// that are declared to only read, of logged tables of this database, that calls no function that shows the server.
    pub reads_on_replicas: bool,
    /// Whether such a read has the same answer also on a logical subscriber that has its tables: it uses only what is PostgreSQL's own
    /// and the same on each server.
    pub reads_on_subscribers: bool,
    /// The OID of its only table, if it means the same on another server that has the table: it uses only what is PostgreSQL's own.
    /// Known only if the database has shards.
    pub portable_table: Option<u32>,
    /// Whether it calls functions that may change the session; `None` if it was not analyzed.
    pub may_change_session: Option<bool>,
    /// Its possible use of sequences.
    pub sequences: SequenceUse,
    /// Whether it may read the last number of a sequence although its text does not say so. In a group that could be another
    /// member's number.
    pub reads_numbers: bool,
    /// Whether it calls a function that the configuration declares. Then its requests are treated as if they had the hint.
    pub declared: bool,
    /// The time-outs in force under these settings.
    pub timeouts: ClientTimeouts,
    /// The tables that its text names, each with its schema.
    pub tables: Vec<Name>,
    /// Whether its requests may join groups.
    pub permission: Permission,
}

/// The way in which a request enters the line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupingDecision {
    /// Its spec for the line.
    pub spec: WaitSpec,
    /// Whether it runs alone only because it has no hint and `hotspot_for_autocommit` is off.
    pub would_group: bool,
}

impl GroupingDecision {
    /// The decision for a request whose template has not been analyzed: it runs alone. A write is a barrier.
    pub fn without_analysis(request: &Request) -> Self {
        match request.template.effect() {
            Some(Effect::Write) => alone_or(None).with_barrier(request),
            _ => Self::default(),
        }
    }

    /// Whether the request joins groups of reads. Its client may give it up at any time.
    pub fn joins_reads(&self) -> bool {
        let group = self.spec.group;
        group.is_some_and(|id| id.strategy.reads())
    }

    /// Makes a barrier of a write whose row is not known.
    fn with_barrier(mut self, request: &Request) -> Self {
        // Even if the policy permits no groups: operators may allow those of other templates.
        self.spec.barrier = true;
        self.spec.table = table_of(request);
        self
    }
}

/// The table of a write: the only relation that its text names. `None` if the text names no relation or several, any of which it
/// may change, and for a read.
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

/// Whether a statement calls functions that may change the session, by the answer of its analysis. Without an answer, the name of a field
/// is taken for that of a column.
pub(crate) fn changes_session(analyzed: Option<bool>, template: &Template) -> bool {
    match analyzed {
        Some(may_change) => may_change && template.may_call_functions(),
        None => template.calls_functions(),
    }
}

impl TemplateAnalysis {
    /// An analysis that permits nothing, for this reason.
    pub fn refused(why: impl Into<String>) -> Self {
        let why = why.into();
        Self {
            plan: Err(why.clone()),
            chain_facts: Err(why.clone()),
            plain_read: Err(why),
            reads_on_replicas: false,
            reads_on_subscribers: false,
            portable_table: None,
            may_change_session: None,
            sequences: SequenceUse::ANY,
            reads_numbers: true,
            declared: false,
            timeouts: ClientTimeouts::default(),
            tables: Vec::new(),
            permission: Permission::Default,
        }
    }

    /// Decides how a request enters the line, and stores in it what its group will need.
    pub fn decide(&self, request: &mut PlannedRequest, policy: Policy) -> GroupingDecision {
        request.may_change_session = changes_session(self.may_change_session, &request.template);
        request.sequences = self.sequences;
        // Requests that may not join groups keep their order with those that do.
        let keeps_order = policy.for_autocommit;
        let writes = match request.template.effect() {
            Some(Effect::Write) => true,
            Some(Effect::Read) => self.is_requested(request, policy) && self.writes(request),
            _ => false,
        };
        let permission = self.permission_of(request);
        request.is_denied = permission == Permission::Denied;
        let policy = permission.apply(policy);
        match request.template.effect() {
            _ if writes && request.is_denied => alone_or(None).with_barrier(request),
            _ if writes => self.decide_write(request, policy, keeps_order),
            Some(Effect::Read)
                if policy.pipeline
                    && self.plain_read.is_ok()
                    && request.template.hints().target_affect_row.is_none() =>
            {
                alone_or(group_of_read(request))
            }
            _ => GroupingDecision::default(),
        }
    }

    /// Operators decide on the table of the coordinator, not on that of the shard.
    fn permission_of(&self, request: &PlannedRequest) -> Permission {
        match &request.shard {
            Some(part) => part.permission.or(self.permission),
            None => self.permission,
        }
    }

    /// The group in which a replica may answer a request; `None` if only the primary may answer it, or if the last answer was too
    /// long: no client gets a part of a replica's answer before it counts.
    pub fn group_on_replica(&self, request: &PlannedRequest) -> Option<GroupId> {
        let template = &request.template;
        let reads = matches!(template.effect(), Some(Effect::Read))
            && template.hints().target_affect_row.is_none();
        let may = reads && self.reads_on_replicas;
        let fits = template.pace.last_bytes() <= share::ANSWER_BYTES_MAX;
        match self.permission_of(request) {
            // A pipeline executes each denied read.
            Permission::Denied => {
                (may && template.pace.is_short()).then(|| pipeline::group_of(request))
            }
            Permission::Default | Permission::Hinted | Permission::Allowed => {
                (may && fits).then(|| group_of_read(request)).flatten()
            }
        }
    }

    /// Whether a hint or a declaration asks for groups.
    fn is_requested(&self, request: &Request, policy: Policy) -> bool {
        policy.hotspot && (self.declared || request.template.hints().commit_on_success)
    }

    /// Whether a SELECT may write: it calls functions of the user's own, whatever their volatility in the catalog.
    fn writes(&self, request: &Request) -> bool {
        self.declared || changes_session(self.may_change_session, &request.template)
    }

    fn decide_write(
        &self,
        request: &mut PlannedRequest,
        policy: Policy,
        keeps_order: bool,
    ) -> GroupingDecision {
        if self.timeouts.transaction.is_some() {
            // If a group exceeded this limit, it would lose its connection, and its members' outcome would be unknown.
            return alone_or(None).with_barrier(request);
        }
        let asked = self.is_requested(request, policy);
        let chain_facts = self.chain_facts.as_ref().ok();
        let chain_facts =
            chain_facts.filter(|_| asked && !self.reads_numbers && self.permits_chain());
        let chain = chain_facts.and_then(|_| chain::group_of(request));
        request.chain_facts = chain_facts.cloned();
        // Without `hotspot_lock_type`, requests leave alone or in a chain. Then only folds wait in the line for each other's
        // rows; PostgreSQL orders the others.
        let plan = self.plan.as_ref().ok();
        let plan = plan.filter(|plan| policy.lock_type || plan.orders_requests_outside_groups());
        // A statement for a whole group would read the constants under the present settings.
        let plan = plan.filter(|_| own_meaning(request).is_none());
        let together = plan.and_then(|plan| Some((plan, plan.group_and_keys(request)?)));
        let Some((plan, (plan_group, keys))) = together else {
            return alone_or(chain).with_barrier(request);
        };
        if !asked && !policy.for_autocommit {
            let alone = match keeps_order {
                true => alone_or(None).with_barrier(request),
                false => GroupingDecision::default(),
            };
            return GroupingDecision {
                would_group: true,
                ..alone
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
                // It is not known which rows an insert conflicts with.
                barrier: keys == LineKeys::Unknown,
                keys,
                probe_group: Some(plan_group).filter(|_| plan.probe().is_some()),
                locks: in_one && plan.lock().is_some(),
                timeouts: self.timeouts,
                size_max: self.size_max(request),
            },
            would_group: false,
        }
    }

    /// Whether a chain may replace the `statement_timeout` of its members by its own: only if theirs is not shorter.
    fn permits_chain(&self) -> bool {
        let limit = self.timeouts.statement;
        limit.is_none_or(|limit| limit >= STATEMENT_MAX)
    }

    /// Maximum number of requests in a group that should not exceed its members' `statement_timeout`.
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

/// The group of a plain read; `None` if its answer is too long for one.
fn group_of_read(request: &Request) -> Option<GroupId> {
    match request.template.pace.is_short() {
        true => Some(pipeline::group_of(request)),
        false => share::group_of(request),
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
