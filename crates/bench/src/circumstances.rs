//! What figures depend on besides the work itself: the machine, the server, what was asked for. Two figures under different
//! circumstances say little about each other.

use crate::record::{Conditions, Record};
use crate::show;

/// Conditions of which only one value may be in a median.
const APART: [&str; 5] = ["load", "pause between turns", "protocol", "rows", "sizes"];

/// What a circumstance belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Where the load ran.
    Machine,
    /// What was behind the target.
    Server,
    /// What was asked for.
    Conditions,
}

/// A circumstance, and all that it was while records were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Circumstance {
    /// What it belongs to.
    pub(crate) kind: Kind,
    /// In words: `processor`, `setting fsync`.
    pub(crate) name: String,
    /// Each value once, in the order in which they came.
    pub(crate) values: Vec<String>,
}

/// The circumstances of all records.
pub(crate) fn of(records: &[Record]) -> Vec<Circumstance> {
    let mut all: Vec<Circumstance> = Vec::new();
    for (kind, name, value) in records.iter().flat_map(of_one) {
        match all.iter_mut().find(|known| known.is(kind, &name)) {
            Some(known) if known.values.contains(&value) => {}
            Some(known) => known.values.push(value),
            None => all.push(Circumstance {
                kind,
                name,
                values: vec![value],
            }),
        }
    }
    all
}

impl Circumstance {
    /// Whether it is this one.
    pub(crate) fn is(&self, kind: Kind, name: &str) -> bool {
        self.kind == kind && self.name == name
    }

    /// All values, as one text.
    pub(crate) fn text(&self) -> String {
        self.values.join(" / ")
    }
}

fn of_one(record: &Record) -> Vec<(Kind, String, String)> {
    let machine = &record.machine;
    let memory = match machine.memory_mib {
        0 => String::new(),
        mib => format!("{} MiB", show::count(mib)),
    };
    let of_machine = [
        ("processor", machine.processor.clone()),
        ("cores", machine.cores.to_string()),
        ("memory", memory),
        ("system", machine.system.clone()),
    ];
    let of_machine = of_machine.map(|(name, value)| (Kind::Machine, name.to_owned(), value));
    let of_conditions = conditions(&record.conditions)
        .map(|(name, value)| (Kind::Conditions, name.to_owned(), value));
    let server = &record.server;
    let version = ("PostgreSQL".to_owned(), server.version.clone());
    let settings = server.settings.iter();
    let settings = settings.map(|(name, value)| (format!("setting {name}"), value.clone()));
    let of_server = std::iter::once(version).chain(settings);
    let of_server = of_server.map(|(name, value)| (Kind::Server, name, value));
    let all = of_machine.into_iter().chain(of_server).chain(of_conditions);
    // What is empty was not told: by the system, or by a server that was not reached.
    all.filter(|(_, _, value)| !value.is_empty()).collect()
}

/// What was asked for, as far as it makes the same work another measurement: such figures have no common median.
pub(crate) fn apart(asked: &Conditions) -> Vec<(&'static str, String)> {
    let mut apart = conditions(asked).to_vec();
    apart.retain(|(name, _)| APART.contains(name));
    apart
}

fn conditions(asked: &Conditions) -> [(&'static str, String); 10] {
    let time = |seconds: f64| match seconds > 0.0 {
        true => show::duration(seconds * 1e6),
        false => "none".to_owned(),
    };
    let load = match asked.rate {
        Some(rate) => format!("open loop, {} units/s", show::number(rate)),
        None => "closed loop".to_owned(),
    };
    let rows = asked
        .rows
        .map_or("as the scenario has".to_owned(), show::count);
    let sizes = if asked.full { "full" } else { "small" };
    [
        ("measured per run", time(asked.duration_seconds)),
        ("warm-up", time(asked.warmup_seconds)),
        ("load", load),
        ("pause between turns", time(asked.think_seconds)),
        ("protocol", asked.protocol.clone()),
        ("rows", rows),
        ("sizes", sizes.to_owned()),
        ("threads of the load", asked.threads.to_string()),
        ("seed", asked.seed.to_string()),
        ("Paceline of the stand", asked.stand.join(" ")),
    ]
}
