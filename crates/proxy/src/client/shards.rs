//! Statements that run on a shard instead of the coordinator.

use super::{Client, ClientEnd};
use bytes::BytesMut;
use paceline_batch::strategy::PlannedRequest;
use paceline_pool::pool::{AnalysisState, DisconnectSignal, WaitResult};
use paceline_pool::routing::RouteRefusal;
use paceline_pool::sharding::ShardStatement;
use paceline_relay::request::Request;
use paceline_sql::Effect;
use paceline_wire::Frames;
use paceline_wire::backend::tag;

impl Client {
    /// Whether a statement may run on a shard, if its analysis permits it.
    pub(super) fn may_use_shard(&self, request: &Request) -> bool {
        let shards = self.shards.load();
        let shards = shards.as_ref().filter(|_| self.deferred.is_none());
        shards.is_some_and(|shards| shards.may_route(request))
    }

    /// The statement on its shard, if it may run there. In a transaction that has not begun, the coordinator executes it.
    pub(super) fn shard_statement(
        &self,
        state: &AnalysisState,
        request: &PlannedRequest,
    ) -> Option<ShardStatement> {
        let shards = self.shards.load();
        let shards = shards.as_ref()?;
        let AnalysisState::Done(analysis) = state else {
            return None;
        };
        if self.deferred.is_some() || self.is_serializable() {
            return None;
        }
        match shards.route(request, analysis) {
            Ok(statement) => Some(statement),
            Err(why) => {
                if let Some(stats) = &request.stats {
                    let shown = || (why != RouteRefusal::NotSharded).then(|| why.to_string());
                    stats.count_on_coordinator(shown);
                }
                None
            }
        }
    }

    /// Has a shard execute a statement. False: the shard has done nothing, and the coordinator executes it.
    pub(super) async fn run_on_shard(
        &mut self,
        statement: ShardStatement,
        request: &PlannedRequest,
    ) -> Result<bool, ClientEnd> {
        let ShardStatement {
            pool,
            request: on_shard,
        } = statement;
        let reads = on_shard.template.effect() == Some(&Effect::Read);
        let Some((waiter, receiver)) = pool.submit(on_shard) else {
            return Ok(false);
        };
        let Some(result) = self.wait_in(&pool, waiter, receiver, reads).await? else {
            return Ok(false);
        };
        self.note_group_answer(request, &result);
        match result {
            WaitResult::Answer(answer) => {
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
