//! Reads that a replica may answer instead of the primary.

use super::deferred_transaction::ISOLATION;
use super::{Client, ClientEnd};
use crate::cancel::ClientState;
use bytes::BytesMut;
use paceline_batch::line::GroupId;
use paceline_batch::strategy::PlannedRequest;
use paceline_config::{Reads, ReplicasGone};
use paceline_pool::messages;
use paceline_pool::pool::{AnalysisState, DisconnectSignal, Pool, SubmitResult, WaitResult};
use paceline_pool::replicas::{ChosenReplica, Freshness, Replicas, WantedRead};
use paceline_pool::server::DefaultIsolation;
use paceline_pool::sharding::ShardStatement;
use paceline_relay::local_show::{LocalShow, POSITION, ShowSource, ShowTable};
use paceline_sql::ServerHint;
use paceline_wire::Frames;
use paceline_wire::backend::tag;
use std::cell::RefCell;
use std::sync::Arc;

/// The setting by which a client chooses the server of its reads.
const READS: &str = "paceline.reads";

/// The replicas on which a read may run.
pub(super) struct ReplicaRead {
    replicas: Arc<Replicas>,
    freshness: Freshness,
    group: GroupId,
    replicas_of: ReplicasOf,
}

/// The owner of the replicas that may answer a read.
enum ReplicasOf {
    /// Those of the database, and logical subscribers if the read may run on them.
    Database { on_subscribers: bool },
    /// Those of a shard, by the map with this number.
    Shard { map: u64 },
}

impl Client {
    /// Whether and how replicas may answer a request.
    pub(super) fn replica_read(
        &self,
        state: &AnalysisState,
        request: &PlannedRequest,
    ) -> Option<ReplicaRead> {
        let AnalysisState::Done(analysis) = state else {
            return None;
        };
        if !self.may_leave_transaction(request) {
            return None;
        }
        let replicas = self.replicas.load();
        let replicas = replicas.as_ref()?;
        let freshness = self.freshness(request.template.hints().server)?;
        let settings = &request.settings;
        let is_itself = ["role", "session_authorization"]
            .iter()
            .all(|name| settings.sql_of(name).is_none());
        Some(ReplicaRead {
            replicas_of: ReplicasOf::Database {
                on_subscribers: analysis.reads_on_subscribers && is_itself,
            },
            group: analysis.group_on_replica(request)?,
            replicas: Arc::clone(replicas),
            freshness,
        })
    }

    /// Whether and how replicas of a shard may answer a statement there.
    pub(super) fn replica_read_on_shard(
        &self,
        statement: &mut ShardStatement,
        request: &PlannedRequest,
    ) -> Option<ReplicaRead> {
        let replicas = Arc::clone(statement.replicas.as_ref()?);
        Some(ReplicaRead {
            freshness: self.freshness(request.template.hints().server)?,
            group: statement.pool.group_on_replica(&mut statement.request)?,
            replicas,
            replicas_of: ReplicasOf::Shard { map: statement.map },
        })
    }

    /// Whether a replica should answer a request if that is found to be a plain read.
    pub(super) fn prefers_replica(&self, request: &PlannedRequest) -> bool {
        self.replicas.load().is_some() && self.freshness(request.template.hints().server).is_some()
    }

    /// The freshness that a replica must have for a read of this client; `None` if the read uses the primary.
    pub(super) fn freshness(&self, hint: Option<ServerHint>) -> Option<Freshness> {
        if self.is_serializable() {
            return None;
        }
        let configured = self.pool.settings().servers.reads;
        let chosen = self.session.settings.sql_of(READS).and_then(named);
        match (chosen.unwrap_or(configured), hint) {
            (_, Some(ServerHint::Primary)) | (Reads::Primary, None) => None,
            (Reads::Primary | Reads::Session, _) => Some(Freshness::Session),
            (Reads::Global, _) => Some(Freshness::Global),
            (Reads::Any, _) => Some(Freshness::Any),
        }
    }

    /// Whether the client's statements run as SERIALIZABLE transactions, which a replica rejects.
    fn is_serializable(&self) -> bool {
        match self.session.settings.sql_of(ISOLATION) {
            Some(sql) => sql.to_ascii_lowercase().contains("serializable"),
            None => self
                .pool
                .transaction_defaults()
                .is_some_and(|defaults| defaults.isolation == DefaultIsolation::Serializable),
        }
    }

