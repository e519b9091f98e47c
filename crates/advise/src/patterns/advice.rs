//! Advice that several patterns give.

use super::numbers::float;
use crate::finding::{Advice, Apply};
use crate::observation::{TableChange, TableFacts};

/// The advice to group statements in the front end.
pub(super) fn group(gain: String) -> Advice {
    Advice {
        what: "Put Paceline in front of the database: it executes the waiting statements together".to_owned(),
        sql: None,
        configuration: Some("[paceline]\nhotspot_for_autocommit = true\n".to_owned()),
        gain,
        risk: "Statements inside BEGIN … COMMIT are not grouped: send each as one statement, or hint the last one with COMMIT_ON_SUCCESS. CDC sees one row version for several updates"
            .to_owned(),
        undo: "SET hotspot_for_autocommit = off in the console, or connect to PostgreSQL directly".to_owned(),
        apply: Apply::No,
    }
}

/// A storage parameter of a table; `None` if it has it already.
pub(super) fn table_setting(
    table: &str,
    facts: &TableFacts,
    name: &str,
    value: &str,
    (what, gain, risk): (&str, String, &str),
) -> Option<Advice> {
    let prefix = format!("{name}=");
    let present = facts
        .options
        .iter()
        .find_map(|option| option.strip_prefix(&prefix));
    if present == Some(value) {
        return None;
    }
    Some(Advice {
        what: what.to_owned(),
        sql: Some(format!("ALTER TABLE {table} SET ({name} = {value})")),
        configuration: None,
        gain,
        risk: risk.to_owned(),
        undo: match present {
            Some(before) => format!("ALTER TABLE {table} SET ({name} = {before})"),
            None => format!("ALTER TABLE {table} RESET ({name})"),
        },
        apply: Apply::Safe,
    })
}

/// Indexes that no query has used since the statistics were reset, and that each write maintains.
pub(super) fn unused_indexes(facts: &TableFacts) -> Vec<Advice> {
    let unused = facts.indexes.iter();
    let unused = unused.filter(|index| !index.unique && index.scans == 0);
    let advice = unused.map(|index| Advice {
        what: format!(
            "Drop the index {}, which no query has used since the statistics were reset",
            index.name
        ),
        sql: Some(format!("DROP INDEX CONCURRENTLY {}", index.name)),
        configuration: None,
        gain: "Each write has one index less to maintain".to_owned(),
        risk: "Queries that run once a month, and those of replicas, may need it: look there first"
            .to_owned(),
        undo: format!(
            "Create it again: SELECT pg_get_indexdef('{}'::regclass) before you drop it",
            index.name.replace('\'', "''")
        ),
        apply: Apply::No,
    });
    advice.collect()
}

/// Leaves room in each block, so that a new version of a row fits beside the old one.
pub(super) fn fillfactor(change: &TableChange<'_>, facts: &TableFacts) -> Option<Advice> {
    let hot = float(change.hot_updated) / float(change.updated.max(1));
    if change.updated == 0 || hot >= 0.9 {
        return None;
    }
    table_setting(
        &change.now.qualified.clone(),
        facts,
        "fillfactor",
        "70",
        (
            "Leave room in each block for new versions of its rows",
            format!(
                "Updates without a new index entry (HOT) were {:.0} %; with room, all can be that assign no indexed column",
                hot * 100.0
            ),
            "New blocks hold 30 % fewer rows; existing blocks change with VACUUM FULL or CLUSTER only",
        ),
    )
}
