//! Consumers that take rows from a table.

use super::advice::{group, table_setting};
use super::claim::Claim;
use super::numbers::{counted, float};
use crate::evaluated::Evaluated;
use crate::finding::{Advice, Apply, Finding, Pattern};
use crate::observation::{Facts, TableChange};
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
