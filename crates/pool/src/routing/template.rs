//! The statements of a template on shards, by one map.

use super::refusal::RouteRefusal;
use super::table::KnownTables;
use crate::hosts::names_of;
use paceline_batch::strategy::ShardTable;
use paceline_batch::strategy::share::ANSWER_BYTES_MAX;
use paceline_relay::request::{Request, Values};
use paceline_relay::template::{Template, Templates};
use paceline_shards::{
    Access, Column, ColumnDefault, Command, LeafId, Placement, Reason, ShardMap, ShardServerId,
    ShardedTable,
};
use paceline_sql::keyed::{KeyValues, KeyedCommand, KeyedStatement, Moved, Replaced, in_original};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The role whose statements are routed, and the map.
#[derive(Clone, Copy)]
pub(super) struct RoutedBy<'a> {
    pub(super) map: &'a dyn ShardMap,
    /// The role on the coordinator.
    pub(super) role: &'a str,
    pub(super) tables: &'a KnownTables,
    pub(super) templates: &'a Templates,
}

/// Maximum number of leaves for which the text of a template is known. If there are more, all are written again.
const LEAVES_MAX: usize = 1_024;

/// The statements of a template on shards.
#[derive(Debug)]
pub(super) struct TemplateRoute {
    /// The statement, and the place of its table in the map.
    found: Result<(KeyedStatement, usize), RouteRefusal>,
    leaves: Mutex<FxHashMap<LeafId, Result<Arc<LeafStatement>, RouteRefusal>>>,
}

/// A template on the shard's table of a leaf.
#[derive(Debug)]
pub(super) struct LeafStatement {
    pub(super) server: ShardServerId,
    pub(super) template: Arc<Template>,
    pub(super) table: Arc<ShardTable>,
    replaced: Replaced,
}

impl TemplateRoute {
    pub(super) fn new(template: &Template, map: &dyn ShardMap) -> Self {
        Self {
            found: find(template, map),
            leaves: Mutex::default(),
        }
    }

    /// The table and the statement.
    pub(super) fn on_map<'m>(
        &'m self,
        map: &'m dyn ShardMap,
    ) -> Result<(&'m ShardedTable, &'m KeyedStatement), RouteRefusal> {
        let (statement, place) = self.found.as_ref().map_err(Clone::clone)?;
        let table = map.tables().get(*place).ok_or(RouteRefusal::NotSharded)?;
        Ok((table, statement))
    }

    /// The statement on the table of a leaf.
    pub(super) fn on_leaf(
        &self,
        by: RoutedBy<'_>,
        leaf: LeafId,
        request: &Request,
    ) -> Result<Arc<LeafStatement>, RouteRefusal> {
        // Bytes of the last answer, wherever it came from.
        if request.template.pace.last_bytes() > ANSWER_BYTES_MAX {
            return Err(RouteRefusal::TooLong);
        }
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if leaves.len() >= LEAVES_MAX && !leaves.contains_key(&leaf) {
            leaves.clear();
        }
        let known = leaves
            .entry(leaf)
            .or_insert_with(|| self.make(by, leaf, request).map(Arc::new));
        known.clone()
    }

    fn make(
        &self,
        by: RoutedBy<'_>,
        leaf: LeafId,
        request: &Request,
    ) -> Result<LeafStatement, RouteRefusal> {
        let (table, statement) = self.on_map(by.map)?;
        let leaf = table.leaf(leaf).ok_or(Reason::NoPartition)?;
        let Placement::Shard(own) = &leaf.placement else {
            return Err(Reason::NoPartition.into());
        };
        let access = access(table, statement);
        by.map.check_role(by.role, table, own.server, &access)?;
        if let Some(parsed) = &request.template.statement {
            let names = names_of(parsed);
            by.map.check_names(own.server, &names)?;
        }
        let text = &request.template.text;
        let moved = statement.on(text, 0, &own.name.schema, &own.name.name);
        let moved = moved.ok_or(RouteRefusal::Text)?;
        Ok(LeafStatement {
            server: own.server,
            template: by.templates.on_other_table(&request.template, &moved.text),
            table: by.tables.of(table, leaf, own, by.templates),
            replaced: moved.replaced,
        })
    }
}

impl LeafStatement {
    /// The text of a request on the shard's table; empty in the extended protocol, in which the template has it.
    pub(super) fn text(
        &self,
        statement: &KeyedStatement,
        request: &Request,
    ) -> Result<Moved, RouteRefusal> {
        let (Some(query), Values::Literals(literals)) = (request.query(), &request.values) else {
            return Ok(Moved {
                text: String::new(),
                replaced: self.replaced,
            });
        };
        let own = &self.table.own;
        let shift = in_original(literals, statement.parameters_before());
        let moved = statement.on(query, shift, &own.schema, &own.table);
        moved.ok_or(RouteRefusal::Text)
    }
}

