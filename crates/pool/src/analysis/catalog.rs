//! Queries of the catalog and their results.

use crate::server::{ResultRows, ServerConn, ServerError};
use paceline_batch::line::ClientTimeouts;
use paceline_sql::TypeName;
use paceline_sql::facts::{Added, CatalogVersion, Collation, Extent, Names};
use paceline_sql::{Column, Name, TableFacts, facts};
use paceline_wire::backend::{Field, error_field};
use paceline_wire::frame::HEADER_LEN;
use std::time::Duration;

/// The facts about a table; `None` if there is no such table.
pub(super) async fn ask_table(
    conn: &mut ServerConn,
    name: &Name,
) -> Result<Option<TableFacts>, ServerError> {
    let extent = conn.query(&facts::extent_sql(name)).await?;
    let Some(extent) = read_extent(&extent) else {
        return Ok(None);
    };
    // Read the catalog version first: if DDL runs between it and the rest, the plan is invalid from the beginning.
    let version = facts::catalog_version_sql(name, &extent);
    let mut questions = version.questions();
    let versions = questions.len();
    questions.extend([
        facts::PINNED_FORMS_SQL.to_owned(),
        facts::table_sql(name),
        facts::columns_sql(name),
        facts::keys_sql(name),
        facts::checks_sql(name),
    ]);
    let answers = conn.query(&questions.join("; ")).await?;
    let Some((versions, answers)) = answers.split_at_checked(versions) else {
        return Ok(None);
    };
    let version = version.with(versions.iter().filter_map(first));
    Ok(version.and_then(|version| read_table(answers, extent, version)))
}

/// The catalog version of the names in a statement, if PostgreSQL answers yes to each of these questions.
pub(super) async fn ask_names(
    conn: &mut ServerConn,
    names: &Names,
    questions: &[String],
) -> Result<Option<CatalogVersion>, ServerError> {
    let added = conn.query(&names.added_sql()).await?;
    let yes = |column: usize| {
        let value = added.first()?.first()?.get(column)?;
        Some(value.as_deref() == Some("t"))
    };
    let (Some(operators), Some(casts)) = (yes(0), yes(1)) else {
        return Ok(None);
    };
    let version = names.catalog_version_sql(Added { operators, casts });
    // Read the catalog version first, as for tables. It includes settings of the session.
    let mut all = version.questions();
    let versions = all.len();
    all.push(facts::PINNED_FORMS_SQL.to_owned());
    all.push(names.only_extensions_sql());
    all.extend_from_slice(questions);
    let answers = conn.query(&all.join("; ")).await?;
    let Some((versions, [_, answers @ ..])) = answers.split_at_checked(versions) else {
        return Ok(None);
    };
    let agreed = answers.iter().all(|rows| first(rows) == Some("t"));
    let version = version.with(versions.iter().filter_map(first));
    Ok(version.filter(|_| agreed))
}

/// The session settings on which groups depend, as `facts::session` reads them.
pub(super) async fn ask_session(conn: &mut ServerConn) -> Result<Vec<Option<String>>, ServerError> {
    let mut answers = conn.query(&facts::session::session_sql()).await?;
    let row = answers.first_mut().and_then(|rows| rows.first_mut());
    Ok(row.map(std::mem::take).unwrap_or_default())
}

/// The type names of a template's parameters and RETURNING columns.
pub(super) async fn ask_types(
    conn: &mut ServerConn,
    parameters: &[u32],
    fields: &[Field],
) -> Result<Option<(Vec<TypeName>, Vec<TypeName>)>, ServerError> {
    let names = type_names(conn, parameters.iter().map(|oid| (*oid, -1)).collect()).await?;
    let returned = fields
        .iter()
        .map(|f| (f.type_oid, f.type_modifier))
        .collect();
    let returned = type_names(conn, returned).await?;
    let all = names.len() == parameters.len() && returned.len() == fields.len();
    Ok(all.then_some((names, returned)))
}

async fn type_names(
    conn: &mut ServerConn,
    oids: Vec<(u32, i32)>,
) -> Result<Vec<TypeName>, ServerError> {
    if oids.is_empty() {
        return Ok(Vec::new());
    }
    let answers = conn.query(&facts::types_sql(&oids)).await?;
    let rows = answers.into_iter().next().unwrap_or_default();
    let name = |row: Vec<Option<String>>| {
        let [sql, array, builtin, collatable] = <[Option<String>; 4]>::try_from(row).ok()?;
        Some(TypeName {
            sql: sql?,
            array: array? == "t",
            builtin: builtin? == "t",
            collatable: collatable? == "t",
        })
    };
    Ok(rows.into_iter().filter_map(name).collect())
}

