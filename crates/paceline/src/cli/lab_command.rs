//! What `paceline bench` was asked to do, everything resolved.

use paceline_bench::{Calibration, Plan, Script};
use std::path::PathBuf;
use std::sync::Arc;

/// What `paceline bench` was asked to do.
#[derive(Debug)]
pub(crate) enum LabCommand {
    /// Measure: see [`crate::bench::bench`].
    Bench(Box<Bench>),
    /// Make a page of records: see [`crate::bench::report`].
    Report(Report),
    /// Compare records: see [`crate::bench::compare`].
    Compare(Compare),
    /// Measure the load generator itself.
    Calibrate(Calibration),
}

/// What the lab is to measure.
#[derive(Debug)]
pub(crate) struct Bench {
    /// What to run; without targets, those of the stand.
    pub(crate) order: Plan,
    /// Where the embedded PostgreSQL keeps its data, if no target is named.
    pub(crate) stand: Option<PathBuf>,
    /// Run once before all, if the stand is measured by a user's own script.
    pub(crate) setup: Option<Arc<Script>>,
    /// Every record goes here as soon as it is there, a line each.
    pub(crate) json: Option<PathBuf>,
    /// A page about all of it goes here.
    pub(crate) html: Option<PathBuf>,
}

/// A page made from records.
#[derive(Debug)]
pub(crate) struct Report {
    /// Where they are.
    pub(crate) records: PathBuf,
    /// Where the page goes.
    pub(crate) html: PathBuf,
}

/// Two files side by side.
#[derive(Debug)]
pub(crate) struct Compare {
    /// The older records.
    pub(crate) before: PathBuf,
    /// The newer ones.
    pub(crate) after: PathBuf,
    /// End with 1 when something got slower beyond noise.
    pub(crate) fail_on_slower: bool,
}
