//! The admin console: the virtual databases `pgbouncer` and `paceline`, with PgBouncer's commands. `docs/console.md` describes it.
//!
//! The console answers in the simple and the extended protocol, and sends nothing to servers. Commands that change how Paceline
//! runs are [`AdminCommand`](crate::commands::AdminCommand)s.
//!
//! `table` says how to add a column or a table.

mod command;
mod error;
mod execute;
mod session;
mod show;
mod table;
#[cfg(test)]
mod tests;
mod version;

pub use session::run;
pub(crate) use show::find as table;
pub(crate) use table::ConsoleValue;
pub use version::VERSION;
