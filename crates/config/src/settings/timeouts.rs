//! Limits of time.

use super::form::timeout;
use super::key::{ALL_TABLES, ALL_USERS, DATABASES_ONLY, section};
use std::time::Duration;

section! {
    /// Limits of time.
    pub struct Timeouts {
        /// A client that waits longer than this for a server connection is disconnected; 0 is no limit
        query_wait_timeout: Duration = Duration::from_secs(120), timeout(), overridden(ALL_TABLES), pgbouncer("120");
        /// A client that waits longer than this for a server connection gets a NOTICE; 0 never does
        query_wait_notify: Duration = Duration::from_secs(5), timeout(), pgbouncer("5");
        /// A client whose query runs longer than this is disconnected, and the query is cancelled; 0 is no limit
        query_timeout: Duration = Duration::ZERO, timeout(), overridden(ALL_USERS), pgbouncer("0");
        /// A client whose transaction lasts longer than this is disconnected; 0 is no limit
        transaction_timeout: Duration = Duration::ZERO, timeout(), overridden(ALL_USERS), pgbouncer("0");
        /// A client that is idle for this time inside a transaction is disconnected; 0 is no limit
        idle_transaction_timeout: Duration = Duration::ZERO, timeout(), overridden(ALL_USERS), pgbouncer("0");
        /// A client that is idle for this time outside a transaction is disconnected; 0 is no limit
        client_idle_timeout: Duration = Duration::ZERO, timeout(), overridden(ALL_USERS), pgbouncer("0");
        /// An attempt to connect and log in to the server ends after this time; 0 is no limit
        server_connect_timeout: Duration = Duration::from_secs(15), timeout(), pgbouncer("15");
        /// Longest pause between two attempts to open a connection while a pool has none; clients wait meanwhile. If
        /// the server rejects the login, clients that connect within this time get the server's error without another
        /// attempt. 0 is a pause of 10 ms, and another attempt for each client that connects after such an error
        server_login_retry: Duration = Duration::from_secs(15), timeout(), pgbouncer("15");
        /// Age after which a server connection is closed as soon as no client uses it; 0 closes it after its first use
        server_lifetime: Duration = Duration::from_secs(3600), timeout(), overridden(DATABASES_ONLY), pgbouncer("3600");
        /// A server connection that is unused for this time is closed; 0 keeps it
        server_idle_timeout: Duration = Duration::from_secs(600), timeout(), pgbouncer("600");
        /// A database without an entry of its own (`*`) is forgotten, with its statistics, after this time without
        /// clients and server connections; 0 keeps it
        autodb_idle_timeout: Duration = Duration::from_secs(3600), timeout(), pgbouncer("3600");
        /// A cancel request that the server has not accepted after this time is dropped, and its server connection is closed at the end of the request; 0 is no limit
        cancel_wait_timeout: Duration = Duration::from_secs(10), timeout(), pgbouncer("10");
    }
}