    /// Has a replica answer a read, which a replica of a shard executes as `on_server`. False: the primary must.
    pub(super) async fn read_on_replica(
        &mut self,
        read: ReplicaRead,
        request: &PlannedRequest,
        on_server: &Arc<PlannedRequest>,
    ) -> Result<bool, ClientEnd> {
        let settings = self.pool.settings_cache().load().servers.clone();
        let ReplicaRead {
            replicas,
            freshness,
            group,
            replicas_of,
        } = read;
        let statement = match replicas_of {
            ReplicasOf::Database {
                on_subscribers: true,
            } => request.template.statement.as_ref(),
            ReplicasOf::Database { .. } | ReplicasOf::Shard { .. } => None,
        };
        let wanted = WantedRead {
            freshness,
            statement,
        };
        if settings.replicas_gone == ReplicasGone::Error && !replicas.any_for(&wanted) {
            self.send_answer(messages::no_replica(), true).await?;
            return Ok(true);
        }
        let entry = Arc::clone(&self.registration.entry);
        let (seen, shards_seen) = (&mut self.seen, &mut self.shards_seen);
        let choosing = async {
            match replicas_of {
                ReplicasOf::Database { .. } => replicas.choose(wanted, seen, &settings).await,
                ReplicasOf::Shard { map } => {
                    let choosing = replicas.choose_on_shard(freshness, map, shards_seen, &settings);
                    choosing.await
                }
            }
        };
        let chosen = match entry
            .unless_cancelled(ClientState::Starting, choosing)
            .await
        {
            Some(chosen) => chosen,
            None => {
                self.handle_wait_result(WaitResult::cancelled()).await?;
                return Ok(true);
            }
        };
        let Some(ChosenReplica { pool, position }) = chosen else {
            return Ok(false);
        };
        let on_server = Arc::clone(on_server);
        let (waiter, receiver) = match pool.read(self.admission, group, on_server, position) {
            SubmitResult::Waiting(waiter, receiver) => (waiter, receiver),
            SubmitResult::Full(answer) => {
                self.send_answer(answer.into(), true).await?;
                return Ok(true);
            }
            SubmitResult::Unreachable => return Ok(false),
        };
        let result = self.wait_in(&pool, waiter, receiver, true).await?;
        let Some(result) = result else {
            return Ok(false);
        };
        self.note_group_answer(request, &result);
        let (answer, failed) = match result {
            WaitResult::OfReplica(answer, seen) => {
                match replicas_of {
                    ReplicasOf::Database { .. } => self.seen.raise(seen),
                    ReplicasOf::Shard { map } => {
                        replicas.raise_on_shard(map, &mut self.shards_seen, seen);
                    }
                }
                let mut failed = false;
                if let Some(deferred) = &mut self.deferred {
                    deferred.has_read = true;
                    failed = Frames::new(&answer).any(|frame| frame.tag == tag::ERROR_RESPONSE);
                }
                (answer, failed)
            }
            // The client has cancelled, or its `statement_timeout` has expired.
            WaitResult::Answer(answer) => (answer, true),
            WaitResult::Server(server) => {
                server.give_back();
                return Ok(false);
            }
            WaitResult::QueryTimeout(message) => return Err(ClientEnd::Error(message)),
            WaitResult::Elsewhere
            | WaitResult::Fatal(_)
            | WaitResult::Queued(_)
            | WaitResult::PlainRead(_) => {
                let signal = *self.disconnect.borrow();
                return match signal {
                    DisconnectSignal::Killed => Err(ClientEnd::Error(signal.message())),
                    _ => Ok(false),
                };
            }
        };
        self.send_answer(BytesMut::from(answer), failed).await?;
        Ok(true)
    }

    /// Whether a request is `SHOW paceline.position` or `SET paceline.after`.
    pub(super) async fn position_request(
        &mut self,
        bytes: &[u8],
    ) -> Result<PositionRequest, ClientEnd> {
        if self.replicas.load().is_none() {
            return Ok(PositionRequest::Other);
        }
        let position = match self.session.local_command(bytes) {
            Some(LocalShow::Parameter(name)) if name == POSITION => {
                // Boxed because it is rare: its state would be part of every client.
                let Some(position) = Box::pin(self.await_position()).await? else {
                    return Ok(PositionRequest::Answered);
                };
                Some(position)
            }
            Some(LocalShow::Follow(_)) => None,
            _ => return Ok(PositionRequest::Other),
        };
        Ok(PositionRequest::Of(PositionSource {
            pool: Arc::clone(&self.pool),
            position,
            followed: RefCell::new(None),
        }))
    }

