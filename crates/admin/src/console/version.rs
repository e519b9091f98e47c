//! The version that the console shows.

/// The version of PgBouncer whose commands and columns the console has.
pub(super) const PGBOUNCER_VERSION: &str = "1.25.0";

/// The same, with Paceline's version; PgBouncer writes its name in front of it.
pub const VERSION: &str = concat!("1.25.0 (Paceline ", env!("CARGO_PKG_VERSION"), ")");
