//! Something that keeps vacuum from removing dead rows.

use super::numbers::{counted, float};
use crate::evaluated::Evaluated;
use crate::finding::{Advice, Apply, Evidence, Finding, Pattern, Severity};
use crate::observation::{Holder, TableChange};
use crate::queries::facts;

/// Dead rows of a table from which on they slow its readers down.
const DEAD_MIN: i64 = 10_000;

/// Dead rows per live row from which on they do.
const DEAD_PART_MIN: f64 = 0.2;

/// Transactions since the holder's snapshot from which on one without a known time counts.
const TRANSACTIONS_MIN: i64 = 100_000;

pub(super) fn find(evaluated: &Evaluated<'_>) -> Option<Finding> {
    let observation = evaluated.observation;
    let is_old = |holder: &&Holder| match holder.seconds {
        Some(seconds) => seconds >= observation.pinned_after,
        None => holder.transactions >= TRANSACTIONS_MIN,
    };
    let holders = observation.facts.holders.iter().filter(is_old);
    let holder = holders.max_by_key(|holder| holder.transactions)?;
    let is_bloated = |change: &&TableChange<'_>| {
        let changed = change.updated + change.deleted > 0;
        let part = float(change.now.dead) / float(change.now.live.max(1));
        changed && change.now.dead >= DEAD_MIN && part >= DEAD_PART_MIN
    };
    let changes = observation.changes();
    let worst = changes.iter().filter(is_bloated);
    let worst = worst.max_by_key(|change| change.now.dead)?;
    let (dead, live) = (float(worst.now.dead), float(worst.now.live));
    let share = dead / (dead + live).max(1.0);
    let table = worst.now.qualified.clone();
    let since = holder.seconds.map_or_else(
        || format!("{} transactions", holder.transactions),
        |seconds| format!("{seconds:.0} s"),
    );
    Some(Finding {
        pattern: Pattern::PinnedHorizon,
        severity: Severity::of(share),
        share,
        summary: format!(
            "the {} {} has held a snapshot for {since}: vacuum cannot remove what died since, {} rows of {table} among it",
            holder.kind, holder.name, worst.now.dead
        ),
        table: Some(table.clone()),
        statement: None,
        evidence: vec![
            Evidence {
                fact: format!(
                    "{} {}: {}{}",
                    holder.kind,
                    holder.name,
                    holder.detail,
                    statement(holder)
                ),
                query: facts(&[worst.now.id]),
            },
            counted(format!(
                "{table}: {} dead and {} live rows; {:.0} rows die per second",
                worst.now.dead,
                worst.now.live,
                float(worst.updated + worst.deleted) / observation.seconds()
            )),
        ],
        advice: vec![end(holder)],
    })
}

/// The statement of a session without its values.
fn statement(holder: &Holder) -> String {
    let masked = holder.statement.as_deref().and_then(paceline_sql::masked);
    masked.map_or_else(String::new, |text| format!(", its statement: {text}"))
}

fn end(holder: &Holder) -> Advice {
    let quoted = paceline_sql::quote_literal;
    let (what, sql, risk) = match holder.kind.as_str() {
        "session" => (
            "End the session's transaction; afterwards limit such transactions with idle_in_transaction_session_timeout, or transaction_timeout from version 17 on",
            Some(format!("SELECT pg_terminate_backend({})", holder.name)),
            "Its transaction is rolled back: look at what it does first",
        ),
        "prepared transaction" => (
            "Commit or roll back the prepared transaction, as its transaction manager says",
            Some(format!("ROLLBACK PREPARED {}", quoted(&holder.name))),
            "A transaction that is committed elsewhere must be committed here, too",
        ),
        "replication slot" => (
            "Let the consumer of the slot continue, or drop the slot",
            Some(format!(
                "SELECT pg_drop_replication_slot({})",
                quoted(&holder.name)
            )),
            "A dropped slot's consumer must be initialized again",
        ),
        _ => (
            "End the long query on the standby, or set hot_standby_feedback = off there",
            None,
            "Without feedback, the standby cancels queries that conflict with replay",
        ),
    };
    Advice {
        what: what.to_owned(),
        sql,
        configuration: None,
        gain: "The next vacuum removes the dead rows; scans that begin at them become short again"
            .to_owned(),
        risk: risk.to_owned(),
        undo: "Not possible".to_owned(),
        apply: Apply::No,
    }
}
