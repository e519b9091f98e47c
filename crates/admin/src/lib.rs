//! The interfaces for operators: console, metrics, log, reload, pause, shutdown.
//!
//! | module | holds |
//! |---|---|
//! | [`admin`], [`commands`] | the commands of operators |
//! | [`console`] | the virtual database `pgbouncer`; a file per table, or for a few, under `console/show` |
//! | [`metrics`] | `/metrics`, `/health`, `/ready` |
//! | [`snapshot`] | the state at one moment, for the web console and `paceline top` |
//! | [`web`] | the web console |
//! | [`reload`], [`config_snapshot`], [`config_source`], [`config_inputs`] | reading and replacing the configuration |
//! | [`log`], [`systemd`], [`file_limit`] | the log; systemd; the limit of open files |
//!
//! A new console column is one line in the file of its table (see `console/table.rs`), a new metric one entry in
//! `metrics/definitions.rs`.

#![warn(clippy::missing_errors_doc)]

pub mod admin;
pub mod commands;
pub mod config_inputs;
pub mod config_snapshot;
pub mod config_source;
pub mod console;
pub mod file_limit;
pub mod log;
pub mod metrics;
mod reload;
pub mod snapshot;
pub mod systemd;
pub mod web;
