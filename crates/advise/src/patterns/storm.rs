//! More sessions than the server can run.

use super::numbers::{counted, float};
use crate::evaluated::{Evaluated, SHARE_MIN};
use crate::finding::{Advice, Apply, Evidence, Finding, Pattern, Severity};
use crate::queries::SESSIONS;

/// Sessions that execute statements at the same time, on average, from which on they are more than a server runs well: a pool of
/// connections is rarely larger.
const ACTIVE_MIN: f64 = 32.0;

/// Sessions that are opened per second from which on opening them costs much: each starts a process.
const OPENED_MIN: f64 = 50.0;

/// Minimum number of sessions that executed a statement within a second: with that many processes, a pooler serves them better.
const RECENT_MIN: u32 = 100;

/// The part of `max_connections` in use from which on clients will be rejected.
const CONNECTIONS_MIN: f64 = 0.9;

/// `explained`: samples of reads that another pattern explains.
pub(super) fn find(evaluated: &Evaluated<'_>, explained: usize) -> Option<Finding> {
    let (observation, attribution) = (evaluated.observation, &evaluated.attribution);
    let reads: usize = attribution.reads.iter().map(|share| share.samples).sum();
    let others: usize = attribution.others.values().sum();
    let samples = others + reads.saturating_sub(explained);
    let active = attribution.mean(samples);
    let sessions = |counters: &crate::observation::Counters| counters.sessions;
    let opened = sessions(&observation.after).zip(sessions(&observation.before));
    let opened = opened.map_or(0.0, |(after, before)| float(after - before));
    let opened = opened / observation.seconds();
    let after = &observation.after;
    let used = f64::from(after.connections) / f64::from(after.connections_max.max(1));
    let idle = attribution.mean(attribution.idle_in_transaction);
    let is_crowd = active >= ACTIVE_MIN || after.recent >= RECENT_MIN;
    // Connections that are opened, or that are all in use, cost whatever statements do.
    let is_churn = opened >= OPENED_MIN || used >= CONNECTIONS_MIN;
    if !is_crowd && !is_churn {
        return None;
    }
    let unexplained = attribution.part(samples);
    let share = match is_churn {
        true => unexplained.max(SHARE_MIN),
        false => unexplained,
    };
    let severity = match active >= ACTIVE_MIN {
        true => Severity::of(share),
        false => Severity::Low,
    };
    let mut waits: Vec<(&String, &usize)> = attribution.others.iter().collect();
    waits.sort_by(|one, other| other.1.cmp(one.1));
    let waits = waits.iter().take(3);
    let waits: Vec<String> = waits
        .map(|(wait, samples)| format!("{wait} {:.0}", attribution.mean(**samples)))
        .collect();
    let evidence = vec![
        Evidence {
            fact: format!(
                "{active:.0} sessions execute statements at the same time that no other pattern explains ({}); {idle:.0} are idle in a transaction",
                waits.join(", ")
            ),
            query: SESSIONS.to_owned(),
        },
        counted(format!(
            "{} of {} connections are in use; {opened:.1} are opened per second; {:.0} commits per second",
            after.connections,
            after.connections_max,
            float(after.commits - observation.before.commits) / observation.seconds()
        )),
    ];
    Some(Finding {
        pattern: Pattern::Storm,
        severity,
        share,
        summary: format!(
            "{active:.0} sessions execute statements at the same time; {} did within the last second, of {} that are connected",
            after.recent, after.connections
        ),
        table: None,
        statement: None,
        evidence,
        advice: vec![pool(active, opened)],
    })
}

fn pool(active: f64, opened: f64) -> Advice {
    Advice {
        what: "Put a pooler between applications and database: Paceline, on the machine of the database or on each machine of the applications".to_owned(),
        sql: None,
        configuration: Some(
            "[paceline]\npool_mode = \"transaction\"\ndefault_pool_size = 20\nmax_client_conn = 10000\n".to_owned(),
        ),
        gain: format!(
            "PostgreSQL runs 20 statements at a time instead of {active:.0}, and opens no process for the {opened:.0} connections per second; measured: twice as many random updates with 300 clients"
        ),
        risk: "Transaction pooling: session state such as SET, temporary tables and advisory locks keeps a server connection (session_state = \"pin\")".to_owned(),
        undo: "Connect to PostgreSQL directly".to_owned(),
        apply: Apply::No,
    }
}
