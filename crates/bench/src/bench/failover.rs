//! A run with a failover: it has servers of its own, whose primary is killed in the middle of the measured time.

use super::own_servers::OwnServers;
use super::plan::Run;
use super::{Bench, Stage, check, report};
use crate::connection::Connection;
use crate::groups;
use crate::interrupt::TimeLimit;
use crate::load::{self, RunStatus};
use crate::machine::ServerFacts;
use crate::record::{Cost, Ran};
use crate::workload::failover::{Failover, Replication};
use crate::workload::{AnyWorkload, Workload};
use anyhow::Context;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// The primary is killed after this part of the measured time.
const KILLED_AFTER: f64 = 1.0 / 3.0;
/// Limit for a promotion.
const PROMOTION: TimeLimit = TimeLimit {
    limit: Duration::from_secs(60),
    interrupted: Duration::from_secs(15),
};

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
        let mut workload = Failover::new(replication, &self.plan.sizes);
        let prepare = async {
            let Run {
                choice,
                target,
                clients,
                ..
            } = *run;
            let servers = OwnServers::start(replication, &choice.work, target, clients).await?;
            let mut conn = Connection::open(&servers.primary()).await?;
            *facts = ServerFacts::of(&mut conn).await?;
            Workload::prepare(&mut workload, &mut conn).await?;
            conn.close().await;
            servers.await_replicas().await?;
            anyhow::Ok(servers)
        };
        let mut servers = tokio::select! {
            servers = prepare => servers?,
            () = self.interrupt.requested() => return Ok(None),
        };
        self.measure(run, &mut servers, &Arc::new(workload)).await
    }

    async fn measure(
        &mut self,
        run: &Run<'a>,
        servers: &mut OwnServers,
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
            let promotion = async { Ok(servers.fail_over().await) };
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
        let reads = match any.reads() {
            Some(reads) => Some(servers.reads(reads).await),
            None => None,
        };
        self.observer.on_stage(run, Stage::Checking);
        let primary = servers.primary();
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
            reads,
            trend: None,
            errors: measured.errors,
        }))
    }
}
