//! Statements on one table, as far as a partition key may find their rows: the values of the key in the text, and the same text on
//! another table.
//!
//! The text names one table. Every part that may mean something else on another server, or that belongs to the table as an object
//! (system columns, whole rows, names with the table's schema), is a [`KeyedRefusal`]; so is everything that is not one plain
//! SELECT, INSERT of VALUES, UPDATE or DELETE.

mod columns;
mod insert;
mod key;
mod place;
mod refusal;
#[cfg(test)]
mod tests;

use crate::name::Name;
use crate::parser;
use crate::tree::Record;
use crate::update::as_target;
pub use columns::UsedColumns;
pub use insert::KeyedConflict;
pub use key::{KeySource, KeyValues, KeyedColumn};
use pg_query::protobuf::{DeleteStmt, InsertStmt, RangeVar, SelectStmt, SetOperation, UpdateStmt};
use pg_query::{Node, NodeEnum};
use place::Place;
pub use place::{Moved, Replaced, in_original};
pub use refusal::KeyedRefusal;

/// The kind of a statement on rows of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyedCommand {
    /// SELECT.
    Select,
    /// INSERT of VALUES.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
}

/// One statement on one table.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyedStatement {
    /// The table, as the text names it.
    pub relation: Name,
    /// The kind of the statement.
    pub command: KeyedCommand,
    /// The values of key columns in the text.
    pub values: KeyValues,
    /// The columns that SET changes, also those of `DO UPDATE`.
    pub assigned: Vec<String>,
    /// The columns in the text.
    pub columns: UsedColumns,
    /// Whether the text has the word DEFAULT in place of a value.
    pub writes_default: bool,
    /// The ON CONFLICT clause.
    pub conflict: Option<KeyedConflict>,
    /// The number of uses of each parameter in the text, from `$1` on.
    parameters: Vec<usize>,
    place: Place,
}

impl KeyedStatement {
    /// Reads a text of one statement.
    ///
    /// # Errors
    /// The reason why the statement is none of these, or may mean something else on another server.
    pub fn read(sql: &str) -> Result<Self, KeyedRefusal> {
        let parsed = parser::parse(sql).map_err(|_| KeyedRefusal::NotParsed)?;
        let tree = Record::of(&parsed);
        let mut statements = parsed.stmts.into_iter();
        let statement = statements.next().and_then(|raw| raw.stmt?.node);
        let (Some(statement), None) = (statement, statements.next()) else {
            return Err(KeyedRefusal::NotOneStatement);
        };
        if let Some(refusal) = refusal::of_tree(&tree) {
            return Err(refusal);
        }
        let (relation, parts) = match &statement {
            NodeEnum::SelectStmt(select) => of_select(select)?,
            NodeEnum::UpdateStmt(update) => of_update(update)?,
            NodeEnum::DeleteStmt(delete) => of_delete(delete)?,
            NodeEnum::InsertStmt(insert) => of_insert(insert)?,
            _ => return Err(KeyedRefusal::OtherStatement),
        };
        let qualifier = qualifier(relation)?;
        Ok(Self {
            columns: UsedColumns::read(&tree, qualifier)?,
            relation: Name::of_relation(relation),
            place: Place::of(sql, relation)?,
            parameters: key::parameter_uses(&tree),
            writes_default: tree.contains(&["SetToDefault"]),
            ..parts
        })
    }

    /// Whether the text has this parameter (from 1) in one place only. Then its type is that of the column to which it is compared,
    /// if the text declares none.
    pub fn has_once(&self, parameter: u32) -> bool {
        let index = (parameter as usize).checked_sub(1);
        index.and_then(|index| self.parameters.get(index)) == Some(&1)
    }

    /// The columns to which the text gives values, as far as it names them.
    pub fn fixed_columns(&self) -> Vec<&str> {
        match &self.values {
            KeyValues::Conjuncts(found) => found.iter().map(|found| &*found.column).collect(),
            KeyValues::Rows { columns, .. } if columns.is_empty() => vec!["the first columns"],
            KeyValues::Rows { columns, .. } => columns.iter().map(String::as_str).collect(),
        }
    }

    /// The highest number of a parameter.
    pub fn parameters(&self) -> usize {
        self.parameters.len()
    }

    /// Number of parameters in front of the name of the table.
    pub fn parameters_before(&self) -> usize {
        self.place.parameters_before
    }

    /// The text on another table, under the name of its own table. `sql`: the text that was read, or one whose literals stand for its
    /// parameters; `shift`: how much farther behind the table's name is there.
    pub fn on(&self, sql: &str, shift: isize, schema: &str, table: &str) -> Option<Moved> {
        self.place.moved(sql, shift, schema, table)
    }
}

