//! Records of many rounds, taken together: medians and spread, target beside target. Tables, the report and comparisons all
//! show this and nothing else.

use crate::circumstances;
use crate::groups::GroupSample;
use crate::record::{Errors, Latency, OpenLoop, Ran, Record};
use crate::script;
use crate::workload::{SCENARIOS, Scenario};
use std::collections::{BTreeMap, BTreeSet};

/// The same work by the same number of clients, target beside target.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The scenario, as on the command line.
    pub scenario: String,
    /// Its variant.
    pub variant: String,
    /// What was asked for otherwise than in other rows of the same work: `protocol: simple`; empty if nothing was.
    pub apart: String,
    /// Clients at the same time.
    pub clients: usize,
    /// One per target, in the order in which they ran first.
    pub cells: Vec<Cell>,
}

/// What a target came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Its name.
    pub target: String,
    /// Figures, if at least one round ran.
    pub figures: Option<Figures>,
    /// Why rounds have no figures, a reason for each of them.
    pub failed: Vec<String>,
}

/// Figures over all rounds that ran.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// So many.
    pub rounds: usize,
    /// Units of work per second.
    pub rate: Spread,
    /// Latency in microseconds; over the rounds, of each round's own. Of no unit there is none; here and below.
    pub p50: Option<Spread>,
    /// 95 of 100 took less.
    pub p95: Option<Spread>,
    /// 99 of 100.
    pub p99: Option<Spread>,
    /// 999 of 1,000.
    pub p999: Option<Spread>,
    /// Bytes of write-ahead log per unit.
    pub wal_bytes: Option<f64>,
    /// Row versions left dead per unit.
    pub dead_rows: Option<f64>,
    /// Microseconds of processor time per unit.
    pub cpu_micros: Option<f64>,
    /// Mean size of a group, if groups were formed.
    pub group: Option<f64>,
    /// Sizes of groups over the time of one round: of those that formed any, the one whose rate is nearest to the median.
    pub groups: Vec<GroupSample>,
    /// Turns that failed in all rounds, by SQLSTATE.
    pub errors: BTreeMap<String, Errors>,
    /// What the checks say: the first that does not hold, else the last; `None` if there is none.
    pub check: Option<String>,
    /// No check fails.
    pub holds: bool,
    /// What each check says that does not hold.
    pub broken: Vec<String>,
    /// Rounds that were stopped before their time.
    pub interrupted: usize,
    /// Rounds in which nothing was left to do before their time was over.
    pub ended_early: usize,
    /// Turns came at a fixed rate, so that the rate tells little and the latency much.
    pub open_loop: bool,
    /// Those turns, of all rounds that told of them.
    pub turns: Option<OpenLoop>,
}

/// A median and how far rounds differ from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The one in the middle; of an even number the mean of the two.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

/// A row that is being put together.
struct Gathered<'a> {
    row: Row,
    /// What its records were asked for, as far as it makes the same work another measurement.
    asked: Vec<(&'static str, String)>,
    /// For each target its name and its rounds.
    of_targets: Vec<(String, Vec<&'a Record>)>,
}

/// Takes records together, in the order in which they come. Only what was asked for in the same way is taken together; of
/// records of the same work that were not, each row says what is different about it.
pub fn summarize(records: &[Record]) -> Vec<Row> {
    let addresses = addresses(records);
    let mut rows: Vec<Gathered<'_>> = Vec::new();
    for record in records {
        let target = match addresses.get(record.target.as_str()) {
            Some(several) if several.len() > 1 => {
                format!("{} at {}", record.target, record.address)
            }
            _ => record.target.clone(),
        };
        let asked = circumstances::apart(&record.conditions);
        let mut known = rows.iter_mut();
        match known.find(|known| known.is_of(record) && known.asked == asked) {
            Some(known) => known.add(target, record),
            None => rows.push(Gathered {
                row: Row::of(record),
                asked,
                of_targets: vec![(target, vec![record])],
            }),
        }
    }
    let apart: Vec<String> = rows.iter().map(|row| row.apart_from(&rows)).collect();
    let rows = rows.into_iter().zip(apart);
    rows.map(|(gathered, apart)| Row {
        apart,
        cells: gathered.cells(),
        ..gathered.row
    })
    .collect()
}

/// Where each target was. Stands have other ports each time, and are the same all the same.
fn addresses(records: &[Record]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut addresses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for record in records {
        let place = match record.conditions.stand.is_empty() {
            true => record.address.as_str(),
            false => "the stand",
        };
        addresses.entry(&record.target).or_default().insert(place);
    }
    addresses
}

impl<'a> Gathered<'a> {
    fn is_of(&self, record: &Record) -> bool {
        self.row.clients == record.clients && self.is_same_work(&record.scenario, &record.variant)
    }

    fn is_same_work(&self, scenario: &str, variant: &str) -> bool {
        self.row.scenario == scenario && self.row.variant == variant
    }

    fn add(&mut self, target: String, record: &'a Record) {
        let mut known = self.of_targets.iter_mut();
        match known.find(|(known, _)| *known == target) {
            Some((_, rounds)) => rounds.push(record),
            None => self.of_targets.push((target, vec![record])),
        }
    }

    /// What was asked for otherwise than in another of `rows` of the same work.
    fn apart_from(&self, rows: &[Self]) -> String {
        let (scenario, variant) = (&self.row.scenario, &self.row.variant);
        let same_work = || {
            rows.iter()
                .filter(|row| row.is_same_work(scenario, variant))
        };
        let differs = |asked: &&(&str, String)| same_work().any(|row| !row.asked.contains(asked));
        let told = self.asked.iter().filter(differs);
        let told: Vec<String> = told
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        told.join(", ")
    }

    fn cells(&self) -> Vec<Cell> {
        let cells = self.of_targets.iter();
        cells
            .map(|(target, rounds)| Cell::of(target, rounds))
            .collect()
    }
}

impl Row {
    /// What is known of its scenario; nothing of one that another version had.
    pub(crate) fn known(&self) -> Option<&'static Scenario> {
        let mut known = SCENARIOS.iter().chain([&script::SCENARIO]);
        known.find(|known| known.name == self.scenario)
    }

    fn of(record: &Record) -> Self {
        Self {
            scenario: record.scenario.clone(),
            variant: record.variant.clone(),
            apart: String::new(),
            clients: record.clients,
            cells: Vec::new(),
        }
    }

    /// The variant, and what sets it apart from others of its name.
    pub fn way(&self) -> String {
        match self.apart.as_str() {
            "" => self.variant.clone(),
            apart => format!("{} ({apart})", self.variant),
        }
    }

    /// How many times the first target's rate this cell's is.
    pub fn times(&self, cell: &Cell) -> Option<f64> {
        let base = self.cells.first()?.figures.as_ref()?.rate.median;
        let rate = cell.figures.as_ref()?.rate.median;
        (base > 0.0).then(|| rate / base)
    }
}

