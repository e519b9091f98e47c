//! The questions to a coordinator.

use super::database::{self, is_known};
use super::rows::{Row, unreadable};
use crate::server::{ResultRows, ServerConn, ServerError};
use paceline_cluster::{SystemId, TableName};
use paceline_shards::{
    ColumnFacts, Columns, CoordinatorFacts, Definition, ForeignFacts, KeyPartFacts, PARTITIONS_MAX,
    PartitionFacts, PartitionKeyFacts, Privileges, RoleFacts, RootFacts, ServerProblem,
};
use paceline_sql::facts::sharding::{
    USER_MAPPINGS_SQL, definitions_sql, foreign_servers_sql, partitions_sql, role_privileges_sql,
    role_settings_sql, sharded_tables_sql,
};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Options of a foreign object, in the order of the catalog.
pub(super) type Options = Vec<(String, String)>;

/// The answer of the coordinator.
#[derive(Debug, Default)]
pub struct CoordinatorAnswer {
    pub(super) facts: CoordinatorFacts,
    pub(super) servers: Vec<ForeignServer>,
    pub(super) mappings: Vec<UserMapping>,
}

impl CoordinatorAnswer {
    /// With the query that only connections to the coordinator run first; empty for none.
    #[must_use]
    pub fn with_connect_query(mut self, query: &str) -> Self {
        if !query.is_empty() {
            self.facts.problem = Some(ServerProblem::ConnectQuery);
        }
        self
    }

    /// Whether the server is in recovery: then it is a replica of the coordinator.
    pub fn is_in_recovery(&self) -> bool {
        self.facts.database.in_recovery
    }
}

/// Definitions of tables on the coordinator that were read before, by OID.
pub type KnownDefinitions = HashMap<u32, KnownDefinition>;

/// A definition.
#[derive(Debug, Clone)]
pub struct KnownDefinition {
    /// Changes with each change of the definition.
    version: String,
    /// JSON array of the lines.
    lines: String,
    /// Those of a partitioned table.
    columns: Vec<ColumnFacts>,
}

/// A foreign server.
#[derive(Debug)]
pub(super) struct ForeignServer {
    pub(super) name: String,
    pub(super) options: Options,
}

/// A user mapping.
#[derive(Debug)]
pub(super) struct UserMapping {
    pub(super) server: String,
    /// `None`: PUBLIC.
    pub(super) role: Option<String>,
    /// `None`: the catalog hides them.
    pub(super) options: Option<Options>,
}

/// Asks the coordinator, in one transaction. Definitions in `known` whose version is the same have not changed, and are not asked for again;
/// then `known` has those of all tables.
///
/// # Errors
/// The server answers with an error, or the connection is lost.
pub async fn ask_coordinator(
    conn: &mut ServerConn,
    system: Option<SystemId>,
    roles: &[String],
    known: &mut KnownDefinitions,
    limit: Duration,
) -> Result<CoordinatorAnswer, ServerError> {
    let mut answer = CoordinatorAnswer::default();
    answer.facts.database = database::begin(conn, system, limit).await?;
    if !is_known(&answer.facts.database) {
        return Ok(answer);
    }
    let questions = [
        sharded_tables_sql(),
        // One more than the map takes shows that there are more.
        partitions_sql(PARTITIONS_MAX + 1),
        foreign_servers_sql(),
        USER_MAPPINGS_SQL.to_owned(),
        role_settings_sql(roles),
    ];
    let answers = conn.query(&questions.join("; ")).await?;
    let [roots, partitions, servers, mappings, settings] = answers.as_slice() else {
        return Err(unreadable());
    };
    update_definitions(conn, known, roots, partitions).await?;
    answer.facts.roots = read_roots(roots, partitions, known)?;
    answer.servers = collect(servers, |row| {
        Ok(ForeignServer {
            name: row.required(0)?.to_owned(),
            options: options(row.json(1)?),
        })
    })?;
    answer.mappings = collect(mappings, |row| {
        Ok(UserMapping {
            server: row.required(0)?.to_owned(),
            role: row.text(1).map(str::to_owned),
            options: row.json::<Option<Vec<String>>>(2)?.map(options),
        })
    })?;
    let oids: Vec<u32> = answer.facts.roots.iter().map(|root| root.oid).collect();
    let privileges = format!("{}; COMMIT", role_privileges_sql(roles, &oids));
    let privileges = conn.query(&privileges).await?;
    let privileges = privileges.first().ok_or_else(unreadable)?;
    answer.facts.roles = read_roles(settings, privileges)?;
    Ok(answer)
}

