//! The admin console: the virtual databases `pgbouncer` and `paceline`, with PgBouncer's commands. `docs/console.md` describes it.
//!
//! It answers by the simple and by the extended protocol, and never asks a server. What changes how Paceline runs is an
//! [`AdminCommand`](crate::commands::AdminCommand).

mod command;
mod execute;
mod refusal;
mod session;
mod show;
mod table;
#[cfg(test)]
mod tests;
mod version;

pub use session::run;
pub use version::VERSION;
