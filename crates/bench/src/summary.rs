//! Summarises the records of several rounds: medians and ranges, target beside target. Tables, the report and comparisons
//! show only these.

use crate::circumstances;
use crate::ordered::{by_key, distinct};
use crate::record::{
    Errors, FailoverResult, GroupSample, Latency, OpenLoop, Ran, ReadsResult, Record, TrendPart,
    WithinDeadline,
};
use crate::script;
use crate::show;
use crate::workload::{SCENARIOS, Scenario, failover};
use std::collections::BTreeMap;

/// The text for runs without a check.
pub(crate) const NO_CHECK: &str =
    "no check: only its author knows what a script should leave behind";

/// The same work with the same number of clients, target beside target.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Name of the scenario on the command line.
    pub scenario: String,
    /// Name of the variant.
    pub variant: String,
    /// The parameters that distinguish this row from other rows of the same work, such as `protocol: simple`; empty if
    /// there are none.
    pub parameters: String,
    /// Number of concurrent clients.
    pub clients: usize,
    /// A cell per target, in the order in which the targets first ran.
    pub cells: Vec<Cell>,
}

/// The results of a target.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Name of the target.
    pub target: String,
    /// The figures, if at least one round has any.
    pub figures: Option<Figures>,
    /// A reason for each round without figures.
    pub failed: Vec<String>,
}

/// Figures over all rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Number of rounds.
    pub rounds: usize,
    /// Units of work per second.
    pub rate: Spread,
    /// Median of the latency in microseconds, over the rounds. `None` if no round completed a unit, as for the other
    /// percentiles.
    pub p50: Option<Spread>,
    /// 95th percentile.
    pub p95: Option<Spread>,
    /// 99th percentile.
    pub p99: Option<Spread>,
    /// 99.9th percentile.
    pub p999: Option<Spread>,
    /// Bytes of write-ahead log per unit.
    pub wal_bytes: Option<f64>,
    /// Dead row versions per unit.
    pub dead_rows: Option<f64>,
    /// Microseconds of processor time per unit.
    pub cpu_micros: Option<f64>,
    /// Mean size of a group, if the target formed groups.
    pub group: Option<f64>,
    /// Sizes of groups over the time of one round: of those with groups, the one whose rate is nearest to the median.
    pub groups: Vec<GroupSample>,
    /// Failed turns in all rounds by SQLSTATE.
    pub errors: BTreeMap<String, Errors>,
    /// The result of the first check that does not hold, otherwise of the last check; `None` if there is no check.
    pub check: Option<String>,
    /// Whether all checks hold.
    pub holds: bool,
    /// The results of all checks that do not hold.
    pub broken: Vec<String>,
    /// Number of rounds that were stopped early.
    pub interrupted: usize,
    /// Number of rounds in which no work was left before the time was over.
    pub ended_early: usize,
    /// Whether turns had a fixed rate; then the latency says more than the rate.
    pub open_loop: bool,
    /// Late turns of all rounds that recorded them.
    pub turns: Option<OpenLoop>,
    /// Requests within the deadline of the first round that has one, in all rounds with the same deadline.
    pub within_deadline: Option<WithinDeadline>,
    /// The failovers of all rounds, if there were any.
    pub failover: Option<Failovers>,
    /// The checked reads of all rounds, if there were any.
    pub reads: Option<Reads>,
    /// The first and the last tenth of the measured time of all rounds, if they were recorded.
    pub trend: Option<[Period; 2]>,
}

/// A part of the measured time of all rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Period {
    /// Units of work per second.
    pub rate: Spread,
    /// 99th percentile of the latency in microseconds; `None` if no round completed a unit in this part.
    pub p99: Option<Spread>,
}

/// The checked reads of all rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reads {
    /// Number of reads.
    pub checked: u64,
    /// Number of those that returned an older state than their client knew.
    pub stale: u64,
    /// The share that replicas answered, in percent.
    pub on_replicas: Option<f64>,
    /// Microseconds of the primary's own processor time per read.
    pub primary_cpu_micros: Option<Spread>,
}

/// The failovers of all rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Failovers {
    /// Maximum time between two acknowledged writes, in microseconds.
    pub pause: Spread,
    /// Maximum time that a client waited for an acknowledged write, in microseconds.
    pub longest_wait: Spread,
    /// Number of acknowledged writes that are missing, in all rounds.
    pub missing: u64,
    /// Number of writes that were executed twice, in all rounds.
    pub twice: u64,
}