    /// The position that the client has seen. While there is no primary, the client waits in the line as with a statement. `None`: it has
    /// got an error.
    async fn await_position(&mut self) -> Result<Option<String>, ClientEnd> {
        if let Some(position) = self.position().await {
            return Ok(Some(position));
        }
        match self.check_out().await? {
            WaitResult::Server(server) => server.give_back(),
            other => {
                self.handle_wait_result(other).await?;
                return Ok(None);
            }
        }
        let position = self.position().await;
        if position.is_none() {
            self.send_answer(messages::no_position(), true).await?;
        }
        Ok(position)
    }

    async fn position(&mut self) -> Option<String> {
        let replicas = Arc::clone(self.replicas.load().as_ref()?);
        replicas.position(&mut self.seen).await
    }

    /// Follows the position that was set.
    pub(super) fn follow(&mut self, source: PositionSource) {
        if let (Some(position), Some(replicas)) =
            (source.followed.into_inner(), &*self.replicas.load())
        {
            replicas.follow(&mut self.seen, &position);
            // The position does not cover shards, which the other client may have changed.
            self.other_served();
        }
    }

    /// Notes that the primary has served the client: a replica that serves its next read must have replayed what it has written or
    /// read there.
    pub(super) fn primary_served(&mut self) {
        match &*self.replicas.load() {
            Some(replicas) => replicas.primary_served(&mut self.seen),
            None => self.seen.served_without_replicas(),
        }
        self.other_served();
    }

    /// Notes that the coordinator, or a shard without replicas, may have served the client.
    fn other_served(&mut self) {
        if let Some(shards) = &*self.shards.load() {
            shards.other_served(&mut self.shards_seen);
        }
    }

    /// Notes that the primary of a shard, by the map with this number, has served the client.
    pub(super) fn shard_served(&mut self, replicas: Option<&Replicas>, map: u64) {
        match replicas {
            Some(replicas) => replicas.shard_served(map, &mut self.shards_seen),
            None => self.other_served(),
        }
    }
}

/// Whether a request is about a position.
pub(super) enum PositionRequest {
    /// It is not.
    Other,
    /// It is, and this answers it.
    Of(PositionSource),
    /// The client has got an error.
    Answered,
}

/// Answers `SHOW paceline.position` and `SET paceline.after`.
pub(super) struct PositionSource {
    pool: Arc<Pool>,
    position: Option<String>,
    followed: RefCell<Option<String>>,
}

impl ShowSource for PositionSource {
    fn variables(&self) -> Vec<(String, String)> {
        let position = self.position.iter();
        position
            .map(|position| (POSITION.to_owned(), position.clone()))
            .collect()
    }

    fn status(&self) -> Vec<(String, String)> {
        self.pool.status()
    }

    fn groups(&self) -> ShowTable {
        ShowSource::groups(&*self.pool)
    }

    fn follow(&self, position: &str) -> bool {
        *self.followed.borrow_mut() = Some(position.to_owned());
        true
    }
}

/// The value of [`READS`] in the SQL that sets it. `None` for a word that Paceline does not know.
fn named(sql: &str) -> Option<Reads> {
    let mut words = sql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.find(|word| word.eq_ignore_ascii_case("reads"))?;
    let value = words.find(|word| !word.is_empty() && !word.eq_ignore_ascii_case("to"))?;
    let all = [Reads::Primary, Reads::Session, Reads::Global, Reads::Any];
    all.into_iter()
        .find(|reads| reads.name().eq_ignore_ascii_case(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_read_from_the_sql_that_sets_it() {
        assert_eq!(
            named("SET \"paceline.reads\" TO 'session'"),
            Some(Reads::Session)
        );
        assert_eq!(named("SET paceline.reads TO \"any\""), Some(Reads::Any));
        assert_eq!(
            named("SELECT set_config('paceline.reads', 'Global', false)"),
            Some(Reads::Global)
        );
        assert_eq!(named("SET paceline.reads TO 'nearest'"), None);
    }
}
