//! Why connections to servers are closed, in PgBouncer's words.

/// An operator or a reload wants it replaced.
pub const CONFIGURATION_CHANGED: &str = "database configuration changed";
/// `PAUSE`.
pub const PAUSE_MODE: &str = "pause mode";
/// `KILL`.
pub const DATABASE_REMOVED: &str = "database removed";
/// The process ends.
pub const SHUTTING_DOWN: &str = "shutting down";
/// It is one more than the pool may have.
pub const TOO_MANY: &str = "too many servers in the pool";
/// Another pool, or a replication client, needs its place.
pub const EVICTED: &str = "evicted";
/// It has served for `server_lifetime`.
pub const LIFETIME_OVER: &str = "server lifetime over";
/// It has been unused for `server_idle_timeout`.
pub const IDLE_TIMEOUT: &str = "server idle timeout";
/// `server_check_query` failed.
pub const CHECK_FAILED: &str = "test query failed";
/// `server_reset_query` failed.
pub const RESET_FAILED: &str = "reset query failed";
/// A group had no answer within `query_timeout`.
pub const QUERY_TIMEOUT: &str = "query timeout";
/// The server or the network has ended it.
pub const LOST: &str = "server conn crashed?";
/// Its client has left in the middle of a transaction or an answer.
pub const CLIENT_LEFT: &str = "client disconnect while server was not ready";
/// Its state is not known.
pub const UNCLEAN: &str = "unclean server";
/// There is no other reason.
pub const NOT_NEEDED: &str = "no longer needed";
