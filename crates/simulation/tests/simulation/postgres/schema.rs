//! The tables of the simulated database.

use super::tree::OutColumn;
use super::value::Type;

/// The statements that make the same tables in PostgreSQL.
pub(crate) const DDL: [&str; 3] = [
    "CREATE TABLE lists (id int4 PRIMARY KEY, elements text NOT NULL, size int4 NOT NULL)",
    "CREATE TABLE events (tag text NOT NULL)",
    "CREATE TABLE jobs (id int4 PRIMARY KEY, tag text NOT NULL)",
];

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: Vec<(&'static str, Type)>,
    /// The column of the primary key.
    pub(crate) key: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) tables: Vec<Table>,
}

impl Schema {
    pub(crate) fn new() -> Self {
        let table = |name, columns: &[_], key| Table {
            name,
            columns: columns.to_vec(),
            key,
        };
        Self {
            tables: vec![
                table(
                    "lists",
                    &[
                        ("id", Type::Int4),
                        ("elements", Type::Text),
                        ("size", Type::Int4),
                    ],
                    Some(0),
                ),
                table("events", &[("tag", Type::Text)], None),
                table("jobs", &[("id", Type::Int4), ("tag", Type::Text)], Some(0)),
            ],
        }
    }

    pub(crate) fn table(&self, name: &str) -> Option<usize> {
        self.tables.iter().position(|table| table.name == name)
    }

    /// The columns of a table with the system columns.
    pub(crate) fn columns(&self, table: usize) -> Vec<OutColumn> {
        let named = self.tables[table].columns.iter().enumerate();
        let mut columns: Vec<_> = named
            .map(|(place, (name, of))| OutColumn {
                name: (*name).to_owned(),
                of: *of,
                origin: Some((table, place)),
                hidden: false,
            })
            .collect();
        columns.extend(["xmin", "ctid"].map(|name| OutColumn {
            name: name.to_owned(),
            of: Type::Int8,
            origin: None,
            hidden: true,
        }));
        columns
    }
}
