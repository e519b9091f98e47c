//! Reads by a key that no index has: each reads the whole table.

use super::numbers::{counted, float, of_sessions};
use crate::attribution::Share;
use crate::evaluated::Evaluated;
use crate::finding::{Advice, Apply, Finding, Pattern, Severity};
use crate::observation::{TableChange, TableFacts};
use crate::statements::Kind;

/// A smaller table is read as fast as an index.
const ROWS_MIN: f64 = 5_000.0;

/// Part of the rows that an execution may return: an index does not help reads of more.
const PART_MAX: f64 = 0.01;

/// The finding; `None` if the reads do not scan the table, need most of its rows, or an index exists. The rows that a read needs are known
/// by `pg_stat_statements` only.
pub(super) fn find(
    evaluated: &Evaluated<'_>,
    change: &TableChange<'_>,
    facts: &TableFacts,
    (first, samples): (&Share, usize),
) -> Option<Finding> {
    let statement = &first.statement;
    let executed = evaluated.executed.get(&statement.text)?;
    let rows = float(change.whole_rows) / float(change.whole_scans.max(1));
    let scans = float(change.whole_scans) >= executed.calls() / 2.0;
    let few = executed.rows_per_call() <= rows * PART_MAX;
    let is_of_one_table = matches!(&statement.kind, Kind::Read { tables, .. } if tables.len() == 1);
    // A column with few values needs no index, and a table that was never analyzed has no numbers.
    let distinct = |column: &&String| {
        let values = facts.distinct_values.get(*column).copied().unwrap_or(0.0);
        let values = if values < 0.0 { -values * rows } else { values };
        values >= 1.0 / PART_MAX
    };
    let column = statement.compared.iter().find(distinct)?;
    let has_index = facts.indexes.iter().any(|index| {
        let first = index.columns.first().and_then(Option::as_ref);
        first.is_some_and(|first| statement.compared.contains(first))
    });
    if !is_of_one_table
        || !scans
        || !few
        || rows < ROWS_MIN
        || statement.calls_functions
        || has_index
    {
        return None;
    }
    let table = &change.now.qualified;
    let share = evaluated.attribution.part(samples);
    Some(Finding {
        pattern: Pattern::ScatteredRead,
        severity: Severity::of(share),
        share,
        summary: format!(
            "each read of {:.0} rows of {table} by {column} reads all {rows:.0} rows",
            executed.rows_per_call()
        ),
        table: Some(table.clone()),
        statement: Some(statement.text.clone()),
        evidence: vec![
            of_sessions(evaluated, samples),
            executed.evidence(evaluated.observation.seconds()),
            counted(format!(
                "{table}: {:.0} scans of all {rows:.0} rows per second; {:.0} blocks",
                float(change.whole_scans) / evaluated.observation.seconds(),
                facts.pages
            )),
        ],
        advice: vec![index_on(change, column)],
    })
}

fn index_on(change: &TableChange<'_>, column: &str) -> Advice {
    let table = &change.now.qualified;
    let name = format!("{}_{column}_advised", change.now.name);
    let (name, schema) = (
        paceline_sql::quote_ident(&name),
        paceline_sql::quote_ident(&change.now.schema),
    );
    Advice {
        what: format!("Create an index on {column}"),
        sql: Some(format!("CREATE INDEX CONCURRENTLY {name} ON {table} ({column})")),
        configuration: None,
        gain: "A read visits a few blocks in place of all".to_owned(),
        risk: "Reads the table twice, and waits for older transactions, without blocking writes; then every write maintains the index. If it fails, it leaves an invalid index: drop it"
            .to_owned(),
        undo: format!("DROP INDEX CONCURRENTLY {schema}.{name}"),
        apply: Apply::Safe,
    }
}
