//! The work of the clients of a run: a variant of a scenario with its own tables and a check, or a script of a user
//! without either.

use crate::connection::{Connection, Failure};
use crate::load::MakeClient;
use crate::script::{Program, Script};
use crate::workload::{Sizes, Variant, Workload, schema};
use std::sync::Arc;

/// The work of clients.
#[derive(Debug, Clone)]
pub enum Work {
    /// A variant of a scenario.
    Variant(Variant),
    /// A script of a user, which brings its own tables.
    Script(Arc<Script>),
}

impl Work {
    /// Name in results.
    pub fn name(&self) -> &str {
        match self {
            Self::Variant(variant) => variant.name,
            Self::Script(script) => script.name(),
        }
    }

    /// Whether the work uses only the schema of the lab.
    pub(crate) fn is_on_own_schema(&self) -> bool {
        matches!(self, Self::Variant(_))
    }

    /// Brings the tables of a variant into the state in which a run starts. Does nothing for a script.
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

/// Work that is ready to run.
pub(crate) enum Prepared {
    /// A variant of a scenario.
    Workload(Arc<dyn Workload>),
    /// A script.
    Program(Arc<Program>),
}

impl Prepared {
    /// Creates the clients.
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

    /// The number of clients, out of `clients`, that do units of work.
    pub(crate) fn active_clients(&self, clients: usize) -> usize {
        match self {
            Self::Workload(workload) => workload.active_clients(clients),
            Self::Program(_) => clients,
        }
    }

    /// The number of connections that the clients share; `None` gives each client its own.
    pub(crate) fn shared_connections(&self) -> Option<usize> {
        match self {
            Self::Workload(workload) => workload.shared_connections(),
            Self::Program(_) => None,
        }
    }
}
