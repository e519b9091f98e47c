//! The definition of a scenario and its variants. A variant is one way to do the work of the scenario.

use super::interface::AnyWorkload;
use crate::statement::Protocol;

/// Maximum number of rows of a table in any scenario.
pub(super) const ROWS_MAX: u64 = 1_000_000_000;

/// A scenario with all its variants.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Name on the command line: `hot-row`.
    pub name: &'static str,
    /// Title of tables: `Hot row: a flash sale`.
    pub title: &'static str,
    /// One sentence on the work of each client.
    pub about: &'static str,
    /// Plural name of a unit of work: `updates`.
    pub unit: &'static str,
    /// The variants; the demonstration runs the first.
    pub variants: &'static [Variant],
    /// Default numbers of clients.
    pub clients: &'static [usize],
    /// Default numbers of clients with `--full`.
    pub clients_full: &'static [usize],
    /// Minimum and maximum of `--rows`; `None` if the scenario has no such choice.
    pub rows: Option<(u64, u64)>,
}

/// One way to do the work of a scenario.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// Name on the command line: `hinted`.
    pub name: &'static str,
    /// The difference to the other variants.
    pub about: &'static str,
    /// The servers that it needs.
    pub topology: Topology,
    /// Further settings of the Paceline that the lab starts for the variant.
    pub settings: &'static [&'static str],
    /// The tables that are sharded, each with its key.
    pub(crate) keys: &'static [(&'static str, &'static str)],
    /// Creates the workload of one run.
    pub(crate) build: fn(&Sizes) -> Box<dyn AnyWorkload>,
}

/// The servers that a variant needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// A server, with a pooler in front of it or without.
    Single,
    /// A primary with two replicas. Without named targets each run starts them.
    Replicated,
    /// A server behind a thin link, with a Paceline at each end of the link. Without named targets the lab imitates the link.
    ThinLink,
    /// A coordinator with two shards. Without named targets each run starts them.
    Sharded,
}

impl Topology {
    /// The first of these; [`Self::Single`] if there is none.
    pub(super) const fn or_single(named: &[Self]) -> Self {
        match named {
            [] => Self::Single,
            [first, ..] => *first,
        }
    }
}

/// Variants, each with its name, how it differs from the others, the topology that it needs, if it is not a single server,
/// the keys of tables that are sharded, further settings of Paceline, if it needs any, and a closure that returns its workload.
macro_rules! variants {
    ($($name:literal, $about:expr, $(on $topology:ident,)? $(by $keys:expr,)? $(with $settings:expr,)? |$sizes:ident| $workload:expr;)*) => {
        &[$($crate::workload::Variant {
            name: $name,
            about: $about,
            topology: $crate::workload::Topology::or_single(&[$($crate::workload::Topology::$topology)?]),
            settings: {
                const SETTINGS: &[&[&str]] = &[$(&$settings)?];
                match SETTINGS { [first, ..] => first, [] => &[] }
            },
            keys: {
                const KEYS: &[&[(&str, &str)]] = &[$(&$keys)?];
                match KEYS { [first, ..] => first, [] => &[] }
            },
            build: |$sizes| Box::new($workload),
        }),*]
    };
}
pub(super) use variants;

/// The size of the tables, and how statements are sent.
#[derive(Debug, Clone)]
pub struct Sizes {
    /// Rows of the table of the scenario; `None` selects its small size or, with `full`, the size of its source.
    pub rows: Option<u64>,
    /// Use the sizes of the sources (SCENARIOS): 1,000,000 orders, 5,000,000 rows, …
    pub full: bool,
    /// The protocol of statements.
    pub protocol: Protocol,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Sizes {
    /// The requested number of rows; if there is none, `small`, or `full` for the sizes of the sources.
    pub(super) fn rows(&self, small: u64, full: u64) -> u64 {
        self.rows.unwrap_or(if self.full { full } else { small })
    }
}
