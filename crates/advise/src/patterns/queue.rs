//! Consumers that take rows from a table.

use super::advice::{group, table_setting};
use super::claim::Claim;
use super::numbers::{counted, float};
use crate::evaluated::Evaluated;
use crate::finding::{Advice, Apply, Finding, Pattern};
use crate::observation::{Facts, TableChange, TableFacts};
use crate::statements::Kind;

pub(super) fn find(evaluated: &Evaluated<'_>) -> Option<Finding> {
    let claim = Claim::of(evaluated, Pattern::Queue)?;
    let change = claim.change();
    let mut evidence = Vec::new();
    let mut advice = Vec::new();
    let sessions = claim.sessions();
    let mut summary = format!("{sessions:.0} consumers take rows at the same time");
    if let Some(change) = &change {
        let table = change.now.qualified.clone();
        let per_second = |count: i64| float(count) / claim.seconds();
        let taken = per_second(change.deleted.max(change.updated));
        summary =
            format!("{sessions:.0} consumers take rows of the queue {table} at the same time");
        evidence.push(counted(format!(
            "{table}: {taken:.0} rows taken and {:.0} inserted per second; {} dead and {} live rows, which each take passes over",
            per_second(change.inserted),
            change.now.dead,
            change.now.live
        )));
    }
    let first = &claim.first.statement;
    let gain = "One statement takes the rows of all that wait, and passes over dead rows once; measured: 7 to 9 times as many takes with 256 consumers".to_owned();
    if !first.groups || matches!(first.kind, Kind::Pick(_)) {
        advice.push(as_one_statement(change.as_ref()));
    }
    advice.push(group(gain));
    if let (Some(change), Some(facts)) = (&change, claim.facts()) {
        advice.extend(table_setting(
            &change.now.qualified.clone(),
            facts,
            "autovacuum_vacuum_cost_delay",
            "0",
            (
                "Vacuum this table at full speed",
                format!(
                    "The {} dead rows are gone sooner; a take reads fewer blocks",
                    change.now.dead
                ),
                "Each vacuum of this table reads and writes faster than the others",
            ),
        ));
        advice.extend(table_setting(
            &change.now.qualified.clone(),
            facts,
            "autovacuum_vacuum_scale_factor",
            "0",
            (
                "Vacuum this table by the number of dead rows (autovacuum_vacuum_threshold), whatever its size",
                "Vacuum begins at every autovacuum_naptime, as long as rows are taken".to_owned(),
                "One of the autovacuum_max_workers is often busy with this table",
            ),
        ));
    }
    if let Some(change) = &change {
        advice.extend(vacuum_memory(change, &evaluated.observation.facts));
        advice.extend(partial_index(change));
    }
    if let (Some(change), Some(facts)) = (&change, claim.facts()) {
        advice.extend(parallel_vacuum(change, facts, &evaluated.observation.facts));
    }
    Some(claim.finding(summary, evidence, advice))
}

/// Bytes that vacuum keeps for each dead row before version 17.
const BYTES_PER_DEAD_ROW: i64 = 6;

/// Memory in which vacuum can keep all dead rows: with less, it reads every index of the table once more each time it is full.
fn vacuum_memory(change: &TableChange<'_>, facts: &Facts) -> Option<Advice> {
    let kilobytes = |name: &str| {
        let value = facts.settings.get(name)?.strip_suffix("kB")?;
        value.parse::<i64>().ok().filter(|value| *value > 0)
    };
    let own = kilobytes("autovacuum_work_mem");
    let present = own.or_else(|| kilobytes("maintenance_work_mem"))?;
    let needed = change.now.dead * BYTES_PER_DEAD_ROW / 1024;
    if needed <= present {
        return None;
    }
    let wanted = (needed + 1023) / 1024;
    Some(Advice {
        what: format!("Give vacuum memory for the {} dead rows: it has {present} kB", change.now.dead),
        sql: Some(format!("ALTER SYSTEM SET autovacuum_work_mem = '{wanted}MB'")),
        configuration: None,
        gain: format!(
            "Vacuum reads each index of the table once in place of {} times",
            (needed + present - 1) / present
        ),
        risk: "Each of the autovacuum_max_workers may use as much; from version 17 on, vacuum needs far less".to_owned(),
        undo: "ALTER SYSTEM RESET autovacuum_work_mem".to_owned(),
        apply: Apply::No,
    })
}

/// Rows that were taken and stay in the table must be this many times more than those that are taken per second.
const TAKEN_ROWS_MIN: i64 = 10_000;

/// Takes that update a status leave the rows in the table, and in every index.
fn partial_index(change: &TableChange<'_>) -> Option<Advice> {
    let keeps_rows = change.updated > change.deleted && change.now.live >= TAKEN_ROWS_MIN;
    keeps_rows.then(|| Advice {
        what: format!(
            "Takes leave their rows in {}: index only those that are still to be taken, with the condition of the statement",
            change.now.qualified
        ),
        sql: Some(format!(
            "CREATE INDEX CONCURRENTLY ON {} (…) WHERE …",
            change.now.qualified
        )),
        configuration: None,
        gain: format!(
            "The index holds the rows that wait in place of {}; a row that was taken leaves it",
            change.now.live
        ),
        risk: "PostgreSQL uses it only if the statement has the same condition, as a constant. Updates of its columns are not HOT"
            .to_owned(),
        undo: "DROP INDEX CONCURRENTLY".to_owned(),
        apply: Apply::No,
    })
}

/// Indexes of fewer pages are vacuumed by one process (min_parallel_index_scan_size).
const PAGES_OF_PARALLEL_MIN: f64 = 64.0;

/// Autovacuum reads the indexes of a table one after the other.
fn parallel_vacuum(change: &TableChange<'_>, table: &TableFacts, facts: &Facts) -> Option<Advice> {
    let large = table.indexes.iter();
    let large = large
        .filter(|index| index.pages >= PAGES_OF_PARALLEL_MIN)
        .count();
    let workers: usize = facts
        .settings
        .get("max_parallel_maintenance_workers")?
        .parse()
        .ok()?;
    let workers = workers.min(large);
    let behind = change.now.dead > change.now.live;
    (behind && large >= 2 && workers > 0).then(|| Advice {
        what: format!(
            "Vacuum the {large} indexes of {} in parallel, by hand: autovacuum does not",
            change.now.qualified
        ),
        sql: Some(format!(
            "VACUUM (PARALLEL {workers}) {}",
            change.now.qualified
        )),
        configuration: None,
        gain: format!(
            "The indexes are read by up to {} processes at once",
            workers + 1
        ),
        risk: "Reads and writes at full speed; blocks DDL on the table, no reads and writes"
            .to_owned(),
        undo: "Cancel it: what it has removed so far stays removed".to_owned(),
        apply: Apply::No,
    })
}

fn as_one_statement(change: Option<&TableChange<'_>>) -> Advice {
    let table = change.map_or_else(|| "queue".to_owned(), |change| change.now.qualified.clone());
    Advice {
        what: "Take rows by one statement in place of a transaction of several".to_owned(),
        sql: Some(format!(
            "DELETE FROM {table} WHERE ctid = (SELECT ctid FROM {table} ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING *"
        )),
        configuration: None,
        gain: "One round trip and no lock between two of them; only such a statement can be grouped".to_owned(),
        risk: "The row is gone when the statement is committed: an application that must be able to give it back updates a status instead (UPDATE … SET status = … WHERE id IN (SELECT …))".to_owned(),
        undo: "Use the present statements".to_owned(),
        apply: Apply::No,
    }
}
