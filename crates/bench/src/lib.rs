//! The benchmark of Paceline: runs the five scenarios and scripts of users against any server that speaks PostgreSQL's
//! protocol, several targets in turn, or on replicas and failovers of its own servers, and checks that no work was lost. The
//! documentation calls it the lab.
//!
//! It never touches a table outside of its own schema `paceline_lab`, except in a script of a user. It never compares
//! figures of different runs without saying so, and it never reports a rate without the result of the check; for a script,
//! it says that there is no check.

#![warn(clippy::missing_errors_doc)]

mod bench;
mod calibrate;
mod circumstances;
mod compare;
mod connection;
mod demo;
mod descriptors;
mod groups;
mod hosts;
mod interrupt;
mod load;
mod machine;
mod ordered;
mod paceline;
mod power_law;
mod progress;
mod record;
mod replicated_servers;
mod report;
mod script;
mod server_stats;
mod session;
mod sharded_servers;
mod show;
mod slow_link;
mod statement;
mod summary;
mod table;
mod target;
mod temporary_server;
mod validity;
mod work;
mod workload;

pub use bench::{Choice, Observer, Plan, Run, Stage, bench};
pub use calibrate::{Calibration, Ceiling, calibrate, ceilings};
pub use compare::{Comparison, compare};
pub use connection::Failure;
pub use demo::Demo;
pub use descriptors::allow as allow_clients;
pub use interrupt::Interrupt;
pub use machine::{Machine, ServerFacts};
pub use paceline::PACELINE_SETTINGS;
pub use progress::Progress;
pub use record::{
    CheckResult, Conditions, Cost, Errors, FailoverResult, GroupSample, Latency, OpenLoop, Ran,
    ReadsResult, Record, RunResult, Trend, TrendPart, VERSION, WithinDeadline, read_lines,
};
pub use report::report;
pub use script::{Script, ScriptError};
pub use statement::Protocol;
pub use summary::{Cell, Failovers, Figures, Period, Reads, Row, Spread, summarize};
pub use table::{all_hold, table};
pub use target::{Host, Target};
pub use work::Work;
pub use workload::failover::Replication;
pub use workload::{SCENARIOS, Scenario, Sizes, Topology, Variant};