/// The median over the rounds, and their range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The middle value; the mean of the two middle ones if their number is even.
    pub median: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
}

/// Summarises records in the order in which they appear. Only records with the same parameters are combined. If rows of
/// the same work have different parameters, each row names its own.
pub fn summarize(records: &[Record]) -> Vec<Row> {
    let addresses = by_key(
        records
            .iter()
            .map(|record| (&record.target, address(record))),
    );
    let ambiguous = addresses.into_iter().filter_map(|(target, addresses)| {
        let is_ambiguous = distinct(addresses).len() > 1;
        is_ambiguous.then_some(target)
    });
    let ambiguous: Vec<&String> = ambiguous.collect();
    let target = |record: &Record| {
        if ambiguous.contains(&&record.target) {
            format!("{} at {}", record.target, record.address)
        } else {
            record.target.clone()
        }
    };
    let rows = by_key(records.iter().map(|record| {
        let work = (&record.scenario, &record.variant);
        let separating = circumstances::separating(&record.conditions);
        ((work, record.clients, separating), record)
    }));
    let parameters = |work, own: &[(&str, String)]| {
        let same_work = || rows.iter().filter(|((other, ..), _)| *other == work);
        let differs =
            |one: &&(&str, String)| same_work().any(|((.., others), _)| !others.contains(one));
        let differing = own.iter().filter(differs);
        let texts: Vec<String> = differing
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        texts.join(", ")
    };
    let rows = rows.iter().map(|((work, clients, own), rounds)| Row {
        scenario: work.0.clone(),
        variant: work.1.clone(),
        parameters: parameters(*work, own),
        clients: *clients,
        cells: by_key(rounds.iter().map(|record| (target(record), *record)))
            .into_iter()
            .map(|(target, rounds)| Cell::of(target, &rounds))
            .collect(),
    });
    rows.collect()
}

/// The demonstration uses other ports each time; its addresses count as the same.
fn address(record: &Record) -> &str {
    if record.conditions.stand.is_empty() {
        &record.address
    } else {
        "the demonstration"
    }
}

/// All cells with their rows.
pub(crate) fn cells(rows: &[Row]) -> impl Iterator<Item = (&Row, &Cell)> {
    rows.iter()
        .flat_map(|row| row.cells.iter().map(move |cell| (row, cell)))
}

/// Number of acknowledged writes that failovers lost. If all checks hold, asynchronous replication lost them.
pub(crate) fn missing<'a>(figures: impl Iterator<Item = &'a Figures>) -> u64 {
    let failovers = figures.filter_map(|figures| figures.failover);
    failovers.map(|failover| failover.missing).sum()
}

impl Row {
    /// The definition of the scenario; `None` if this version does not know it.
    pub(crate) fn definition(&self) -> Option<&'static Scenario> {
        let mut known = SCENARIOS
            .iter()
            .chain([&script::SCENARIO, &failover::SCENARIO]);
        known.find(|known| known.name == self.scenario)
    }

    /// Name of the first target, with which the others are compared.
    pub(crate) fn base(&self) -> &str {
        self.cells.first().map_or("", |cell| &cell.target)
    }

    /// Plural name of a unit of work.
    pub(crate) fn unit(&self) -> &'static str {
        self.definition().map_or("units", |known| known.unit)
    }

    /// Name of the variant, with the parameters that distinguish it from others of the same name.
    pub fn label(&self) -> String {
        match self.parameters.as_str() {
            "" => self.variant.clone(),
            parameters => format!("{} ({parameters})", self.variant),
        }
    }

    /// The name of the runs of a target: `hot-row hinted, 256 clients, paceline`.
    pub(crate) fn run(&self, cell: &Cell) -> String {
        let (label, clients) = (self.label(), show::clients(self.clients));
        format!("{} {label}, {clients}, {}", self.scenario, cell.target)
    }

    /// The primary's processor time per read in percent of that with the first target.
    pub(crate) fn primary_cpu_percent(&self, cell: &Cell) -> Option<f64> {
        let cpu = |cell: &Cell| cell.figures.as_ref()?.reads?.primary_cpu_micros;
        let base = cpu(self.cells.first()?)?.median;
        (base > 0.0).then_some(100.0 * cpu(cell)?.median / base)
    }

    /// The ratio of the cell's rate to that of the first target.
    pub fn times(&self, cell: &Cell) -> Option<f64> {
        let base = self.cells.first()?.figures.as_ref()?.rate.median;
        let rate = cell.figures.as_ref()?.rate.median;
        (base > 0.0).then(|| rate / base)
    }
}

