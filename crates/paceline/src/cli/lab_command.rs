//! The commands of `paceline bench`, with all arguments resolved.

use paceline_bench::{Calibration, Plan, Script};
use std::path::PathBuf;
use std::sync::Arc;

/// A command of `paceline bench`.
#[derive(Debug)]
pub(crate) enum LabCommand {
    /// Measure: see [`crate::bench::bench`].
    Bench(Box<Bench>),
    /// Write a report of records: see [`crate::bench::report`].
    Report(Report),
    /// Compare records: see [`crate::bench::compare`].
    Compare(Compare),
    /// Measure the load generator itself.
    Calibrate(Calibration),
}

/// The resolved arguments of a measurement.
#[derive(Debug)]
pub(crate) struct Bench {
    /// The runs. Without targets, the demo is started and measured.
    pub(crate) plan: Plan,
    /// The data folder of the demo's PostgreSQL, if no target is named.
    pub(crate) demo_folder: Option<PathBuf>,
    /// A script that is run once before a user's script, if the demo is measured.
    pub(crate) setup: Option<Arc<Script>>,
    /// The file to which each record is appended, one per line.
    pub(crate) json: Option<PathBuf>,
    /// The file for the report.
    pub(crate) html: Option<PathBuf>,
}

/// The arguments of `bench report`.
#[derive(Debug)]
pub(crate) struct Report {
    /// The file of records.
    pub(crate) records: PathBuf,
    /// The file for the report.
    pub(crate) html: PathBuf,
}

/// The arguments of `bench compare`.
#[derive(Debug)]
pub(crate) struct Compare {
    /// The older records.
    pub(crate) before: PathBuf,
    /// The newer records.
    pub(crate) after: PathBuf,
    /// Exit with 1 if something became slower beyond noise.
    pub(crate) fail_on_slower: bool,
}
