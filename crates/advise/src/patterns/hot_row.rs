//! Sessions that wait for the lock of a row that others change.

use super::advice::{fillfactor, group};
use super::claim::Claim;
use super::numbers::{counted, float};
use crate::evaluated::Evaluated;
use crate::finding::{Advice, Apply, Evidence, Finding, Pattern};
use crate::observation::TableFacts;
use crate::queries::facts;
use crate::statements::Kind;

/// Maximum number of sessions for whose group a gain is promised: the largest that was measured (docs/benchmarks.md).
const GAIN_MAX: f64 = 64.0;

pub(super) fn find(evaluated: &Evaluated<'_>) -> Option<Finding> {
    let claim = Claim::of(evaluated, Pattern::HotRow)?;
    let (change, table_facts) = (claim.change(), claim.facts());
    let waiting = claim.row_waits();
    let mut evidence = Vec::new();
    let mut summary = format!("{waiting:.0} sessions wait for the lock of a row");
    let mut advice = Vec::new();
    let mut service = String::new();
    if let Some(change) = &change {
        let rate = float(change.updated + change.deleted) / claim.seconds();
        let table = change.now.qualified.clone();
        summary = format!("{waiting:.0} sessions wait for the lock of a row of {table}");
        evidence.push(counted(format!(
            "{table}: {rate:.0} updates per second, {:.0} % of them HOT; {} rows",
            100.0 * float(change.hot_updated) / float(change.updated.max(1)),
            change.now.live
        )));
        if rate >= 1.0 {
            service = format!(
                "one update takes {:.1} ms with its commit, during which all others wait; ",
                1000.0 / rate
            );
        }
    }
    let rows = &evaluated.observation.facts.rows;
    if let (Some(change), Some((_, block, tuple, _))) = (
        &change,
        rows.iter().find(|row| Some(row.0) == claim.first.table),
    ) {
        let table = change.now.qualified.clone();
        evidence.push(Evidence {
            fact: format!("the row was at ctid ({block},{tuple}) of {table} at the end"),
            query: facts(&[change.now.id]),
        });
    }
    advice.push(group(format!(
        "{service}a group of the {waiting:.0} that wait takes about as long, so up to {:.0} times as many updates per second",
        (waiting + 1.0).min(GAIN_MAX)
    )));
    if let Kind::Write(_, columns) = &claim.first.statement.kind
        && let Some(facts) = table_facts
    {
        advice.extend(index_on(columns, facts));
    }
    if let (Some(change), Some(facts)) = (&change, table_facts) {
        advice.extend(fillfactor(change, facts));
    }
    advice.push(Advice {
        what: "If grouping is not possible, split the row into several, of which each update chooses one at random, and reads add them up".to_owned(),
        sql: None,
        configuration: None,
        gain: "About as many times as there are rows".to_owned(),
        risk: "Changes the application; a limit such as qty >= 0 holds for each row alone".to_owned(),
        undo: "Add the rows up again".to_owned(),
        apply: Apply::No,
    });
    Some(claim.finding(summary, evidence, advice))
}

/// An index on a column that the update assigns: no such update can be HOT.
fn index_on(columns: &[String], facts: &TableFacts) -> Option<Advice> {
    let index = facts.indexes.iter().find(|index| {
        let mut named = index.columns.iter().flatten();
        !index.unique && named.any(|column| columns.contains(&unquoted(column)))
    })?;
    Some(Advice {
        what: format!(
            "Drop the index {}, which has a column that the update changes, if no query needs it ({} scans so far)",
            index.name, index.scans
        ),
        sql: Some(format!("DROP INDEX CONCURRENTLY {}", index.name)),
        configuration: None,
        gain: "Updates become HOT: no new entry in any index".to_owned(),
        risk: "Queries that use the index become slow: look at its scans over a week first"
            .to_owned(),
        undo: format!(
            "Create it again: SELECT pg_get_indexdef('{}'::regclass) before you drop it",
            index.name.replace('\'', "''")
        ),
        apply: Apply::No,
    })
}

/// The name that the server has quoted.
fn unquoted(name: &str) -> String {
    let inner = name
        .strip_prefix('"')
        .and_then(|name| name.strip_suffix('"'));
    inner.map_or_else(|| name.to_owned(), |inner| inner.replace("\"\"", "\""))
}