impl Cell {
    fn of(target: &str, rounds: &[&Record]) -> Self {
        let figures = || rounds.iter().map(|record| record.figures());
        let ran: Vec<&Ran> = figures().filter_map(Result::ok).collect();
        Self {
            target: target.to_owned(),
            figures: Figures::of(&ran).map(|figures| Figures {
                open_loop: rounds.iter().any(|record| record.conditions.rate.is_some()),
                ended_early: rounds.iter().filter(|record| record.ended_early()).count(),
                ..figures
            }),
            failed: figures().filter_map(Result::err).collect(),
        }
    }
}

impl Figures {
    fn of(ran: &[&Ran]) -> Option<Self> {
        let all = |of: fn(&Ran) -> f64| Spread::of(ran.iter().map(|ran| of(ran)).collect());
        let latency = |of: fn(&Latency) -> u64| {
            let done = ran.iter().filter(|ran| ran.units > 0);
            Spread::of(done.map(|ran| of(&ran.latency) as f64).collect())
        };
        let known = |of: fn(&Ran) -> Option<f64>| {
            Some(Spread::of(ran.iter().filter_map(|ran| of(ran)).collect())?.median)
        };
        let broken: Vec<String> = ran
            .iter()
            .filter_map(|ran| ran.broken().map(str::to_owned))
            .collect();
        let last = ran.iter().rev().find_map(|ran| ran.check.as_ref());
        let check = broken.first().or(last.map(|check| &check.says));
        let rate = all(|ran| ran.rate)?;
        Some(Self {
            rounds: ran.len(),
            rate,
            p50: latency(|latency| latency.p50),
            p95: latency(|latency| latency.p95),
            p99: latency(|latency| latency.p99),
            p999: latency(|latency| latency.p999),
            wal_bytes: known(|ran| ran.cost.wal_bytes),
            dead_rows: known(|ran| ran.cost.dead_rows),
            cpu_micros: known(|ran| ran.cost.cpu_micros),
            group: known(mean_group),
            groups: groups_of_the_middle(ran, rate.median),
            errors: errors(ran),
            check: check.cloned(),
            holds: broken.is_empty(),
            broken,
            interrupted: ran.iter().filter(|ran| ran.interrupted).count(),
            ended_early: 0,
            open_loop: false,
            turns: ran
                .iter()
                .filter_map(|ran| ran.open_loop)
                .reduce(|a, b| a + b),
        })
    }

    /// Turns that failed in all rounds.
    pub fn failed_turns(&self) -> u64 {
        self.errors.values().map(|errors| errors.count).sum()
    }
}

fn groups_of_the_middle(ran: &[&Ran], median: f64) -> Vec<GroupSample> {
    let distance = |ran: &Ran| (ran.rate - median).abs();
    let with_groups = ran.iter().filter(|ran| !ran.groups.is_empty());
    let middle = with_groups.min_by(|a, b| distance(a).total_cmp(&distance(b)));
    middle.map_or_else(Vec::new, |ran| ran.groups.clone())
}

fn errors(ran: &[&Ran]) -> BTreeMap<String, Errors> {
    let mut all: BTreeMap<String, Errors> = BTreeMap::new();
    for (kind, errors) in ran.iter().flat_map(|ran| &ran.errors) {
        all.entry(kind.clone())
            .and_modify(|known| known.count += errors.count)
            .or_insert_with(|| errors.clone());
    }
    all
}

fn mean_group(ran: &Ran) -> Option<f64> {
    let means: Vec<f64> = ran.groups.iter().map(|sample| sample.mean).collect();
    (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64)
}

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let (low, high) = (
            values.get((values.len() - 1) / 2)?,
            values.get(values.len() / 2)?,
        );
        Some(Self {
            median: f64::midpoint(*low, *high),
            min,
            max,
        })
    }

    /// How far the rounds lie apart, as a share of the median.
    pub fn width(&self) -> f64 {
        match self.median {
            median if median > 0.0 => (self.max - self.min) / median,
            _ => 0.0,
        }
    }
}
