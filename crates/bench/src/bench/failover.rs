//! A run with a failover: it has servers of its own, whose primary is killed in the middle of the measured time.

use super::plan::Run;
use super::{Bench, Stage, check, report};
use crate::connection::Connection;
use crate::groups;
use crate::interrupt::TimeLimit;
use crate::load::{self, RunStatus};
use crate::machine::ServerFacts;
use crate::paceline::Paceline;
use crate::record::{Cost, Ran};
use crate::replicated_servers::ReplicatedServers;
use crate::target::Target;
use crate::workload::failover::{Failover, Replication};
use crate::workload::{AnyWorkload, Workload};
use anyhow::Context;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Names of the two targets: clients that look for the primary by themselves, and clients of Paceline.
const DIRECT: &str = "direct";
const PACELINE: &str = "paceline";
/// The primary is killed after this part of the measured time.
const KILLED_AFTER: f64 = 1.0 / 3.0;
/// Limit for a promotion.
const PROMOTION: TimeLimit = TimeLimit {
    limit: Duration::from_secs(60),
    interrupted: Duration::from_secs(15),
};

/// The targets of a plan whose runs start the servers behind them.
pub fn failover_targets() -> Vec<Arc<Target>> {
    let target = |name| Arc::new(Target::on_loopback(name, 0, "postgres", "postgres"));
    vec![target(DIRECT), target(PACELINE)]
}

/// The servers of a run, and the way of its clients to them.
struct Servers {
    /// Dropped before the servers, so that Paceline ends first.
    _paceline: Option<Paceline>,
    replicated: ReplicatedServers,
    target: Arc<Target>,
}

impl Servers {
    async fn start(
        replication: Replication,
        target: &Target,
        clients: usize,
    ) -> anyhow::Result<Self> {
        let replicated = ReplicatedServers::start(replication, clients).await?;
        if target.name != PACELINE {
            return Ok(Self {
                _paceline: None,
                target: Arc::new(replicated.all(&target.name)),
                replicated,
            });
        }
        let program = std::env::current_exe().context("cannot find the program paceline")?;
        let url = replicated.url();
        let start = move || Paceline::start(&program, &url);
        let paceline = tokio::task::spawn_blocking(start).await??;
        let target = Target {
            port: paceline.port(),
            ..target.clone()
        };
        Ok(Self {
            _paceline: Some(paceline),
            replicated,
            target: Arc::new(target),
        })
    }
}

impl<'a> Bench<'a> {
    /// Starts the servers, runs the load with a failover, and checks the new primary. Returns `None` if the run was interrupted
    /// before it began.
    pub(super) async fn fail_over(
        &mut self,
        run: &Run<'a>,
        replication: Replication,
        facts: &mut ServerFacts,
    ) -> anyhow::Result<Option<Ran>> {
        self.observer.on_stage(run, Stage::Preparing);
        let start = Servers::start(replication, run.target, run.clients);
        let mut servers = tokio::select! {
            servers = start => servers?,
            () = self.interrupt.requested() => return Ok(None),
        };
        let mut workload = Failover::new(replication, &self.plan.sizes);
        let mut conn = Connection::open(&servers.replicated.primary()).await?;
        *facts = ServerFacts::of(&mut conn).await?;
        Workload::prepare(&mut workload, &mut conn).await?;
        conn.close().await;
        self.measure(run, &mut servers, &Arc::new(workload)).await
    }

    async fn measure(
        &mut self,
        run: &Run<'a>,
        servers: &mut Servers,
        workload: &Arc<Failover>,
    ) -> anyhow::Result<Option<Ran>> {
        let (interrupt, target) = (self.interrupt, Arc::clone(&servers.target));
        let any: Arc<dyn AnyWorkload> = Arc::clone(workload) as _;
        let load = self.plan.load(run.clients, &*any);
        let status = Arc::new(RunStatus::new(interrupt.clone()));
        let mut samples = Vec::new();
        let watch = async {
            tokio::join!(
                report(self.observer, run, &status),
                groups::watch(&target, &status, &mut samples),
            )
        };
        let killed_after = load.warmup + load.duration.mul_f64(KILLED_AFTER);
        let failover = async {
            let killed_at = status.start_time().await + killed_after;
            tokio::select! {
                () = tokio::time::sleep_until(killed_at.into()) => {}
                () = interrupt.requested() => return Ok(()),
            }
            workload.begin_failover();
            let promotion = async { Ok(servers.replicated.fail_over().await) };
            PROMOTION.with(interrupt, promotion).await?
        };
        let both = async {
            let mut load = pin!(load::run(Arc::clone(&any), &target, &load, &status));
            let mut failover = pin!(failover);
            tokio::select! {
                measured = &mut load => match workload.result() {
                    // It has begun, and takes longer than the load.
                    Some(_) => (measured, failover.await),
                    None => (measured, Ok(())),
                },
                failed_over = &mut failover => (load.await, failed_over),
            }
        };
        let (measured, failed_over) = tokio::select! {
            both = both => both,
            _ = watch => unreachable!("report never returns"),
        };
        let measured = measured?;
        failed_over.context("the failover failed")?;
        if status.started.get().is_none() {
            return Ok(None);
        }
        self.observer.on_stage(run, Stage::Checking);
        let primary = servers.replicated.primary();
        let check = check(&*any, &primary, measured.outcome, interrupt).await;
        Ok(Some(Ran {
            seconds: measured.lasted.as_secs_f64(),
            units: measured.done,
            rate: measured.rate(),
            latency: measured.latency(),
            check: Some(check),
            cost: Cost::default(),
            groups: samples,
            interrupted: interrupt.is_set(),
            open_loop: self.plan.rate.map(|_| measured.open_loop),
            within_deadline: self.plan.within_deadline(&measured),
            failover: workload.result(),
            errors: measured.errors,
        }))
    }
}
