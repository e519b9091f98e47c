//! Rows for which most requests wait. A row is known by its key in the line.

use crate::pool::Pool;
use paceline_batch::strategy::PlannedRequest;
use paceline_relay::template::shortened;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of characters of a row's key.
const KEY_CHARS_MAX: usize = 100;

/// Requests of one template that wait for one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotRow {
    /// The name of the template in metrics.
    pub template: String,
    /// The key of the row in the line.
    pub line_key: u64,
    /// The values of the columns that identify the row, for administrators; `None` if Paceline does not compare them.
    pub values: Option<String>,
    /// Number of requests that wait, among those that were read.
    pub waiting: u64,
}

impl Pool {
    /// The rows for which at least two requests wait.
    pub fn hot_rows(&self) -> Vec<HotRow> {
        let mut rows: HashMap<(u64, String), (Arc<PlannedRequest>, u64)> = HashMap::new();
        for (key, planned) in self.awaited_rows() {
            // Templates of one name differ in the types of their literals only.
            let name = planned.request.template.name().to_owned();
            rows.entry((key, name)).or_insert((planned, 0)).1 += 1;
        }
        let rows = rows.into_iter().filter(|(_, (_, waiting))| *waiting > 1);
        rows.map(|((line_key, template), (planned, waiting))| HotRow {
            template,
            line_key,
            values: values(&planned),
            waiting,
        })
        .collect()
    }
}

fn values(planned: &PlannedRequest) -> Option<String> {
    let row = planned.plan.as_ref()?.row_of(&planned.request)?;
    let values: Vec<String> = row.iter().map(ToString::to_string).collect();
    Some(shortened(&values.join(", "), KEY_CHARS_MAX))
}
