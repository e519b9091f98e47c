//! The configuration for the hosts of one database.

use std::time::Duration;

/// The settings of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// Time that requests wait for a new primary after the old one was lost; zero does not wait.
    pub failover_timeout: Duration,
    /// Whether Patroni must agree with the choice of the primary.
    pub patroni: bool,
}
