//! Settings of a shard that replace those of the coordinator's catalog.

use crate::hosts::Host;
use crate::password::PasswordSource;

/// A foreign server of the coordinator. For `None`, the catalog's value applies.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardServer {
    /// Its name on the coordinator.
    pub server: String,
    /// Its hosts. If there are several, one of them is the primary, and the others are its replicas.
    pub hosts: Option<Vec<Host>>,
    /// One port for each host, or one for all.
    pub ports: Option<Vec<u16>>,
    /// The database there.
    pub dbname: Option<String>,
    /// The user of all roles that have a user mapping, and of the monitor.
    pub user: Option<String>,
    /// The password of this user.
    pub password: Option<PasswordSource>,
}
