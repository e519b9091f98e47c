//! The samples of one pattern.

use crate::attribution::Share;
use crate::evaluated::Evaluated;
use crate::finding::{Advice, Evidence, Finding, Pattern, Severity};
use crate::observation::{TableChange, TableFacts};
use crate::queries::SESSIONS;

/// A pattern that occupies fewer sessions on average is none: waiting for a row now and then is normal.
const SESSIONS_MIN: f64 = 4.0;

/// The samples of a pattern, if they are enough, with what they have in common.
pub(super) struct Claim<'a> {
    pub(super) evaluated: &'a Evaluated<'a>,
    pattern: Pattern,
    /// The statement with most samples.
    pub(super) first: &'a Share,
    samples: usize,
    row_waits: usize,
}

impl<'a> Claim<'a> {
    /// `None`: the pattern occupies too few sessions.
    pub(super) fn of(evaluated: &'a Evaluated<'a>, pattern: Pattern) -> Option<Self> {
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

    pub(super) fn share(&self) -> f64 {
        self.evaluated.attribution.part(self.samples)
    }

    /// Sessions on average.
    pub(super) fn sessions(&self) -> f64 {
        self.evaluated.attribution.mean(self.samples)
    }

    /// Sessions that wait for a row, on average.
    pub(super) fn row_waits(&self) -> f64 {
        self.evaluated.attribution.mean(self.row_waits)
    }

    pub(super) fn change(&self) -> Option<TableChange<'a>> {
        let id = self.first.table?;
        let changes = self.evaluated.observation.changes();
        changes.into_iter().find(|change| change.now.id == id)
    }

    pub(super) fn facts(&self) -> Option<&'a TableFacts> {
        self.evaluated.observation.facts_of(self.first.table?)
    }

    pub(super) fn seconds(&self) -> f64 {
        self.evaluated.observation.seconds()
    }

    pub(super) fn finding(
        self,
        summary: String,
        evidence: Vec<Evidence>,
        advice: Vec<Advice>,
    ) -> Finding {
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
        let executed = self.evaluated.executed.get(&self.first.statement.text);
        all.extend(executed.map(|executed| executed.evidence(self.seconds())));
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
