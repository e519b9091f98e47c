//! The state of the hosts of one database, and the decisions that follow from it: the primary, the wait during a failover, and the use of
//! each host.
//!
//! The crate has no sockets, no clock and no randomness. A monitor probes the hosts and hands its [`Observation`]s to
//! [`Cluster`], which keeps them and returns [`Event`]s; time is an argument. Roles are discovered, never configured.

mod choice;
mod cluster;
mod commits;
mod health;
mod history;
mod host;
mod observation;
mod patroni;
mod position;
mod promotion;
mod settings;
mod subscriber;
mod subscribers;
mod subscription;
mod usage;

#[cfg(test)]
mod tests;

pub use choice::PrimaryTarget;
pub use cluster::{Cluster, Event};
pub use commits::{
    AskedAt, CommitCounter, CommitLog, LostCommits, ReplacedTimeline, SentAt, SwitchPoint,
    WalPosition,
};
pub use health::{Health, PROBES_TO_RETURN, TIME_TO_RETURN};
pub use history::{HistoryError, TimelineHistories, TimelineHistory};
pub use host::{HostAddress, HostId, HostRole, HostSpec, HostStatus, Lag, Reason};
pub use observation::{HostReport, Observation, ProbeError};
pub use patroni::{PatroniError, PatroniMember, PatroniView};
pub use position::{Lsn, Position, PositionError, SystemId, Timeline, WalSizes};
pub use settings::ClusterSettings;
pub use subscriber::SubscriberSpec;
pub use subscribers::ReadableSubscriber;
pub use subscription::{
    CatalogFacts, ColumnFacts, PublicationFacts, SUBSCRIBER_VERSION_MIN, SlotFacts, StatementNames,
    SubscribedState, SubscribedTable, SubscribedTables, SubscriberProblem, SubscriberReport,
    SubscriptionFacts, TableFacts, TableName, UserDefinedNames, UserFacts,
};
pub use usage::ReadableReplica;
