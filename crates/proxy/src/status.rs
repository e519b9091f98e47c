//! Counters, and what `SHOW hotspot…` and `SHOW GLOBAL STATUS` answer.

use crate::pool::Pool;
use paceline_batch::template_stats::TemplateNaming;
use paceline_config::keys;
use paceline_relay::show::{Console, Table};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a process since its start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Groups of two or more writes that left.
    pub(crate) groups: AtomicU64,
    /// Units in them.
    pub(crate) members: AtomicU64,
    /// Units in the largest one.
    pub(crate) largest_group: AtomicU64,
    /// Units that left with a group and came back.
    pub(crate) fallbacks: AtomicU64,
    /// Groups that the server refused as a whole, and groups whose connection was lost.
    pub(crate) errors: AtomicU64,
    /// Un-hinted units that had to wait and could have travelled together.
    pub(crate) would_have_grouped: AtomicU64,
    /// Units in line now.
    pub(crate) waiting: AtomicU64,
}

impl Counters {
    /// A group of writes left.
    pub(crate) fn departed(&self, members: usize) {
        let members = members as u64;
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.members.fetch_add(members, Ordering::Relaxed);
        self.largest_group.fetch_max(members, Ordering::Relaxed);
    }

    /// Units left with a group and came back.
    pub(crate) fn came_back(&self, units: usize) {
        self.fallbacks.fetch_add(units as u64, Ordering::Relaxed);
    }

    /// Adds one.
    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// What `SHOW` sees is what a client of the pool may see: others' statements are not shown to it.
impl Console for Pool {
    fn variables(&self) -> Vec<(String, String)> {
        let mut in_force = self.proxy.config().paceline.clone();
        in_force.grouping.hotspot_for_autocommit = self.policy().for_autocommit;
        let keys = keys().filter(|key| key.name.starts_with("hotspot"));
        let value = |text: String| match text.as_str() {
            "true" => "on".to_owned(),
            "false" => "off".to_owned(),
            other => other.trim_matches('"').to_owned(),
        };
        keys.map(|key| (key.name.to_owned(), value(key.show(&in_force))))
            .collect()
    }

    fn status(&self) -> Vec<(String, String)> {
        let Counters {
            groups,
            members,
            largest_group,
            fallbacks,
            errors,
            would_have_grouped,
            waiting,
        } = &self.proxy.counters;
        [
            ("errors", errors),
            ("fallbacks", fallbacks),
            ("groups", groups),
            ("largest_group", largest_group),
            ("members", members),
            ("waiting", waiting),
            ("would_have_grouped", would_have_grouped),
        ]
        .map(|(name, counter)| {
            let value = counter.load(Ordering::Relaxed).to_string();
            (format!("Group_update_{name}"), value)
        })
        .to_vec()
    }

    fn groups(&self) -> Table {
        self.groups(TemplateNaming::Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::Proxy;
    use paceline_config::Config;
    use std::sync::Arc;

    #[test]
    fn every_counter_is_documented() {
        let config = Config::for_upstream("postgres://db").unwrap();
        let proxy = Arc::new(Proxy::new(config));
        let pool = proxy.pool("app", "rider").unwrap();
        let names: Vec<String> = pool.status().into_iter().map(|(name, _)| name).collect();
        assert!(names.is_sorted(), "{names:?}");
        let page = include_str!("../../../docs/groups.md");
        for name in &names {
            assert!(page.contains(&format!("\n| `{name}` |")), "{name}");
        }
        let rows = page
            .lines()
            .filter(|row| row.starts_with("| `Group_update_"));
        assert_eq!(rows.count(), names.len());
    }
}
