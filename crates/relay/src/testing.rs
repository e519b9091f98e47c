//! Helpers for the tests of this crate.

use crate::local_show::{ShowSource, ShowTable};

/// Knows one setting and one counter.
pub(crate) struct TestShowSource;

impl ShowSource for TestShowSource {
    fn variables(&self) -> Vec<(String, String)> {
        vec![("hotspot".to_owned(), "on".to_owned())]
    }

    fn status(&self) -> Vec<(String, String)> {
        vec![("Group_update_group_count".to_owned(), "7".to_owned())]
    }

    fn groups(&self) -> ShowTable {
        let (columns, rows) = (Vec::new(), Vec::new());
        ShowTable {
            columns,
            rows,
            command: "SHOW",
        }
    }
}
