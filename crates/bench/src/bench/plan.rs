//! The plan of a bench: which work runs on which targets, with how many clients, in which order.

use super::own_servers;
use crate::load::{Arrivals, LoadOptions, Measured};
use crate::record::{Conditions, WithinDeadline};
use crate::script::{self, Script};
use crate::target::Target;
use crate::work::Work;
use crate::workload::failover::{self, Replication};
use crate::workload::{AnyWorkload, Scenario, Sizes, Topology, Variant};
use std::sync::Arc;
use std::time::Duration;

/// The runs of a bench.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The targets, in the order in which the first round runs them, of choices that have none of their own.
    pub targets: Vec<Arc<Target>>,
    /// The work of the clients.
    pub choices: Vec<Choice>,
    /// Time before each measurement begins.
    pub warmup: Duration,
    /// Measured time of each run.
    pub duration: Duration,
    /// Number of rounds.
    pub rounds: usize,
    /// Turns per second of all active clients together; `None`: each client begins its next turn when it has the answer.
    pub rate: Option<f64>,
    /// Pause of each client between turns.
    pub think: Duration,
    /// Requests that are answered within this time are counted; `None` counts none.
    pub deadline: Option<Duration>,
    /// Sizes of tables, protocol and seed.
    pub sizes: Sizes,
    /// Number of threads of the load.
    pub threads: usize,
    /// Keep the tables after the last run.
    pub keep_tables: bool,
    /// The command line that repeats the bench, without passwords.
    pub command: String,
}

/// The work of the clients, and the numbers of clients to run it with.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The scenario of the work; all scripts share one.
    pub scenario: Scenario,
    /// The work of the clients.
    pub work: Work,
    /// Numbers of clients, one run for each.
    pub clients: Vec<usize>,
    /// The targets of this choice only: their servers start with each run, or their Paceline has further settings. Empty: those
    /// of the plan.
    pub own_targets: Vec<Arc<Target>>,
}

impl Choice {
    /// A variant of a scenario. If it needs replicas and no targets are named, each run starts them.
    pub fn of_variant(
        scenario: &Scenario,
        variant: &Variant,
        clients: &[usize],
        has_targets: bool,
    ) -> Self {
        let work = match variant.topology {
            Topology::Replicated if !has_targets => Work::OnReplicas(*variant),
            Topology::Sharded if !has_targets => Work::OnShards(*variant),
            Topology::Replicated | Topology::Sharded | Topology::Single | Topology::ThinLink => {
                Work::Variant(*variant)
            }
        };
        Self::new(*scenario, work, clients)
    }

    /// A script, run with these numbers of clients, or with the default number if there are none.
    pub fn of_script(script: Arc<Script>, clients: &[usize]) -> Self {
        let clients = match clients {
            [] => script::SCENARIO.clients,
            given => given,
        };
        Self::new(script::SCENARIO, Work::Script(script), clients)
    }

    /// A failover with this replication, run with these numbers of clients, or with the default number if there are none.
    pub fn of_failover(replication: Replication, clients: &[usize]) -> Self {
        let clients = match clients {
            [] => failover::SCENARIO.clients,
            given => given,
        };
        Self::new(failover::SCENARIO, Work::Failover(replication), clients)
    }

    fn new(scenario: Scenario, work: Work, clients: &[usize]) -> Self {
        Self {
            scenario,
            own_targets: own_servers::targets(&work),
            work,
            clients: clients.to_vec(),
        }
    }

    /// Whether each run starts its own servers.
    pub fn starts_servers(&self) -> bool {
        self.work.starts_servers()
    }

    /// Further settings of the Paceline that the lab has started for this choice.
    pub(super) fn settings(&self) -> Vec<String> {
        match self.own_targets.is_empty() {
            true => Vec::new(),
            false => Vec::from_iter(self.work.settings().iter().map(|&one| one.to_owned())),
        }
    }
}

/// A run, as an observer sees it.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The work.
    pub choice: &'a Choice,
    /// The target.
    pub target: &'a Arc<Target>,
    /// Number of clients.
    pub clients: usize,
    /// Number of the round, counted from 1.
    pub round: usize,
    /// Number of the run, counted from 1.
    pub number: usize,
    /// Number of runs in total.
    pub of: usize,
    /// Minimum duration of this run and the later ones.
    pub left: Duration,
}

impl Plan {
    /// The number of clients of the largest run.
    pub fn most_clients(&self) -> usize {
        let all = self.choices.iter().flat_map(|choice| &choice.clients);
        all.copied().max().unwrap_or_default()
    }

    /// Whether some runs start their own servers.
    pub fn starts_servers(&self) -> bool {
        self.choices.iter().any(Choice::starts_servers)
    }

    /// All runs, in the order in which they execute.
    pub(super) fn runs(&self) -> Vec<Run<'_>> {
        let mut runs = Vec::new();
        for choice in &self.choices {
            let rounds = |&clients| (1..=self.rounds).map(move |round| (clients, round));
            for (clients, round) in choice.clients.iter().flat_map(rounds) {
                let run = |target| Run {
                    choice,
                    target,
                    clients,
                    round,
                    number: 0,
                    of: 0,
                    left: Duration::ZERO,
                };
                let targets = match choice.own_targets.is_empty() {
                    true => &self.targets,
                    false => &choice.own_targets,
                };
                match round % 2 {
                    0 => runs.extend(targets.iter().rev().map(run)),
                    _ => runs.extend(targets.iter().map(run)),
                }
            }
        }
        let of = runs.len();
        for (number, run) in (1..).zip(&mut runs) {
            let left = u32::try_from(of + 1 - number).unwrap_or(u32::MAX);
            (run.number, run.of) = (number, of);
            run.left = (self.warmup + self.duration) * left;
        }
        runs
    }

    pub(super) fn load(&self, clients: usize, workload: &dyn AnyWorkload) -> LoadOptions {
        LoadOptions {
            clients,
            threads: self.threads,
            warmup: self.warmup,
            duration: self.duration,
            arrivals: match self.rate {
                Some(rate) => Arrivals::Open {
                    rate: rate / workload.active_clients(clients).max(1) as f64,
                },
                None => Arrivals::Closed { think: self.think },
            },
            seed: self.sizes.seed,
            deadline: self.deadline,
        }
    }

    /// The requests within the deadline, if there is one.
    pub(super) fn within_deadline(&self, measured: &Measured) -> Option<WithinDeadline> {
        self.deadline.map(|deadline| WithinDeadline {
            seconds: deadline.as_secs_f64(),
            ..measured.within_deadline
        })
    }

    pub(super) fn conditions(&self) -> Conditions {
        Conditions {
            warmup_seconds: self.warmup.as_secs_f64(),
            duration_seconds: self.duration.as_secs_f64(),
            rate: self.rate,
            think_seconds: self.think.as_secs_f64(),
            protocol: self.sizes.protocol.name().to_owned(),
            rows: self.sizes.rows,
            full: self.sizes.full,
            seed: self.sizes.seed,
            threads: self.threads,
            stand: Vec::new(),
            command: self.command.clone(),
        }
    }
}
