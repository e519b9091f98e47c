//! The lab: the five workloads of Paceline, run against any address that speaks PostgreSQL's protocol, side by side, with
//! the checks that prove that nothing was lost.
//!
//! It never touches a table outside its own schema `paceline_lab` (a user's own script touches what its author wants it to), never
//! compares figures of different runs without saying so, and never reports a speed without its check: where there is none, as for a
//! script, it says so.

mod bench;
mod calibrate;
mod circumstances;
mod compare;
mod connection;
mod demo;
mod descriptors;
mod groups;
mod interrupt;
mod load;
mod machine;
mod power_law;
mod progress;
mod record;
mod report;
mod script;
mod server_stats;
mod session;
mod show;
mod statement;
mod summary;
mod table;
mod target;
mod validity;
mod work;
mod workload;

pub use bench::{Choice, Observer, Plan, Run, Stage, bench};
pub use calibrate::{Calibration, Ceiling, calibrate, ceilings};
pub use compare::{Comparison, compare};
pub use connection::Failure;
pub use demo::{Demo, PACELINE_SETTINGS};
pub use descriptors::allow as allow_clients;
pub use groups::GroupSample;
pub use interrupt::Interrupt;
pub use machine::{Machine, ServerFacts};
pub use progress::Progress;
pub use record::{
    CheckResult, Conditions, Errors, Latency, OpenLoop, Ran, Record, RunResult, VERSION, read_lines,
};
pub use report::report;
pub use script::{Script, ScriptError};
pub use server_stats::Cost;
pub use statement::Protocol;
pub use summary::{Cell, Figures, Row, Spread, summarize};
pub use table::{all_hold, table};
pub use target::{Host, Target};
pub use work::Work;
pub use workload::{SCENARIOS, Scenario, Sizes, Variant};
