//! The work of the clients of a run: a variant of a scenario with its own tables and a check, on named servers or on those that
//! the run starts; a script of a user without either; or the load of a failover.

use crate::connection::{Connection, Result};
use crate::script::{Program, Script};
use crate::workload::failover::{Failover, Replication};
use crate::workload::{AnyWorkload, Sizes, Topology, Variant, schema};
use std::sync::Arc;

/// The work of clients.
#[derive(Debug, Clone)]
pub enum Work {
    /// A variant of a scenario.
    Variant(Variant),
    /// A variant of a scenario, on a primary with two replicas that the run starts.
    OnReplicas(Variant),
    /// A variant of a scenario, on a coordinator with two shards that the run starts.
    OnShards(Variant),
    /// A script of a user, which brings its own tables.
    Script(Arc<Script>),
    /// The load of a failover, on servers that the run starts.
    Failover(Replication),
}

impl Work {
    /// Name in results.
    pub fn name(&self) -> &str {
        match self {
            Self::Variant(variant) | Self::OnReplicas(variant) | Self::OnShards(variant) => {
                variant.name
            }
            Self::Script(script) => script.name(),
            Self::Failover(replication) => replication.name(),
        }
    }

    /// Whether each run starts its own servers.
    pub(crate) fn starts_servers(&self) -> bool {
        matches!(
            self,
            Self::OnReplicas(_) | Self::OnShards(_) | Self::Failover(_)
        )
    }

    /// Whether the lab starts a thin link with two Pacelines for the work, unless targets are named.
    pub fn is_behind_a_thin_link(&self) -> bool {
        matches!(self, Self::Variant(variant) if variant.topology == Topology::ThinLink)
    }

    /// Further settings of the Paceline that the lab starts.
    pub fn settings(&self) -> &'static [&'static str] {
        match self {
            Self::Variant(variant) => variant.settings,
            Self::OnReplicas(_) | Self::OnShards(_) | Self::Script(_) | Self::Failover(_) => &[],
        }
    }

    /// Whether the work uses only the schema of the lab. Only then there is a check.
    pub(crate) fn is_on_own_schema(&self) -> bool {
        matches!(
            self,
            Self::Variant(_) | Self::OnReplicas(_) | Self::OnShards(_)
        )
    }

    /// Brings the tables of a variant into the state in which a run starts. Does nothing for a script.
    pub(crate) async fn prepare(
        &self,
        sizes: &Sizes,
        conn: &mut Connection,
    ) -> Result<Arc<dyn AnyWorkload>> {
        let mut workload: Box<dyn AnyWorkload> = match self {
            Self::Variant(variant) | Self::OnReplicas(variant) | Self::OnShards(variant) => {
                schema::open(conn).await?;
                (variant.build)(sizes)
            }
            Self::Script(script) => Box::new(Program::new(script, sizes.protocol)),
            Self::Failover(replication) => Box::new(Failover::new(*replication, sizes)),
        };
        workload.prepare(conn).await?;
        Ok(workload.into())
    }
}