fn collect<T>(
    rows: &ResultRows,
    read: impl Fn(Row<'_>) -> Result<T, ServerError>,
) -> Result<Vec<T>, ServerError> {
    rows.iter().map(|row| read(Row(row))).collect()
}

/// `name=value`, as the catalog has options.
fn options(texts: Vec<String>) -> Options {
    let pairs = texts.iter().map(|text| text.split_once('='));
    let pairs = pairs.map(Option::unwrap_or_default);
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The value of an option.
pub(super) fn option<'a>(options: &'a Options, name: &str) -> Option<&'a str> {
    let mut options = options.iter();
    let found = options.find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str())
}

/// Reads the definitions of which the version is another one, and forgets those of tables that are gone.
async fn update_definitions(
    conn: &mut ServerConn,
    known: &mut KnownDefinitions,
    roots: &ResultRows,
    partitions: &ResultRows,
) -> Result<(), ServerError> {
    let of_roots = roots.iter().map(|row| (Row(row), 0, 7));
    let of_partitions = partitions.iter().map(|row| (Row(row), 1, 8));
    let versions = of_roots.chain(of_partitions).map(|(row, oid, version)| {
        let version = row.required(version)?.to_owned();
        Ok((row.number(oid)?, version))
    });
    let versions: HashMap<u32, String> = versions.collect::<Result<_, ServerError>>()?;
    known.retain(|oid, known| versions.get(oid) == Some(&known.version));
    let others = versions.keys().filter(|oid| !known.contains_key(*oid));
    let others: Vec<u32> = others.copied().collect();
    if others.is_empty() {
        return Ok(());
    }
    let answers = conn.query(&definitions_sql(&others)).await?;
    for row in answers.first().ok_or_else(unreadable)? {
        let row = Row(row);
        let oid = row.number(0)?;
        let definition = KnownDefinition {
            version: versions.get(&oid).cloned().ok_or_else(unreadable)?,
            lines: row.required(1)?.to_owned(),
            columns: database::columns(&row, 2)?,
        };
        known.insert(oid, definition);
    }
    Ok(())
}

fn read_roots(
    roots: &ResultRows,
    partitions: &ResultRows,
    known: &KnownDefinitions,
) -> Result<Vec<RootFacts>, ServerError> {
    let mut by_root = BTreeMap::<u32, Vec<PartitionFacts>>::new();
    for row in partitions {
        let row = Row(row);
        let root: u32 = row.number(0)?;
        let of_root = known.get(&root).ok_or_else(unreadable)?;
        let partition = partition(&row, known, of_root)?;
        by_root.entry(root).or_default().push(partition);
    }
    collect(roots, |row| {
        let oid = row.number(0)?;
        let definition = known.get(&oid).ok_or_else(unreadable)?;
        let mut partitions = by_root.get(&oid).cloned().unwrap_or_default();
        let truncated = partitions.len() > PARTITIONS_MAX;
        partitions.truncate(PARTITIONS_MAX);
        Ok(RootFacts {
            oid,
            name: name(&row, 1)?,
            ambiguous: row.is_true(3),
            key: key(&row, 4, 5)?.ok_or_else(unreadable)?,
            definition: Definition::new(row.text(6).map(str::to_owned), lines(&definition.lines)?),
            columns: definition.columns.clone(),
            partitions,
            truncated,
        })
    })
}

fn lines(json: &str) -> Result<Vec<String>, ServerError> {
    serde_json::from_str(json).map_err(|_| unreadable())
}

