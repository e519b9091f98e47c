//! The reasons why a statement is not one on one table that another server may execute in place of the first.

use crate::tree::Record;
use std::fmt;

/// The reason why a statement is not of this kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyedRefusal {
    /// The parser rejects the text.
    NotParsed,
    /// The text has several statements, or none.
    NotOneStatement,
    /// Neither SELECT, INSERT of VALUES, UPDATE nor DELETE.
    OtherStatement,
    /// It names several tables, or none, or a function in FROM.
    NotOneTable,
    /// It contains a sub-select or WITH.
    Subselect,
    /// ONLY.
    Only,
    /// TABLESAMPLE.
    Sample,
    /// FOR UPDATE and similar clauses.
    Locks,
    /// WHERE CURRENT OF.
    Cursor,
    /// A column that each table has, such as `tableoid`.
    SystemColumn,
    /// The name of the table as a value: a row has the type of its own table.
    WholeRow,
    /// A column with the schema of its table, or an alias with names of columns, or one that means versions of rows.
    Alias,
    /// SET of a part of a column.
    PartOfColumn,
    /// OVERRIDING, DEFAULT VALUES, ON CONFLICT ON CONSTRAINT.
    InsertForm,
    /// COLLATE.
    Collation,
    /// No `column = value` among the conjuncts of WHERE.
    NoKey,
}

impl fmt::Display for KeyedRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::NotParsed => "Paceline's parser rejects it",
            Self::NotOneStatement => "it is not one statement",
            Self::OtherStatement => "it is no plain SELECT, INSERT of VALUES, UPDATE or DELETE",
            Self::NotOneTable => "it does not name exactly one table",
            Self::Subselect => "it contains a sub-select or WITH",
            Self::Only => "it names the table with ONLY",
            Self::Sample => "it reads a sample of the table",
            Self::Locks => "it locks rows",
            Self::Cursor => "it names a cursor",
            Self::SystemColumn => "it names a system column, or what belongs to the session",
            Self::WholeRow => "it uses a whole row as a value",
            Self::Alias => "it names columns with the schema of the table, or the alias is special",
            Self::PartOfColumn => "it changes a part of a column",
            Self::InsertForm => "it is an INSERT of another form",
            Self::Collation => "it names a collation",
            Self::NoKey => "WHERE has no column = value",
        })
    }
}

/// The first part of the text that no statement on one key may contain.
pub(super) fn of_tree(tree: &Record) -> Option<KeyedRefusal> {
    let mut tables = 0;
    let mut refusal = None;
    tree.walk(&mut |node| {
        let found = match node.kind {
            "RangeVar" => {
                tables += 1;
                (tables > 1).then_some(KeyedRefusal::NotOneTable)
            }
            "JoinExpr" | "RangeFunction" | "RangeTableFunc" | "JsonTable" => {
                Some(KeyedRefusal::NotOneTable)
            }
            "SubLink" | "WithClause" | "RangeSubselect" => Some(KeyedRefusal::Subselect),
            "RangeTableSample" => Some(KeyedRefusal::Sample),
            "CurrentOfExpr" => Some(KeyedRefusal::Cursor),
            "CollateClause" => Some(KeyedRefusal::Collation),
            _ => None,
        };
        refusal = refusal.or(found);
    });
    match refusal {
        None if crate::server_bound::is_server_bound(tree) => Some(KeyedRefusal::SystemColumn),
        other => other,
    }
}
