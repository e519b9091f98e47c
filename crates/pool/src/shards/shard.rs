//! The questions to a shard.

use super::database::{self, is_known};
use super::rows::{Row, unreadable};
use crate::server::{ServerConn, ServerError};
use paceline_cluster::{SystemId, TableName};
use paceline_shards::{Fingerprint, ShardFacts, ShardTableFacts, UniqueKey};
use paceline_sql::Name;
use paceline_sql::facts::sharding::{
    role_settings_sql, shard_fingerprint_sql, shard_fingerprints_sql, shard_tables_sql,
};
use std::collections::HashMap;
use std::time::Duration;

/// The answer of a shard.
#[derive(Debug, Clone)]
pub struct ShardAnswer {
    pub(super) facts: ShardFacts,
    /// The default settings of the users, by name.
    pub(super) users: HashMap<String, String>,
}

impl ShardAnswer {
    /// Whether the server is a replica.
    pub fn is_in_recovery(&self) -> bool {
        self.facts.database.in_recovery
    }

    /// The tables that exist.
    pub(super) fn tables(&self) -> &HashMap<TableName, ShardTableFacts> {
        &self.facts.tables
    }
}

/// Asks a shard for these tables and users, in one transaction. Tables of `known` with the same fingerprint have not changed, and are not
/// asked for again.
///
/// # Errors
/// The server answers with an error, or the connection is lost.
pub async fn ask_shard(
    conn: &mut ServerConn,
    system: Option<SystemId>,
    tables: &[TableName],
    users: &[String],
    mut known: HashMap<TableName, ShardTableFacts>,
    limit: Duration,
) -> Result<ShardAnswer, ServerError> {
    let mut answer = ShardAnswer {
        facts: ShardFacts::default(),
        users: HashMap::new(),
    };
    answer.facts.database = database::begin(conn, system, limit).await?;
    if !is_known(&answer.facts.database) || tables.is_empty() {
        return Ok(answer);
    }
    let names: Vec<Name> = tables.iter().map(name).collect();
    let questions = [shard_fingerprints_sql(&names), role_settings_sql(users)];
    let answers = conn.query(&questions.join("; ")).await?;
    let [fingerprints, settings] = answers.as_slice() else {
        return Err(unreadable());
    };
    let mut others = Vec::new();
    for row in fingerprints {
        let row = Row(row);
        let place: usize = row.number(0)?;
        let table = tables.get(place).ok_or_else(unreadable)?;
        let value = row.required(1)?;
        let same = known.remove(table);
        match same.filter(|same| same.fingerprint.value == value) {
            Some(same) => {
                answer.facts.tables.insert(table.clone(), same);
            }
            None => others.push(table.clone()),
        }
    }
    for row in settings {
        let row = Row(row);
        let settings = row.text(1).unwrap_or_default().to_owned();
        answer.users.insert(row.required(0)?.to_owned(), settings);
    }
    let definitions = definitions(conn, &others).await?;
    answer.facts.tables.extend(definitions);
    conn.query("COMMIT").await?;
    Ok(answer)
}

/// The definitions of these tables.
async fn definitions(
    conn: &mut ServerConn,
    tables: &[TableName],
) -> Result<Vec<(TableName, ShardTableFacts)>, ServerError> {
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<Name> = tables.iter().map(name).collect();
    let answers = conn.query(&shard_tables_sql(&names)).await?;
    let rows = answers.first().ok_or_else(unreadable)?.iter();
    let definitions = rows.map(|row| {
        let row = Row(row);
        let place: usize = row.number(0)?;
        let table = tables.get(place).zip(names.get(place));
        let (table, name) = table.ok_or_else(unreadable)?;
        Ok((table.clone(), table_facts(&row, name)?))
    });
    definitions.collect()
}

fn name(table: &TableName) -> Name {
    Name {
        schema: Some(table.schema.clone()),
        name: table.name.clone(),
    }
}

fn table_facts(row: &Row<'_>, name: &Name) -> Result<ShardTableFacts, ServerError> {
    let keys: Vec<(String, bool, Vec<String>)> = row.json(5)?;
    let keys = keys.into_iter().map(|(name, is_constraint, mut columns)| {
        columns.sort();
        UniqueKey {
            columns,
            name,
            is_constraint,
        }
    });
    Ok(ShardTableFacts {
        oid: row.number(1)?,
        definition: database::definition(row, 2, 3)?,
        columns: database::columns(row, 4)?,
        keys: keys.collect(),
        fingerprint: Fingerprint {
            sql: shard_fingerprint_sql(name),
            value: row.required(6)?.to_owned(),
        },
    })
}
