//! The privileges of a client's role on a table, on the coordinator.

use std::collections::BTreeSet;

/// The kind of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// `SELECT`
    Select,
    /// `INSERT`
    Insert,
    /// `UPDATE`
    Update,
    /// `DELETE`
    Delete,
}

/// The use of a sharded table by a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access<'a> {
    /// The kind of the statement.
    pub command: Command,
    /// The columns that it reads, also in WHERE, RETURNING, and for `ON CONFLICT` in the target.
    pub reads: Vec<&'a str>,
    /// The columns that INSERT names, and all columns if it names none.
    pub inserts: Vec<&'a str>,
    /// The columns that UPDATE, or DO UPDATE, assigns.
    pub updates: Vec<&'a str>,
}

/// Columns for which a role has a privilege.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Columns {
    /// None.
    #[default]
    None,
    /// The whole table.
    All,
    /// Only these, by name.
    Only(BTreeSet<String>),
}

/// The privileges of a role for one table. Without `USAGE` on the schema, a role has none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Privileges {
    /// `SELECT`
    pub select: Columns,
    /// `INSERT`
    pub insert: Columns,
    /// `UPDATE`
    pub update: Columns,
    /// `DELETE`
    pub delete: bool,
}

impl Columns {
    fn has(&self, column: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Only(names) => names.contains(column),
        }
    }

    /// Whether these are all that a statement needs. If it names no column, PostgreSQL wants the privilege for any.
    fn have(&self, columns: &[&str]) -> bool {
        let any = match self {
            Self::None => false,
            Self::All => true,
            Self::Only(names) => !names.is_empty(),
        };
        any && columns.iter().all(|column| self.has(column))
    }
}

impl Privileges {
    /// Whether the role may execute the statement.
    #[must_use]
    pub fn allow(&self, access: &Access<'_>) -> bool {
        let reads = match access.command {
            Command::Select => true,
            Command::Insert | Command::Update | Command::Delete => !access.reads.is_empty(),
        };
        let updates = access.command == Command::Update || !access.updates.is_empty();
        (!reads || self.select.have(&access.reads))
            && (access.command != Command::Insert || self.insert.have(&access.inserts))
            && (!updates || self.update.have(&access.updates))
            && (access.command != Command::Delete || self.delete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(names: &[&str]) -> Columns {
        Columns::Only(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn each_column_needs_its_privilege() {
        let privileges = Privileges {
            select: only(&["id", "a"]),
            insert: only(&["id"]),
            update: Columns::None,
            delete: false,
        };
        let access = |command, reads, inserts, updates| Access {
            command,
            reads,
            inserts,
            updates,
        };
        let allows = |access: Access<'_>| privileges.allow(&access);
        assert!(allows(access(
            Command::Select,
            vec!["id", "a"],
            vec![],
            vec![]
        )));
        assert!(allows(access(Command::Select, vec![], vec![], vec![])));
        assert!(!allows(access(
            Command::Select,
            vec!["id", "b"],
            vec![],
            vec![]
        )));
        assert!(allows(access(Command::Insert, vec![], vec!["id"], vec![])));
        assert!(!allows(access(
            Command::Insert,
            vec![],
            vec!["id", "a"],
            vec![]
        )));
        assert!(!allows(access(
            Command::Insert,
            vec!["b"],
            vec!["id"],
            vec![]
        )));
        assert!(!allows(access(
            Command::Insert,
            vec!["id"],
            vec!["id"],
            vec!["a"]
        )));
        assert!(!allows(access(
            Command::Update,
            vec!["id"],
            vec![],
            vec!["a"]
        )));
        assert!(!allows(access(Command::Delete, vec!["id"], vec![], vec![])));
    }
}
