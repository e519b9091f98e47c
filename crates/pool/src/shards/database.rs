//! The questions to coordinators and shards alike.

use super::rows::{Row, unreadable};
use crate::server::{ResultRows, ServerConn, ServerError};
use paceline_cluster::{SystemId, UserDefinedNames};
use paceline_shards::{ColumnFacts, DatabaseFacts, DefaultFacts, Definition, HASH_PROBE};
use paceline_sql::facts::sharding::{SEARCH_PATH_SQL, VERSION_SQL, base_settings_sql, pinned_sql};
use paceline_sql::facts::{DATABASE_SQL, user_defined_sql};
use std::collections::HashSet;
use std::time::Duration;

/// The major version that the server has reported.
fn major_version(conn: &ServerConn) -> Option<u32> {
    let reported = conn.side.reported.get("server_version")?;
    let digits = reported.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Oldest major version whose catalog has what the questions ask for.
const VERSION_MIN: u32 = 15;

/// Begins a transaction that sees one state of the catalog, and asks for the facts about the database. Settings are pinned behind that.
/// `None`: the version is too old to be asked further.
///
/// # Errors
/// The server answers with an error, or the connection is lost.
pub(super) async fn begin(
    conn: &mut ServerConn,
    system: Option<SystemId>,
    limit: Duration,
) -> Result<DatabaseFacts, ServerError> {
    let version = major_version(conn).ok_or_else(unreadable)?;
    let mut facts = DatabaseFacts {
        version,
        system,
        ..DatabaseFacts::default()
    };
    if version < VERSION_MIN {
        return Ok(facts);
    }
    let questions = [
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY".to_owned(),
        SEARCH_PATH_SQL.to_owned(),
        base_settings_sql(),
        pinned_sql(limit),
        VERSION_SQL.to_owned(),
        DATABASE_SQL.to_owned(),
        HASH_PROBE.to_owned(),
        user_defined_sql(),
    ];
    let answers = conn.query(&questions.join("; ")).await?;
    let [_, _, settings, .., server, database, hashes, names] = answers.as_slice() else {
        return Err(unreadable());
    };
    let settings = settings.iter().map(|row| {
        let row = Row(row);
        let value = row.text(1).map(str::to_owned);
        Ok((row.required(0)?.to_owned(), value))
    });
    facts.settings = settings.collect::<Result<_, ServerError>>()?;
    let server = only(server)?;
    facts.in_recovery = server.is_true(1);
    let database = only(database)?;
    database.required(0)?.clone_into(&mut facts.encoding);
    database.required(1)?.clone_into(&mut facts.collation);
    facts.converts = database.is_true(2);
    only(hashes)?.required(0)?.clone_into(&mut facts.hashes);
    facts.names = read_names(names);
    Ok(facts)
}

/// Whether the server may be asked more than [`begin`] asks.
pub(super) fn is_known(facts: &DatabaseFacts) -> bool {
    facts.version >= VERSION_MIN
}

/// The only row of an answer.
fn only(rows: &ResultRows) -> Result<Row<'_>, ServerError> {
    match rows.as_slice() {
        [row] => Ok(Row(row)),
        _ => Err(unreadable()),
    }
}

fn read_names(rows: &ResultRows) -> UserDefinedNames {
    let of_kind = |kind: &str| -> HashSet<String> {
        let rows = rows.iter().map(|row| Row(row));
        let rows = rows.filter(|row| row.text(0) == Some(kind));
        rows.filter_map(|row| row.text(1).map(str::to_owned))
            .collect()
    };
    UserDefinedNames {
        functions: of_kind("f"),
        operators: of_kind("o"),
        types: of_kind("t"),
    }
}

/// A definition: why statements depend on more than their row, and the lines.
pub(super) fn definition(
    row: &Row<'_>,
    unfit: usize,
    lines: usize,
) -> Result<Definition, ServerError> {
    let unfit = row.text(unfit).map(str::to_owned);
    Ok(Definition::new(unfit, row.json(lines)?))
}

/// Columns: name, number, OID of the type, type modifier, kind of default, expression, whether it may differ.
pub(super) fn columns(row: &Row<'_>, column: usize) -> Result<Vec<ColumnFacts>, ServerError> {
    type Column = (String, i16, u32, i32, String, Option<String>, bool);
    let columns: Vec<Column> = row.json(column)?;
    let columns = columns.into_iter();
    let columns = columns.map(
        |(name, number, type_oid, type_modifier, kind, text, differs)| {
            let default = match (kind.as_str(), text) {
                ("null", _) => DefaultFacts::Null,
                ("by default", _) => DefaultFacts::IdentityByDefault,
                ("always", _) => DefaultFacts::IdentityAlways,
                ("expression", Some(text)) => DefaultFacts::Expression {
                    text,
                    portable: !differs,
                },
                _ => return Err(unreadable()),
            };
            Ok(ColumnFacts {
                name,
                number,
                type_oid,
                type_modifier,
                default,
            })
        },
    );
    columns.collect()
}