impl Cell {
    fn of(target: String, rounds: &[&Record]) -> Self {
        let figures = || rounds.iter().map(|record| record.figures());
        let ran: Vec<&Ran> = figures().filter_map(Result::ok).collect();
        Self {
            target,
            figures: Figures::of(&ran).map(|figures| Figures {
                open_loop: rounds.iter().any(|record| record.conditions.rate.is_some()),
                ended_early: rounds.iter().filter(|record| record.ended_early()).count(),
                ..figures
            }),
            failed: figures().filter_map(Result::err).collect(),
        }
    }

    /// Each distinct reason for rounds without figures, and the number of these rounds.
    pub(crate) fn reasons(&self) -> Vec<(&String, usize)> {
        let reasons = by_key(self.failed.iter().map(|why| (why, ())));
        let count = |(why, rounds): (_, Vec<()>)| (why, rounds.len());
        reasons.into_iter().map(count).collect()
    }

    /// The result of every check that does not hold.
    pub(crate) fn broken(&self) -> impl Iterator<Item = &String> {
        self.figures.iter().flat_map(|figures| &figures.broken)
    }
}

impl Figures {
    fn of(ran: &[&Ran]) -> Option<Self> {
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
        let rate = Spread::of(ran.iter().map(|ran| ran.rate).collect())?;
        let turns = ran
            .iter()
            .filter_map(|ran| ran.open_loop)
            .reduce(|mut all, one| {
                all.add(one);
                all
            });
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
            turns,
            within_deadline: within_deadline(ran),
            failover: Failovers::of(ran),
            reads: Reads::of(ran),
            trend: trend(ran),
        })
    }

    /// Number of failed turns in all rounds.
    pub fn failed_turns(&self) -> u64 {
        self.errors.values().map(|errors| errors.count).sum()
    }
}

impl Failovers {
    fn of(ran: &[&Ran]) -> Option<Self> {
        let all: Vec<FailoverResult> = ran.iter().filter_map(|ran| ran.failover).collect();
        let time = |of: fn(&FailoverResult) -> u64| {
            Spread::of(all.iter().map(|one| of(one) as f64).collect())
        };
        Some(Self {
            pause: time(|one| one.pause)?,
            longest_wait: time(|one| one.longest_wait)?,
            missing: all.iter().map(|one| one.missing).sum(),
            twice: all.iter().map(|one| one.twice).sum(),
        })
    }
}

impl Reads {
    fn of(ran: &[&Ran]) -> Option<Self> {
        let all: Vec<ReadsResult> = ran.iter().filter_map(|ran| ran.reads).collect();
        all.first()?;
        let checked = all.iter().map(|one| one.checked).sum();
        let on_replicas: Option<u64> = all.iter().map(|one| one.on_replicas).sum();
        let cpu = all.iter().filter_map(|one| one.primary_cpu_micros);
        Some(Self {
            checked,
            stale: all.iter().map(|one| one.stale).sum(),
            on_replicas: on_replicas
                .filter(|_| checked > 0)
                .map(|reads| 100.0 * reads as f64 / checked as f64),
            primary_cpu_micros: Spread::of(cpu.collect()),
        })
    }
}

fn trend(ran: &[&Ran]) -> Option<[Period; 2]> {
    let period = |part: fn(&Ran) -> Option<TrendPart>| {
        let parts = || ran.iter().filter_map(|ran| part(ran));
        Some(Period {
            rate: Spread::of(parts().map(|part| part.rate).collect())?,
            p99: Spread::of(parts().filter_map(|part| Some(part.p99? as f64)).collect()),
        })
    };
    let first = period(|ran| Some(ran.trend?.first))?;
    Some([first, period(|ran| Some(ran.trend?.last))?])
}

fn within_deadline(ran: &[&Ran]) -> Option<WithinDeadline> {
    let all = ran.iter().filter_map(|ran| ran.within_deadline);
    all.reduce(|mut sum, one| {
        if one.seconds.total_cmp(&sum.seconds).is_eq() {
            sum.add(one);
        }
        sum
    })
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
    /// The spread of a single value.
    pub(crate) fn exact(value: f64) -> Self {
        Self {
            median: value,
            min: value,
            max: value,
        }
    }

    /// Computes the spread of at least one value.
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

    /// The range as a fraction of the median.
    pub fn width(&self) -> f64 {
        match self.median {
            median if median > 0.0 => (self.max - self.min) / median,
            _ => 0.0,
        }
    }
}
