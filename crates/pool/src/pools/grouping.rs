//! Decisions of operators on the grouping of single tables and templates, while the process runs. They have precedence over those of the
//! configuration, and a reload keeps them.

use super::{Pools, Registry};
use paceline_config::{Database, GroupingDecisions, GroupingTarget};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A decision in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionInForce {
    /// The database, as clients name it, or the name of its entry in the configuration.
    pub database: String,
    /// The subject of the decision.
    pub target: GroupingTarget,
    /// Whether it allows grouping.
    pub allowed: bool,
    /// Whether an operator has decided it in the console; otherwise the configuration has.
    pub by_operator: bool,
}

impl Registry {
    /// The decisions for the database that clients name so.
    pub(super) fn decisions(&self, name: &str, database: &Database) -> Arc<GroupingDecisions> {
        let mut all = database.grouping.clone();
        if let Some(decided) = self.grouping.get(name) {
            all.extend(decided.clone());
        }
        Arc::new(all)
    }
}

impl Pools {
    /// Allows or denies grouping in a database; `None` returns to the configuration. Requests that arrive later follow.
    pub fn decide_grouping(
        self: &Arc<Self>,
        database: &str,
        target: GroupingTarget,
        allowed: Option<bool>,
    ) {
        let mut registry = self.lock();
        let decided = registry.grouping.entry(database.to_owned()).or_default();
        match allowed {
            Some(allowed) => {
                decided.insert(target, allowed);
            }
            None => {
                decided.remove(&target);
            }
        }
        if decided.is_empty() {
            registry.grouping.remove(database);
        }
        self.reconfigure_all(&mut registry);
    }

    /// The decisions in force.
    pub fn grouping_decisions(&self) -> Vec<DecisionInForce> {
        let config = self.shared.config();
        let registry = self.lock();
        let decision = |database: &str, by_operator: bool| {
            let database = database.to_owned();
            move |(target, allowed): (&GroupingTarget, &bool)| DecisionInForce {
                database: database.clone(),
                target: target.clone(),
                allowed: *allowed,
                by_operator,
            }
        };
        let mut all = BTreeMap::new();
        let mut add = |one: DecisionInForce| {
            all.insert((one.database.clone(), one.target.clone()), one);
        };
        for (name, database) in &config.databases {
            database
                .grouping
                .iter()
                .map(decision(name, false))
                .for_each(&mut add);
        }
        for (name, decided) in &registry.grouping {
            decided.iter().map(decision(name, true)).for_each(&mut add);
        }
        all.into_values().collect()
    }
}
