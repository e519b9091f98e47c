//! The patterns. Each says from which numbers on it is one, so that a busy but healthy database has none.

mod hot_row;
mod pinned_horizon;
mod queue;
mod scattered_read;
mod storm;
mod upsert_store;

use crate::attribution::Share;
use crate::evaluate::Evaluated;
use crate::finding::{Advice, Apply, Evidence, Finding, Pattern, Severity};
use crate::observation::{TableChange, TableFacts};
use crate::queries::{COUNTERS, SESSIONS};

/// A pattern that occupies fewer sessions on average is none: waiting for a row now and then is normal.
const SESSIONS_MIN: f64 = 4.0;

/// All patterns that were found.
pub(crate) fn find(evaluated: &Evaluated<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(hot_row::find(evaluated));
    found.extend(queue::find(evaluated));
    found.extend(upsert_store::find(evaluated));
    let (scattered, explained) = scattered_read::find(evaluated);
    found.extend(scattered);
    found.extend(storm::find(evaluated, explained));
    found.extend(pinned_horizon::find(evaluated));
    found
}

/// The samples of a pattern, if they are enough, with what they have in common.
struct Claim<'a> {
    evaluated: &'a Evaluated<'a>,
    pattern: Pattern,
    /// The statement with most samples.
    first: &'a Share,
    samples: usize,
    row_waits: usize,
}

impl<'a> Claim<'a> {
    /// `None`: the pattern occupies too few sessions.
    fn of(evaluated: &'a Evaluated<'a>, pattern: Pattern) -> Option<Self> {
        let attribution = &evaluated.attribution;
        let shares = attribution.shares(pattern);
        let samples = shares.iter().map(|share| share.samples).sum();
        let row_waits = shares.iter().map(|share| share.row_waits).sum();
        (attribution.mean(samples) >= SESSIONS_MIN).then_some(Self {
            evaluated,
            pattern,
            first: shares.first()?,
            samples,
            row_waits,
        })
    }

    fn share(&self) -> f64 {
        self.evaluated.attribution.part(self.samples)
    }

    /// Sessions on average.
    fn sessions(&self) -> f64 {
        self.evaluated.attribution.mean(self.samples)
    }

    /// Sessions that wait for a row, on average.
    fn row_waits(&self) -> f64 {
        self.evaluated.attribution.mean(self.row_waits)
    }

    fn change(&self) -> Option<TableChange<'a>> {
        let id = self.first.table?;
        let changes = self.evaluated.observation.changes();
        changes.into_iter().find(|change| change.now.id == id)
    }

    fn facts(&self) -> Option<&'a TableFacts> {
        self.evaluated.observation.facts_of(self.first.table?)
    }

    fn seconds(&self) -> f64 {
        self.evaluated.observation.seconds()
    }

    fn finding(self, summary: String, evidence: Vec<Evidence>, advice: Vec<Advice>) -> Finding {
        let table = self.change().map(|change| change.now.qualified.clone());
        let share = self.share();
        let mut all = vec![Evidence {
            fact: format!(
                "{:.0} % of the time of all sessions; {:.1} sessions on average, {:.1} of them waiting for a row",
                share * 100.0,
                self.sessions(),
                self.row_waits()
            ),
            query: SESSIONS.to_owned(),
        }];
        all.extend(evidence);
        Finding {
            pattern: self.pattern,
            severity: Severity::of(share),
            share,
            summary,
            table,
            statement: Some(self.first.statement.text.clone()),
            evidence: all,
            advice,
        }
    }
}

/// A number per second, of counters.
fn counted(fact: String) -> Evidence {
    Evidence {
        fact,
        query: COUNTERS.to_owned(),
    }
}

/// A counter as a number.
fn float(count: i64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "rates need no more than 53 bits"
    )]
    let float = count as f64;
    float
}

/// What the front end does, and how to switch it on there.
fn group(gain: String) -> Advice {
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
fn table_setting(
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

/// Leaves room in each block, so that a new version of a row fits beside the old one.
fn fillfactor(change: &TableChange<'_>, facts: &TableFacts) -> Option<Advice> {
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