/// The statement of a template, if the map has its table and does not exclude all its statements.
fn find(template: &Template, map: &dyn ShardMap) -> Result<(KeyedStatement, usize), RouteRefusal> {
    let parsed = template
        .statement
        .as_ref()
        .ok_or(RouteRefusal::NotSharded)?;
    let [relation] = parsed.relations.as_slice() else {
        return Err(RouteRefusal::NotSharded);
    };
    let named = map.table(relation.schema.as_deref(), &relation.name);
    let table = named.ok_or(RouteRefusal::NotSharded)?;
    let mut all = map.tables().iter();
    let place = all.position(|other| other.oid == table.oid);
    let place = place.ok_or(RouteRefusal::NotSharded)?;
    if let Some(problem) = &table.problem {
        return Err(Reason::Table(problem.clone()).into());
    }
    if template.hints().target_affect_row.is_some() {
        return Err(RouteRefusal::Target);
    }
    if template.is_parsed_alone() {
        return Err(RouteRefusal::Text);
    }
    let statement = KeyedStatement::read(&template.text)?;
    let mut qualified = statement.columns.qualified.iter();
    if let Some(name) = qualified.find(|name| table.column(name).is_none()) {
        return Err(RouteRefusal::NoColumn(name.clone()));
    }
    if statement
        .assigned
        .iter()
        .any(|name| table.is_key_column(name))
    {
        return Err(RouteRefusal::MovesRow);
    }
    if let Some(column) = column_of_coordinator(table, &statement) {
        return Err(RouteRefusal::Default(column.name.clone()));
    }
    match has_conflict_key(table, &statement) {
        true => Ok((statement, place)),
        false => Err(RouteRefusal::NoKey),
    }
}

/// A column whose value the coordinator decides about.
fn column_of_coordinator<'t>(
    table: &'t ShardedTable,
    statement: &KeyedStatement,
) -> Option<&'t Column> {
    let is_given = |column: &Column| match &statement.values {
        KeyValues::Conjuncts(_) => true,
        KeyValues::Rows { columns, rows } if columns.is_empty() => {
            let place = table.columns.iter().position(|other| other == column);
            place.is_some_and(|place| rows.iter().all(|row| place < row.len()))
        }
        KeyValues::Rows { columns, .. } => columns.contains(&column.name),
    };
    let inserts = statement.command == KeyedCommand::Insert;
    let mut columns = table.columns.iter();
    columns.find(|column| match column.default {
        ColumnDefault::Alike => false,
        ColumnDefault::Coordinator => statement.writes_default || !is_given(column),
        ColumnDefault::Identity => inserts || statement.assigned.contains(&column.name),
    })
}

/// Whether each shard finds the same conflicts as one table with all rows.
fn has_conflict_key(table: &ShardedTable, statement: &KeyedStatement) -> bool {
    let Some(conflict) = &statement.conflict else {
        return true;
    };
    let Some(target) = &conflict.target else {
        return true;
    };
    let mut target = target.clone();
    target.sort();
    let has_partition_key = table
        .key_columns()
        .iter()
        .all(|column| target.contains(&column.name));
    let has_key = |leaf: &paceline_shards::Leaf| match &leaf.placement {
        Placement::Shard(own) => own.keys.iter().any(|key| key.columns == target),
        Placement::Coordinator | Placement::Unfit(_) => false,
    };
    has_partition_key && table.leaves().iter().all(has_key)
}

/// The use of the table's columns by the statement. A write also reads all of them: the shard's user may be the owner of the table, so an
/// error shows the whole row, which PostgreSQL shows only to a role that may read it.
fn access<'a>(table: &'a ShardedTable, statement: &'a KeyedStatement) -> Access<'a> {
    let all = || table.columns.iter().map(|column| column.name.as_str());
    let known = |name: &&String| table.column(name).is_some();
    let named = statement.columns.names.iter();
    let writes = statement.command != KeyedCommand::Select;
    let reads = match writes || statement.columns.all {
        true => all().collect(),
        false => named.filter(known).map(String::as_str).collect(),
    };
    let inserts = match &statement.values {
        KeyValues::Rows { columns, .. } if columns.is_empty() => all().collect(),
        KeyValues::Rows { columns, .. } => columns.iter().map(String::as_str).collect(),
        KeyValues::Conjuncts(_) => Vec::new(),
    };
    Access {
        command: match statement.command {
            KeyedCommand::Select => Command::Select,
            KeyedCommand::Insert => Command::Insert,
            KeyedCommand::Update => Command::Update,
            KeyedCommand::Delete => Command::Delete,
        },
        reads,
        inserts,
        updates: statement.assigned.iter().map(String::as_str).collect(),
    }
}
