//! Statements that run on a shard instead of the coordinator.

use super::{Client, ClientEnd};
use bytes::BytesMut;
use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::strategy::PlannedRequest;
use paceline_batch::strategy::share::ANSWER_BYTES_MAX;
use paceline_pool::messages;
use paceline_pool::pool::{AnalysisState, DisconnectSignal, SubmitResult, WaitResult};
use paceline_pool::routing::RouteRefusal;
use paceline_pool::sharding::ShardStatement;
use paceline_relay::request::Request;
use paceline_sql::Effect;
use paceline_wire::Frames;
use paceline_wire::backend::tag;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// The end of a statement that might run on a shard.
pub(super) enum ShardEnd {
    /// Its client has the answer.
    Answered,
    /// No shard has done anything, and the coordinator executes it; if the shard cannot be reached, with a permission to be kept meanwhile.
    Coordinator(Option<OwnedSemaphorePermit>),
}

impl Client {
    /// Whether a statement may run on a shard, if its analysis permits it.
    pub(super) fn may_use_shard(&self, request: &Request) -> bool {
        let shards = self.shards.load();
        let shards = shards.as_ref().filter(|_| self.deferred.is_none());
        shards.is_some_and(|shards| shards.may_route(request))
    }

    /// Has the shard of a statement execute it, if it may run there by its analysis: the last one, while it cannot be repeated. In a
    /// transaction that has not begun, the coordinator executes it.
    pub(super) async fn try_shard(
        &mut self,
        last: Option<&Arc<TemplateAnalysis>>,
        state: &AnalysisState,
        request: &PlannedRequest,
    ) -> Result<ShardEnd, ClientEnd> {
        let analysis = match (last, state) {
            (Some(analysis), _) | (None, AnalysisState::Done(analysis)) => analysis,
            _ => return Ok(ShardEnd::Coordinator(None)),
        };
        if self.deferred.is_some() {
            return Ok(ShardEnd::Coordinator(None));
        }
        let mut may_try_again = true;
        let (is_outage, shards) = loop {
            let Some(shards) = self.shards.load_full() else {
                return Ok(ShardEnd::Coordinator(None));
            };
            match shards.route(request, analysis) {
                Ok(mut statement) => {
                    if let Some(read) = self.replica_read_on_shard(&mut statement, request) {
                        let on_shard = Arc::new(statement.request);
                        if self.read_on_replica(read, request, &on_shard).await? {
                            return Ok(ShardEnd::Answered);
                        }
                        statement.request = Arc::unwrap_or_clone(on_shard);
                    }
                    let pool = Arc::clone(&statement.pool);
                    if self.run_on_shard(statement, request).await? {
                        return Ok(ShardEnd::Answered);
                    }
                    // A read that was lost with the primary of a shard waits for the next primary; once, as it may be what ends servers.
                    if pool.hosts().is_none() || pool.is_unreachable() || !may_try_again {
                        break (pool.is_unreachable(), shards);
                    }
                    may_try_again = false;
                }
                Err(why) => {
                    if let Some(stats) = &request.stats {
                        let shown = || (why != RouteRefusal::NotSharded).then(|| why.to_string());
                        stats.count_on_coordinator(shown);
                    }
                    break (why.is_outage(), shards);
                }
            }
        };
        if !is_outage {
            return Ok(ShardEnd::Coordinator(None));
        }
        let permit = shards.outage_permit();
        if permit.is_none() {
            self.send_answer(messages::no_shard(), true).await?;
            return Ok(ShardEnd::Answered);
        }
        Ok(ShardEnd::Coordinator(permit))
    }

    /// Has a shard execute a statement. False: the shard has done nothing, and the coordinator executes it.
    async fn run_on_shard(
        &mut self,
        statement: ShardStatement,
        request: &PlannedRequest,
    ) -> Result<bool, ClientEnd> {
        let ShardStatement {
            pool,
            request: on_shard,
            replicas,
            map,
        } = statement;
        let reads = on_shard.template.effect() == Some(&Effect::Read);
        let (waiter, receiver) = match pool.submit(self.admission, on_shard) {
            SubmitResult::Waiting(waiter, receiver) => (waiter, receiver),
            SubmitResult::Full(answer) => {
                self.send_answer(answer.into(), true).await?;
                return Ok(true);
            }
            SubmitResult::Unreachable => return Ok(false),
        };
        let result = self.wait_in(&pool, waiter, receiver, reads).await?;
        self.shard_served(replicas.as_deref(), map);
        let Some(result) = result else {
            // The group has ended without a result. A write may have been committed.
            return match reads {
                true => Ok(false),
                false => Err(ClientEnd::Error(messages::connection_lost())),
            };
        };
        self.note_group_answer(request, &result);
        match result {
            WaitResult::Answer(answer) => {
                if answer.len() > ANSWER_BYTES_MAX {
                    // The coordinator's connection does not keep the next one.
                    let bytes = u32::try_from(answer.len()).unwrap_or(u32::MAX);
                    request.template.pace.record(0, bytes);
                }
                let failed = Frames::new(&answer).any(|frame| frame.tag == tag::ERROR_RESPONSE);
                self.send_answer(BytesMut::from(answer), failed).await?;
                Ok(true)
            }
            WaitResult::Fatal(message) | WaitResult::QueryTimeout(message) => {
                Err(ClientEnd::Error(message))
            }
            WaitResult::Server(server) => {
                server.give_back();
                Ok(false)
            }
            WaitResult::Elsewhere => {
                if let Some(shards) = &*self.shards.load() {
                    shards.suspect();
                }
                let signal = *self.disconnect.borrow();
                match signal {
                    DisconnectSignal::Killed => Err(ClientEnd::Error(signal.message())),
                    _ => Ok(false),
                }
            }
            WaitResult::OfReplica(..) | WaitResult::Queued(_) | WaitResult::PlainRead(_) => {
                Ok(false)
            }
        }
    }
}
