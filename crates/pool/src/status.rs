//! The answers of `SHOW hotspot…` and `SHOW GLOBAL STATUS`.

use crate::counters::Counters;
use crate::pool::Pool;
use paceline_batch::template_stats::TemplateNaming;
use paceline_config::keys;
use paceline_relay::local_show::{ShowSource, ShowTable};
use std::sync::atomic::Ordering;

/// `SHOW` returns what a client of the pool may see: no statements of other clients.
impl ShowSource for Pool {
    fn variables(&self) -> Vec<(String, String)> {
        let mut in_force = self.shared.config().paceline.clone();
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
        } = &self.shared.counters;
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

    fn groups(&self) -> ShowTable {
        self.groups(TemplateNaming::Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn every_counter_is_documented() {
        let pool = testing::pool();
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
