//! The version that the console reports.

/// The version of PgBouncer whose commands and columns the console has.
pub(super) const PGBOUNCER_VERSION: &str = "1.25.0";

/// PgBouncer's version and Paceline's. `SHOW VERSION` writes `PgBouncer` before it.
pub const VERSION: &str = concat!("1.25.0 (Paceline ", env!("CARGO_PKG_VERSION"), ")");
