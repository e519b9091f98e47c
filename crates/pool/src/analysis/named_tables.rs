//! The tables that a statement names.

use crate::server::ResultRows;
use paceline_batch::policy::Permission;
use paceline_sql::Name;

/// The tables that a statement names.
pub(super) struct NamedTables {
    /// Each with its schema.
    pub(super) names: Vec<Name>,
    /// Consumers of logical replication may see the changes of one of them.
    captured: bool,
}

impl NamedTables {
    /// Reads the rows of [`named_tables_sql`](paceline_sql::facts::named_tables_sql).
    pub(super) fn read(rows: &ResultRows) -> Self {
        let mut names: Vec<Name> = rows.iter().filter_map(|row| name(row)).collect();
        names.sort();
        names.dedup();
        let is_captured =
            |row: &Vec<Option<String>>| row.get(2).is_some_and(|is| is.as_deref() == Some("t"));
        Self {
            names,
            captured: rows.iter().any(is_captured),
        }
    }

    /// The permission to group if no operator decides.
    pub(super) fn permission(&self) -> Permission {
        match self.captured {
            true => Permission::Hinted,
            false => Permission::Default,
        }
    }
}

fn name(row: &[Option<String>]) -> Option<Name> {
    Some(Name {
        schema: Some(row.first()?.clone()?),
        name: row.get(1)?.clone()?,
    })
}
