//! `SHOW GROUPS`: the tallies of a pool as a table for people, one row per template and strategy.

use super::{Fallback, Tally, Trips, load};
use crate::line::Strategy;
use crate::show::Table;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most characters of a template that are shown.
pub(super) const TEMPLATE_CHARS_MAX: usize = 300;

/// What stands for the templates that are not counted by themselves.
pub(super) const OTHERS: &str = "(other templates)";

/// What stands for units that are no single statement.
pub(super) const LEASES: &str = "(transactions, and what is not one read or write)";

/// Its columns; docs/groups.md says what they mean.
pub(super) const COLUMNS: [&str; 12] = [
    "template",
    "strategy",
    "units",
    "groups",
    "mean_group",
    "largest_group",
    "travelled_together",
    "rows_written",
    "commits_saved",
    "fallbacks",
    "would_have_grouped",
    "reason",
];

/// A tally, and why units of its template travel alone even if they must wait.
#[derive(Debug)]
pub struct Seen {
    /// The counts.
    pub tally: Arc<Tally>,
    /// `None`: they do not.
    pub why_alone: Option<String>,
}

/// The table, rows with the most units first. `leases` is the number of units that were neither a single read nor a
/// single write.
pub fn table(seen: Vec<Seen>, leases: u64) -> Table {
    let mut rows: Vec<Row> = by_text(seen)
        .into_iter()
        .flat_map(Row::of_template)
        .collect();
    if leases > 0 {
        rows.push(Row {
            template: LEASES.to_owned(),
            strategy: "lease",
            units: leases,
            ..Row::default()
        });
    }
    rows.sort_by(|a, b| {
        let order = b.units.cmp(&a.units);
        order.then_with(|| (&a.template, a.strategy).cmp(&(&b.template, b.strategy)))
    });
    Table {
        columns: COLUMNS.map(str::to_owned).to_vec(),
        rows: rows.into_iter().map(Row::into_values).collect(),
    }
}

/// The same text may be several templates: with literals of other types, or parsed anew after DDL.
fn by_text(seen: Vec<Seen>) -> BTreeMap<String, Seen> {
    let mut texts: BTreeMap<String, Seen> = BTreeMap::new();
    for Seen { tally, why_alone } in seen {
        let text = match tally.template() {
            Some(template) => template.text.clone(),
            None => OTHERS.to_owned(),
        };
        let sum = texts.entry(text).or_insert_with(|| Seen {
            tally: Arc::default(),
            why_alone: None,
        });
        sum.tally.add(&tally);
        sum.why_alone = why_alone.or(sum.why_alone.take());
    }
    texts
}

/// A row, before it is text.
#[derive(Debug, Default)]
struct Row {
    template: String,
    strategy: &'static str,
    units: u64,
    /// `None` where there are none to count.
    groups: Option<Groups>,
    /// Of all units of the template.
    share: Option<f64>,
    fallbacks: String,
    would_have_grouped: Option<u64>,
    reason: Option<String>,
}

#[derive(Debug)]
struct Groups {
    groups: u64,
    largest: u64,
    /// `None`: each member's own statement ran.
    rows_written: Option<u64>,
    /// `None`: reads.
    commits_saved: Option<u64>,
}

impl Row {
    /// The rows of a template that has been used.
    fn of_template((text, seen): (String, Seen)) -> Vec<Self> {
        let tally = &seen.tally;
        let all = tally.units();
        let alone = load(&tally.alone);
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let share = (all > 0).then(|| (all - alone) as f64 / all as f64);
        let template = shortened(&text);
        let together = Strategy::ALL.into_iter().filter_map(|strategy| {
            let trips = tally.trips(strategy);
            let fallbacks = fallbacks(trips);
            let used = load(&trips.units) > 0 || !fallbacks.is_empty();
            used.then(|| Self {
                template: template.clone(),
                strategy: strategy.name(),
                units: load(&trips.units),
                groups: Some(Groups::of(strategy, trips)),
                share,
                fallbacks,
                ..Self::default()
            })
        });
        let mut rows: Vec<Self> = together.collect();
        let would_have_grouped = load(&tally.would_have_grouped);
        if alone > 0 || would_have_grouped > 0 {
            rows.push(Self {
                template,
                strategy: "solo",
                units: alone,
                share,
                would_have_grouped: Some(would_have_grouped),
                reason: seen.why_alone,
                ..Self::default()
            });
        }
        rows
    }

    fn into_values(self) -> Vec<Option<String>> {
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let groups = self.groups.as_ref();
        let units = self.units;
        vec![
            Some(self.template),
            Some(self.strategy.to_owned()),
            Some(units.to_string()),
            number(groups.map(|g| g.groups)),
            groups.map(|g| g.mean(units)),
            number(groups.map(|g| g.largest)),
            self.share.map(|share| format!("{share:.3}")),
            number(groups.and_then(|g| g.rows_written)),
            number(groups.and_then(|g| g.commits_saved)),
            groups.map(|_| self.fallbacks),
            number(self.would_have_grouped),
            self.reason,
        ]
    }
}

impl Groups {
    fn of(strategy: Strategy, trips: &Trips) -> Self {
        let one_statement = matches!(strategy, Strategy::Fold | Strategy::Take | Strategy::Merge);
        let writes = !strategy.reads();
        Self {
            groups: load(&trips.groups),
            largest: load(&trips.largest_group),
            rows_written: one_statement.then(|| load(&trips.rows_written)),
            commits_saved: writes.then(|| load(&trips.commits_saved)),
        }
    }

    fn mean(&self, units: u64) -> String {
        #[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
        let mean = units as f64 / self.groups.max(1) as f64;
        format!("{mean:.1}")
    }
}

/// `error=3 timeout=1`
fn fallbacks(trips: &Trips) -> String {
    let counts = Fallback::NAMES.iter().zip(&trips.fallbacks);
    let named = counts.map(|((_, name), count)| (name, load(count)));
    let parts: Vec<String> = named
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name}={count}"))
        .collect();
    parts.join(" ")
}

/// A text on one line, not too long.
fn shortened(text: &str) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    let line = line.join(" ");
    match line.char_indices().nth(TEMPLATE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
