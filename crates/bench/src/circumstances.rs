//! The circumstances of a measurement: the machine, the server, the parameters of the run. Figures that were measured
//! under different circumstances are hardly comparable.

use crate::ordered::{by_key, distinct};
use crate::record::{Conditions, Record};
use crate::show;

/// Conditions that separate rows: a median never combines records that differ in one of them.
const SEPARATING: [&str; 5] = ["load", "pause between turns", "protocol", "rows", "sizes"];

/// The subject of a circumstance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The machine that ran the load.
    Machine,
    /// The server behind the target.
    Server,
    /// The parameters of the run.
    Conditions,
}

/// A circumstance and its values in a set of records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Circumstance {
    /// The subject.
    pub(crate) kind: Kind,
    /// The name to show: `processor`, `setting fsync`.
    pub(crate) name: String,
    /// The distinct values, in order of appearance.
    pub(crate) values: Vec<String>,
}

/// The circumstances of all records.
pub(crate) fn of(records: &[Record]) -> Vec<Circumstance> {
    let all = by_key(records.iter().flat_map(of_one));
    let circumstance = |((kind, name), values)| Circumstance {
        kind,
        name,
        values: distinct(values),
    };
    all.into_iter().map(circumstance).collect()
}

impl Circumstance {
    pub(crate) fn is(&self, kind: Kind, name: &str) -> bool {
        self.kind == kind && self.name == name
    }

    /// All values in one text.
    pub(crate) fn text(&self) -> String {
        self.values.join(" / ")
    }
}

fn of_one(record: &Record) -> Vec<((Kind, String), String)> {
    let (machine, server) = (&record.machine, &record.server);
    let memory = match machine.memory_mib {
        0 => String::new(),
        mib => format!("{} MiB", show::count(mib)),
    };
    let mut all = Vec::new();
    let mut add = |kind, name: &str, value: String| {
        // An empty value is unknown: the system does not report it, or the server could not be reached.
        if !value.is_empty() {
            all.push(((kind, name.to_owned()), value));
        }
    };
    add(Kind::Machine, "processor", machine.processor.clone());
    add(Kind::Machine, "cores", machine.cores.to_string());
    add(Kind::Machine, "memory", memory);
    add(Kind::Machine, "system", machine.system.clone());
    add(Kind::Server, "PostgreSQL", server.version.clone());
    for (name, value) in &server.settings {
        add(Kind::Server, &format!("setting {name}"), value.clone());
    }
    for (name, value) in conditions(&record.conditions) {
        add(Kind::Conditions, name, value);
    }
    all
}

/// The parameters that separate rows: records that differ in one of them have no common median.
pub(crate) fn separating(parameters: &Conditions) -> Vec<(&'static str, String)> {
    let mut separating = conditions(parameters).to_vec();
    separating.retain(|(name, _)| SEPARATING.contains(name));
    separating
}

fn conditions(parameters: &Conditions) -> [(&'static str, String); 10] {
    let time = |seconds: f64| {
        if seconds > 0.0 {
            show::duration(seconds * 1e6)
        } else {
            "none".to_owned()
        }
    };
    let load = match parameters.rate {
        Some(rate) => format!("open loop, {} units/s", show::number(rate)),
        None => "closed loop".to_owned(),
    };
    let rows = parameters
        .rows
        .map_or("as the scenario has".to_owned(), show::count);
    let sizes = if parameters.full { "full" } else { "small" };
    [
        ("measured per run", time(parameters.duration_seconds)),
        ("warm-up", time(parameters.warmup_seconds)),
        ("load", load),
        ("pause between turns", time(parameters.think_seconds)),
        ("protocol", parameters.protocol.clone()),
        ("rows", rows),
        ("sizes", sizes.to_owned()),
        ("threads of the load", parameters.threads.to_string()),
        ("seed", parameters.seed.to_string()),
        ("Paceline of the demonstration", parameters.stand.join(" ")),
    ]
}
