//! The decisions of operators on grouping for tables and templates, and the tables that the log has named.

use arc_swap::ArcSwap;
use paceline_batch::policy::Permission;
use paceline_config::{GroupingDecisions, GroupingTarget};
use paceline_sql::Name;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Tables of which the log has said that consumers of logical replication see them; more are not logged.
const LOGGED_MAX: usize = 1_000;

/// The decisions in force, and the tables that the log has named.
#[derive(Debug, Default)]
pub(super) struct Permits {
    decisions: ArcSwap<GroupingDecisions>,
    logged: Mutex<BTreeSet<(Name, bool)>>,
}

impl Permits {
    pub(super) fn new(decisions: Arc<GroupingDecisions>) -> Self {
        Self {
            decisions: decisions.into(),
            logged: Mutex::default(),
        }
    }

    /// Replaces the decisions; returns whether the new ones are others.
    pub(super) fn replace(&self, decisions: &Arc<GroupingDecisions>) -> bool {
        self.decisions.swap(Arc::clone(decisions)) != *decisions
    }

    /// The decision for a template that names these tables.
    pub(super) fn decided(&self, template: u32, tables: &[Name]) -> Permission {
        decided(&self.decisions.load(), template, tables)
    }

    /// Whether the log names a table for the first time with this message.
    pub(super) fn is_first(&self, table: &Name, grouped: bool) -> bool {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        logged.len() < LOGGED_MAX && logged.insert((table.clone(), grouped))
    }
}

/// The decision on a template has precedence; then grouping is denied if it is denied for one of the tables, and allowed if it is allowed
/// for all of them.
fn decided(decisions: &GroupingDecisions, template: u32, tables: &[Name]) -> Permission {
    if decisions.is_empty() {
        return Permission::Default;
    }
    let of = |target: &GroupingTarget| decisions.get(target).copied();
    let of_tables = || {
        let of_table = |table: &Name| of(&GroupingTarget::Table(table.clone()));
        let all: Vec<_> = tables.iter().map(of_table).collect();
        if all.contains(&Some(false)) {
            return Some(false);
        }
        let allowed = !all.is_empty() && all.iter().all(|one| *one == Some(true));
        allowed.then_some(true)
    };
    match of(&GroupingTarget::Template(template)).or_else(of_tables) {
        Some(true) => Permission::Allowed,
        Some(false) => Permission::Denied,
        None => Permission::Default,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(names: &[&str]) -> Vec<Name> {
        names.iter().filter_map(|name| Name::parse(name)).collect()
    }

    #[test]
    fn the_template_comes_before_its_tables() {
        let decisions = [
            ("s.allowed", true),
            ("s.also", true),
            ("s.denied", false),
            ("template 00000001", true),
            ("template 00000002", false),
        ];
        let target = |text: &str| GroupingTarget::parse(text).unwrap();
        let decisions = decisions
            .map(|(text, allowed)| (target(text), allowed))
            .into();
        for (template, names, expected) in [
            (0, vec!["s.allowed"], Permission::Allowed),
            (0, vec!["s.allowed", "s.also"], Permission::Allowed),
            (0, vec!["s.allowed", "s.other"], Permission::Default),
            (0, vec!["s.allowed", "s.denied"], Permission::Denied),
            (0, vec!["t.denied"], Permission::Default),
            (0, vec![], Permission::Default),
            (1, vec!["s.denied"], Permission::Allowed),
            (2, vec!["s.allowed"], Permission::Denied),
        ] {
            let found = decided(&decisions, template, &tables(&names));
            assert_eq!(found, expected, "{template} {names:?}");
        }
    }
}
