//! What operators see and do: console, metrics, log, reload, pause, shutdown.
//!
//! | module | holds |
//! |---|---|
//! | [`admin`], [`commands`] | the commands of an operator |
//! | [`console`] | the virtual database, a file per table under `console/show` |
//! | [`metrics`] | `/metrics`, `/health`, `/ready` |
//! | [`reload`], [`config_snapshot`], [`config_source`] | reading the configuration again |
//! | [`log`], [`systemd`] | where messages go |

#![warn(clippy::missing_errors_doc)]

pub mod admin;
pub mod commands;
pub mod config_snapshot;
pub mod config_source;
pub mod console;
pub mod file_limit;
pub mod log;
pub mod metrics;
mod reload;
pub mod source;
pub mod systemd;