/// The parts that do not depend on the columns in use.
fn parts(command: KeyedCommand, values: KeyValues) -> KeyedStatement {
    KeyedStatement {
        relation: Name::without_schema(""),
        command,
        values,
        assigned: Vec::new(),
        columns: UsedColumns::default(),
        writes_default: false,
        conflict: None,
        parameters: Vec::new(),
        place: Place::default(),
    }
}

type Parts<'a> = (&'a RangeVar, KeyedStatement);

/// The name by which columns refer to the table.
fn qualifier(relation: &RangeVar) -> Result<&str, KeyedRefusal> {
    let name = match &relation.alias {
        Some(alias) if !alias.colnames.is_empty() => return Err(KeyedRefusal::Alias),
        Some(alias) => &alias.aliasname,
        None => &relation.relname,
    };
    match matches!(name.as_str(), "old" | "new" | "excluded") {
        // In RETURNING and ON CONFLICT, these names refer to versions of the row.
        true => Err(KeyedRefusal::Alias),
        false => Ok(name),
    }
}

/// A plain name of a table: without ONLY, and of this database.
fn plain(relation: &RangeVar) -> Result<&RangeVar, KeyedRefusal> {
    match (relation.inh, relation.catalogname.is_empty()) {
        (false, _) => Err(KeyedRefusal::Only),
        (true, false) => Err(KeyedRefusal::OtherStatement),
        (true, true) => Ok(relation),
    }
}

fn of_select(select: &SelectStmt) -> Result<Parts<'_>, KeyedRefusal> {
    let is_plain = select.op() == SetOperation::SetopNone
        && select.values_lists.is_empty()
        && select.into_clause.is_none();
    let from: Vec<&NodeEnum> = select.from_clause.iter().filter_map(node).collect();
    let &[NodeEnum::RangeVar(relation)] = from.as_slice() else {
        return Err(KeyedRefusal::NotOneTable);
    };
    if !is_plain {
        return Err(KeyedRefusal::OtherStatement);
    }
    if !select.locking_clause.is_empty() {
        return Err(KeyedRefusal::Locks);
    }
    let relation = plain(relation)?;
    let values = of_where(select.where_clause.as_deref(), relation)?;
    Ok((relation, parts(KeyedCommand::Select, values)))
}

fn of_update(update: &UpdateStmt) -> Result<Parts<'_>, KeyedRefusal> {
    if !update.from_clause.is_empty() {
        return Err(KeyedRefusal::NotOneTable);
    }
    let relation = update.relation.as_ref().ok_or(KeyedRefusal::NotOneTable)?;
    let relation = plain(relation)?;
    let values = of_where(update.where_clause.as_deref(), relation)?;
    let parts = KeyedStatement {
        assigned: assigned(&update.target_list)?,
        ..parts(KeyedCommand::Update, values)
    };
    Ok((relation, parts))
}

fn of_delete(delete: &DeleteStmt) -> Result<Parts<'_>, KeyedRefusal> {
    if !delete.using_clause.is_empty() {
        return Err(KeyedRefusal::NotOneTable);
    }
    let relation = delete.relation.as_ref().ok_or(KeyedRefusal::NotOneTable)?;
    let relation = plain(relation)?;
    let values = of_where(delete.where_clause.as_deref(), relation)?;
    Ok((relation, parts(KeyedCommand::Delete, values)))
}

fn of_insert(insert: &InsertStmt) -> Result<Parts<'_>, KeyedRefusal> {
    let relation = insert.relation.as_ref().ok_or(KeyedRefusal::NotOneTable)?;
    let relation = plain(relation)?;
    let values = insert::values(insert)?;
    let (conflict, targets) = insert::conflict(insert)?;
    let parts = KeyedStatement {
        assigned: assigned(targets)?,
        conflict,
        ..parts(KeyedCommand::Insert, values)
    };
    Ok((relation, parts))
}

/// The columns that SET names.
fn assigned(targets: &[Node]) -> Result<Vec<String>, KeyedRefusal> {
    let name = |target| {
        let target = as_target(target)?;
        target.indirection.is_empty().then(|| target.name.clone())
    };
    let names: Option<Vec<String>> = targets.iter().map(name).collect();
    names.ok_or(KeyedRefusal::PartOfColumn)
}

fn of_where(condition: Option<&Node>, relation: &RangeVar) -> Result<KeyValues, KeyedRefusal> {
    let condition = condition.ok_or(KeyedRefusal::NoKey)?;
    let found = key::conjuncts(condition, qualifier(relation)?);
    match found.is_empty() {
        true => Err(KeyedRefusal::NoKey),
        false => Ok(KeyValues::Conjuncts(found)),
    }
}

fn node(node: &Node) -> Option<&NodeEnum> {
    node.node.as_ref()
}
