//! The admin console: the virtual databases `pgbouncer` and `paceline`, with PgBouncer's commands. `docs/console.md` describes it.
//!
//! It answers by the simple and by the extended protocol, and never asks a server. What changes how Paceline runs is an
//! [`Order`](crate::control::Order), carried out elsewhere.

mod access;
mod command;
mod operators;
mod perform;
mod session;
mod show;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use access::{Access, enter};
pub(crate) use operators::{Operators, Pass};
pub(crate) use session::Session;

use paceline_wire::ErrorResponse;

/// The version of PgBouncer whose commands and columns these are.
const PGBOUNCER_VERSION: &str = "1.25.0";

/// The same, and what it is in truth; PgBouncer writes its name in front of it.
pub(crate) const VERSION: &str = concat!("1.25.0 (Paceline ", env!("CARGO_PKG_VERSION"), ")");

/// An error as PgBouncer's console gives it.
fn refusal(message: impl Into<String>) -> ErrorResponse {
    ErrorResponse::error("08P01", message)
}
