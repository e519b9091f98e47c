//! Rows for which most requests wait, for the web console. A row is known by its key in the line, without its values.

use crate::pool::Pool;
use paceline_relay::template::Template;
use std::collections::HashMap;
use std::sync::Arc;

/// Requests of one template that wait for one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotRow {
    /// The name of the template in metrics.
    pub template: String,
    /// The key of the row in the line.
    pub key: u64,
    /// Number of requests that wait, among those that were read.
    pub waiting: u64,
}

impl Pool {
    /// The rows for which at least two requests wait.
    pub fn hot_rows(&self) -> Vec<HotRow> {
        let mut rows: HashMap<(u64, u64), (Arc<Template>, u64)> = HashMap::new();
        for (key, template) in self.awaited_rows() {
            let row = rows.entry((key, template.id)).or_insert((template, 0));
            row.1 += 1;
        }
        let rows = rows.into_iter().filter(|(_, (_, waiting))| *waiting > 1);
        let row = |((key, _), (template, waiting)): (_, (Arc<Template>, _))| HotRow {
            template: template.name().to_owned(),
            key,
            waiting,
        };
        rows.map(row).collect()
    }
}
