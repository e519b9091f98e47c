//! Rows for which most requests wait, for the web console. A row is known by its key in the line, without its values.

use crate::pool::Pool;
use std::collections::HashMap;

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
        let mut rows: HashMap<(u64, String), u64> = HashMap::new();
        for (key, template) in self.awaited_rows() {
            // Templates of one name differ in the types of their literals only.
            *rows.entry((key, template.name().to_owned())).or_default() += 1;
        }
        let rows = rows.into_iter().filter(|(_, waiting)| *waiting > 1);
        rows.map(|((key, template), waiting)| HotRow {
            template,
            key,
            waiting,
        })
        .collect()
    }
}
