//! What the tests of this crate share.

use crate::show::{Console, Table};

/// A console that knows one parameter.
pub(crate) struct Board;

impl Console for Board {
    fn variables(&self) -> Vec<(String, String)> {
        vec![("hotspot".to_owned(), "on".to_owned())]
    }

    fn status(&self) -> Vec<(String, String)> {
        vec![("Group_update_group_count".to_owned(), "7".to_owned())]
    }

    fn groups(&self) -> Table {
        let (columns, rows) = (Vec::new(), Vec::new());
        Table { columns, rows }
    }
}
