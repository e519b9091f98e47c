//! The reasons why server connections are closed, in PgBouncer's words.

/// RECONNECT, or a reload has changed the address.
pub(crate) const CONFIGURATION_CHANGED: &str = "database configuration changed";
/// The primary of a database with several hosts is lost, or another host.
pub(crate) const PRIMARY_CHANGED: &str = "the primary has changed";
/// A replica may not serve reads any more.
pub(crate) const REPLICA_LOST: &str = "the replica serves no reads";
/// `PAUSE`.
pub(crate) const PAUSE_MODE: &str = "pause mode";
/// `KILL`.
pub(crate) const DATABASE_REMOVED: &str = "database removed";
/// The process shuts down.
pub(crate) const SHUTTING_DOWN: &str = "shutting down";
/// The pool has more connections than its limit.
pub const TOO_MANY: &str = "too many servers in the pool";
/// Another pool, or a replication client, needs the slot.
pub(crate) const EVICTED: &str = "evicted";
/// `server_lifetime`.
pub(crate) const LIFETIME_OVER: &str = "server lifetime over";
/// `server_idle_timeout`.
pub(crate) const IDLE_TIMEOUT: &str = "server idle timeout";
/// `server_check_query` failed.
pub(crate) const CHECK_FAILED: &str = "test query failed";
/// `server_reset_query` failed.
pub const RESET_FAILED: &str = "reset query failed";
/// A group got no answer within `query_timeout`.
pub(crate) const QUERY_TIMEOUT: &str = "query timeout";
/// The server or the network closed the connection.
pub(crate) const LOST: &str = "server conn crashed?";
/// The server has not confirmed a cancel request, which could reach the next client's statement.
pub const CANCEL_PENDING: &str = "cancel request not confirmed";
/// The client disconnected in the middle of a transaction or an answer.
pub(crate) const CLIENT_LEFT: &str = "client disconnect while server was not ready";
/// The state of the connection is unknown.
pub(crate) const UNCLEAN: &str = "unclean server";
/// The connection is not used any longer.
pub(crate) const NOT_NEEDED: &str = "no longer needed";