/// A schema, and in the next column the name.
fn name(row: &Row<'_>, column: usize) -> Result<TableName, ServerError> {
    Ok(TableName {
        schema: row.required(column)?.to_owned(),
        name: row.required(column + 1)?.to_owned(),
    })
}

/// `None` if the table is not partitioned.
fn key(
    row: &Row<'_>,
    strategy: usize,
    parts: usize,
) -> Result<Option<PartitionKeyFacts>, ServerError> {
    let Some(strategy) = row.text(strategy).and_then(|text| text.chars().next()) else {
        return Ok(None);
    };
    let parts: Vec<(Option<String>, bool, bool)> = row.json(parts)?;
    let parts = parts.into_iter();
    let parts = parts.map(|(column, default_class, deterministic)| KeyPartFacts {
        column,
        default_class,
        deterministic,
    });
    Ok(Some(PartitionKeyFacts {
        strategy,
        parts: parts.collect(),
    }))
}

fn partition(
    row: &Row<'_>,
    known: &KnownDefinitions,
    root: &KnownDefinition,
) -> Result<PartitionFacts, ServerError> {
    let name = name(row, 3)?;
    let oid = row.number(1)?;
    let own = known.get(&oid).ok_or_else(unreadable)?;
    let differs = own.lines != root.lines;
    Ok(PartitionFacts {
        oid,
        parent: row.number(2)?,
        bound: row.required(5)?.to_owned(),
        detaching: row.is_true(6),
        unfit: row.text(7).map(|why| format!("on the coordinator, {why}")),
        lines: differs.then(|| lines(&own.lines)).transpose()?,
        key: key(row, 9, 10)?,
        foreign: foreign(row, &name)?,
        name,
    })
}

/// `None` if the partition is no foreign table.
fn foreign(row: &Row<'_>, own: &TableName) -> Result<Option<ForeignFacts>, ServerError> {
    let Some(server) = row.text(11) else {
        return Ok(None);
    };
    let of_table = options(row.json(13)?);
    let of_server = options(row.json(14)?);
    let said = |name: &str, own: &str| option(&of_table, name).unwrap_or(own).to_owned();
    let updatable = option(&of_table, "updatable").or(option(&of_server, "updatable"));
    let unfit = match (row.is_true(15), updatable) {
        (true, _) => Some("a column has another name on the shard (column_name)"),
        (false, Some(updatable)) if !is_on(updatable) => Some("it is not updatable"),
        (false, _) => None,
    };
    Ok(Some(ForeignFacts {
        server: server.to_owned(),
        is_postgres_fdw: row.is_true(12),
        table: TableName {
            schema: said("schema_name", &own.schema),
            name: said("table_name", &own.name),
        },
        unfit: unfit.map(str::to_owned),
    }))
}

/// Whether the value of a boolean option is the usual one: other ways to write it count as unusual.
fn is_on(value: &str) -> bool {
    value == "true" || value == "on"
}

fn read_roles(
    settings: &ResultRows,
    privileges: &ResultRows,
) -> Result<BTreeMap<String, RoleFacts>, ServerError> {
    let mut roles = BTreeMap::<String, RoleFacts>::new();
    for row in settings {
        let row = Row(row);
        let role = roles.entry(row.required(0)?.to_owned()).or_default();
        role.settings = row.text(1).unwrap_or_default().to_owned();
    }
    for row in privileges {
        let row = Row(row);
        // Roles that begin as another role are not among those with settings.
        let Some(role) = roles.get_mut(row.required(0)?) else {
            continue;
        };
        let granted = Privileges {
            select: granted(&row, 2)?,
            insert: granted(&row, 3)?,
            update: granted(&row, 4)?,
            delete: row.is_true(5),
        };
        role.privileges.insert(row.number(1)?, granted);
    }
    Ok(roles)
}

/// `true`, or a JSON array of the names of columns.
fn granted(row: &Row<'_>, column: usize) -> Result<Columns, ServerError> {
    if row.text(column) == Some("true") {
        return Ok(Columns::All);
    }
    let names: Vec<String> = row.json(column)?;
    Ok(match names.is_empty() {
        true => Columns::None,
        false => Columns::Only(names.into_iter().collect()),
    })
}
