//! Databases with several servers: how Paceline finds the primary, and how long requests wait in a failover.

use super::form::{secret, text, timeout, urls};
use super::key::{DATABASES_ONLY, section};
use crate::secret::Secret;
use std::time::Duration;

section! {
    /// Databases with several servers.
    pub struct Servers {
        /// How long requests wait for a new primary after the old one was lost; 0 does not wait
        failover_timeout: Duration = Duration::from_secs(30), timeout(), overridden(DATABASES_ONLY);
        /// REST APIs of Patroni, which must agree with the choice of the primary; "" for none
        patroni: Vec<String> = Vec::new(), urls(), overridden(DATABASES_ONLY);
        /// The user as which Paceline asks servers for their state, a member of pg_monitor; "" is the user of the URL
        monitor_user: String = String::new(), text(), overridden(DATABASES_ONLY);
        /// The password of monitor_user; "" for none
        monitor_password: Option<Secret> = None, secret(), overridden(DATABASES_ONLY);
    }
}
