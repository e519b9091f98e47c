//! What the clients of a run do: a variant of a scenario, with tables of its own and a check, or a user's own script, with
//! neither.

use crate::connection::{Connection, Failure};
use crate::load::MakeClient;
use crate::script::{Program, Script};
use crate::workload::{Sizes, Variant, Workload, schema};
use std::sync::Arc;

/// What clients do.
#[derive(Debug, Clone)]
pub enum Work {
    /// A variant of a scenario.
    Variant(Variant),
    /// A script, on tables that are its author's business.
    Script(Arc<Script>),
}

impl Work {
    /// As results show it.
    pub fn name(&self) -> &str {
        match self {
            Self::Variant(variant) => variant.name,
            Self::Script(script) => script.name(),
        }
    }

    /// Whether it works on the lab's own schema, and no other.
    pub(crate) fn is_on_own_schema(&self) -> bool {
        matches!(self, Self::Variant(_))
    }

    /// Brings the tables of a variant into the state from which a run starts; does nothing for a script.
    pub(crate) async fn prepare(
        &self,
        sizes: &Sizes,
        conn: &mut Connection,
    ) -> Result<Prepared, Failure> {
        Ok(match self {
            Self::Variant(variant) => {
                schema::open(conn).await?;
                let mut workload = (variant.build)(sizes);
                workload.prepare(conn).await?;
                Prepared::Workload(workload.into())
            }
            Self::Script(script) => {
                Prepared::Program(Arc::new(Program::new(script, sizes.protocol)))
            }
        })
    }
}

/// Work that can begin.
pub(crate) enum Prepared {
    /// Of a scenario.
    Workload(Arc<dyn Workload>),
    /// Of a script.
    Program(Arc<Program>),
}

impl Prepared {
    /// Makes the clients.
    pub(crate) fn clients(&self) -> Arc<MakeClient> {
        match self {
            Self::Workload(workload) => {
                let workload = Arc::clone(workload);
                Arc::new(move |number, rng| workload.client(number, rng))
            }
            Self::Program(program) => {
                let program = Arc::clone(program);
                Arc::new(move |number, rng| program.client(number, rng))
            }
        }
    }

    /// How many of so many clients do units of work.
    pub(crate) fn active_clients(&self, clients: usize) -> usize {
        match self {
            Self::Workload(workload) => workload.active_clients(clients),
            Self::Program(_) => clients,
        }
    }

    /// Connections that the clients share; `None`: each has its own.
    pub(crate) fn shared_connections(&self) -> Option<usize> {
        match self {
            Self::Workload(workload) => workload.shared_connections(),
            Self::Program(_) => None,
        }
    }
}
