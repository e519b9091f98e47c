//! Rows that are inserted if they are not there, else updated.

use super::advice::{fillfactor, group, unused_indexes};
use super::claim::Claim;
use super::numbers::{counted, float};
use crate::attribution::Share;
use crate::evaluated::Evaluated;
use crate::finding::{Advice, Apply, Finding, Pattern};
use crate::observation::TableChange;
use crate::observation::TableFacts;
use crate::statements::Kind;

pub(super) fn find(evaluated: &Evaluated<'_>) -> Option<Finding> {
    let claim = Claim::of(evaluated, Pattern::UpsertStore)?;
    let change = claim.change();
    let shares = evaluated.attribution.shares(Pattern::UpsertStore);
    let reads = |share: &&Share| matches!(share.statement.kind, Kind::Read { .. });
    // The table that is read first is the one to upsert.
    let read = shares.iter().find(reads).and_then(|share| share.table);
    let reads_first = shares.iter().any(|share| reads(&share));
    let sessions = claim.sessions();
    let mut evidence = Vec::new();
    let mut advice = Vec::new();
    let of = |change: &TableChange<'_>| format!(" of {}", change.now.qualified.clone());
    let table = change.as_ref().map_or_else(String::new, of);
    let summary = match reads_first {
        true => format!(
            "{sessions:.0} sessions read rows{table} and then write them in the same transaction"
        ),
        false => format!("{sessions:.0} sessions insert or update rows{table}"),
    };
    if let Some(change) = &change {
        evidence.push(counted(format!(
            "{}: {:.0} rows inserted and {:.0} updated per second, {:.0} % of the updates HOT",
            change.now.qualified.clone(),
            float(change.inserted) / claim.seconds(),
            float(change.updated) / claim.seconds(),
            100.0 * float(change.hot_updated) / float(change.updated.max(1))
        )));
    }
    if reads_first {
        let changes = evaluated.observation.changes();
        let change = changes.iter().find(|change| Some(change.now.id) == read);
        let facts = read.and_then(|id| evaluated.observation.facts_of(id));
        advice.push(as_upsert(change, facts));
    }
    advice.push(group(
        "The upserts that wait run as one statement with one commit; measured: 2 to 3 times as many with 160 clients, 68 times on one row".to_owned(),
    ));
    if let (Some(change), Some(facts)) = (&change, claim.facts()) {
        advice.extend(fillfactor(change, facts));
        advice.extend(unused_indexes(facts));
    }
    Some(claim.finding(summary, evidence, advice))
}

/// The upsert, with the columns of the unique index.
fn as_upsert(change: Option<&TableChange<'_>>, facts: Option<&TableFacts>) -> Advice {
    let table = change.map_or_else(
        || "the_table".to_owned(),
        |change| change.now.qualified.clone(),
    );
    let unique = facts.and_then(|facts| facts.indexes.iter().find(|index| index.unique));
    let columns = unique.iter();
    let columns = columns.flat_map(|index| index.columns.iter().flatten());
    let columns: Vec<&str> = columns.map(String::as_str).collect();
    let key = match columns.as_slice() {
        [] => "key".to_owned(),
        columns => columns.join(", "),
    };
    Advice {
        what: "Write by one upsert in place of a read and a write".to_owned(),
        sql: Some(format!(
            "INSERT INTO {table} AS t ({key}, …) VALUES (…) ON CONFLICT ({key}) DO UPDATE SET … = EXCLUDED.… WHERE t.… < EXCLUDED.… RETURNING *"
        )),
        configuration: None,
        gain: "One round trip and one lock instead of a transaction; no unique violation between read and write; such statements can be grouped".to_owned(),
        risk: "A sequence in a default is used up by each attempt, also if the row exists".to_owned(),
        undo: "Use the present statements".to_owned(),
        apply: Apply::No,
    }
}