/// The first value of the first row.
pub(super) fn first(rows: &ResultRows) -> Option<&str> {
    rows.first()?.first()?.as_deref()
}

/// The session's time-outs; zero means none.
pub(super) fn read_timeouts(rows: Option<&ResultRows>) -> ClientTimeouts {
    let row = rows.and_then(|rows| rows.first());
    let limit = |column: usize| {
        let millis = row?.get(column)?.as_ref()?.parse().ok()?;
        Some(Duration::from_millis(millis)).filter(|limit| !limit.is_zero())
    };
    ClientTimeouts {
        lock: limit(0),
        statement: limit(1),
        transaction: limit(2),
    }
}

fn read_extent(answers: &[ResultRows]) -> Option<Extent> {
    let [tree, types, triggers, children, partitioned] =
        <[Option<String>; 5]>::try_from(answers.first()?.first()?.clone()).ok()?;
    Some(Extent {
        tree: read_oids(&tree?).filter(|tree| !tree.is_empty())?,
        types: read_oids(&types?)?,
        triggers: triggers? == "t",
        children: children? == "t",
        partitioned: partitioned? == "t",
    })
}

/// Reads OIDs separated by commas.
pub(super) fn read_oids(list: &str) -> Option<Vec<u32>> {
    let all = list.split(',').filter(|oid| !oid.is_empty());
    all.map(|oid| oid.parse().ok()).collect()
}

fn read_table(
    answers: &[ResultRows],
    extent: Extent,
    catalog_version: CatalogVersion,
) -> Option<TableFacts> {
    let [_, table, columns, keys, checks] = answers else {
        return None;
    };
    let [schema, name, refused, is_partition, unique_indexes] =
        <[Option<String>; 5]>::try_from(table.first()?.clone()).ok()?;
    Some(TableFacts {
        schema: schema?,
        name: name?,
        extent,
        refused,
        is_partition: is_partition? == "t",
        unique_indexes: unique_indexes?.parse().ok()?,
        catalog_version,
        columns: columns
            .iter()
            .cloned()
            .map(read_column)
            .collect::<Option<_>>()?,
        keys: read_keys(keys)?,
        checks: checks
            .iter()
            .map(|row| row.first()?.clone())
            .collect::<Option<_>>()?,
    })
}

fn read_column(row: Vec<Option<String>>) -> Option<Column> {
    let row: Option<Vec<String>> = row.into_iter().collect();
    let [
        name,
        type_name,
        bare_type_name,
        oid,
        modifier,
        base,
        array,
        not_null,
        deterministic,
        builtin,
        fixed,
        never_null,
        time_by_default,
        collation,
        user_defined_collation,
        converted,
    ] = <[String; 16]>::try_from(row?).ok()?;
    Some(Column {
        name,
        type_name,
        bare_type_name,
        type_oid: oid.parse().ok()?,
        type_modifier: modifier.parse().ok()?,
        base_type_oid: base.parse().ok()?,
        array: array == "t",
        not_null: not_null == "t",
        deterministic: deterministic == "t",
        builtin: builtin == "t",
        fixed: fixed == "t",
        never_null: never_null == "t",
        time_by_default: time_by_default == "t",
        collation: match collation.as_str() {
            "" if user_defined_collation == "t" => Collation::UserDefined,
            "" => Collation::None,
            _ => Collation::BuiltIn(collation),
        },
        converted: converted == "t",
    })
}

/// The columns of each index, in order. Rows are sorted by index.
fn read_keys(rows: &ResultRows) -> Option<Vec<Vec<String>>> {
    let mut keys: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows {
        let (index, column) = (row.first()?.clone()?, row.get(1)?.clone()?);
        match keys.last_mut() {
            Some((last, columns)) if *last == index => columns.push(column),
            _ => keys.push((index, vec![column])),
        }
    }
    Some(keys.into_iter().map(|(_, columns)| columns).collect())
}

/// Whether another session holds a lock on the table, or the query was cancelled.
pub(super) fn is_busy(error: &[u8]) -> bool {
    let body = error.get(HEADER_LEN..).unwrap_or_default();
    matches!(error_field(body, b'C'), Some("55P03" | "57014"))
}
