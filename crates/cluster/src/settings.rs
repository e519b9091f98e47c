//! What an operator decides about the hosts of one database.

use std::time::Duration;

/// The settings of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// Paceline's own zone.
    pub zone: Option<String>,
    /// A replica that is further behind is not in use; `None` is no limit.
    pub max_lag: Option<Duration>,
    /// How long requests wait for a new primary after the old one was lost.
    pub failover_timeout: Duration,
    /// What happens to reads if no replica is in use.
    pub replicas_gone: ReplicasGone,
    /// How reads choose between replicas.
    pub balance: Balance,
    /// Whether Patroni must agree with the choice of the primary.
    pub patroni: bool,
}

/// What happens to a read for replicas if none is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicasGone {
    /// The primary serves it.
    Primary,
    /// The client gets an error.
    Error,
}

/// How reads choose between replicas that are fresh enough and equally near.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Balance {
    /// The one with the fewest outstanding requests.
    LeastOutstanding,
    /// The first in the configured order.
    InOrder,
}
