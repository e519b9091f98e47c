//! Transactions that begin READ ONLY. Each statement of a READ COMMITTED transaction has a snapshot of its own, so its reads may run
//! on replicas, one by one. Paceline itself answers BEGIN; the transaction is deferred. It really begins on the primary before the
//! first request that is not such a read (`relay/begin.rs`); from then on it is like any other.

use super::deferred_transaction::{
    DeferredTransaction, LIMITS, is_read_committed, is_read_only, names_moment, query_text,
    replace_status,
};
use super::idle_timer::{IdleLimit, IdleReason};
use super::{Client, ClientEnd};
use bytes::{Bytes, BytesMut};
use paceline_config::{PoolMode, ReplicasGone};
use paceline_relay::request::Request;
use paceline_sql::{Begin, begins_alone, ends_alone};
use paceline_wire::backend::write_command_complete;
use std::time::Duration;

impl Client {
    /// Answers a request that begins a transaction, if the transaction is deferred, or that ends it.
    pub(super) fn answer_transaction(&mut self, bytes: &Bytes) -> Option<BytesMut> {
        // Most clients have no replicas: they end here.
        if self.deferred.is_none() && self.replicas.load().is_none() {
            return None;
        }
        let text = query_text(bytes)?;
        let mut out = BytesMut::new();
        match &self.deferred {
            Some(deferred) => {
                let command = ends_alone(text)?.command(deferred.failed);
                write_command_complete(&mut out, command);
                self.deferred = None;
            }
            None => {
                let begin = begins_alone(text)?;
                let idle_max = self.deferral(begin)?;
                write_command_complete(&mut out, begin.command());
                self.deferred = Some(Box::new(DeferredTransaction {
                    begin: bytes.clone(),
                    failed: false,
                    has_read: false,
                    idle_max,
                    read: None,
                }));
            }
        }
        self.session.statements.close_unnamed();
        Some(out)
    }

    /// Whether the client is in a deferred transaction that has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.deferred
            .as_ref()
            .is_some_and(|deferred| deferred.failed)
    }

    /// Whether replicas may answer reads of this transaction. Returns the primary's default of
    /// `idle_in_transaction_session_timeout`. The other limits of transactions are the server's own, so that a transaction with such a
    /// limit is not deferred.
    fn deferral(&self, begin: Begin) -> Option<Duration> {
        let replicas = self.replicas.load();
        let replicas = replicas.as_ref()?;
        let settings = self.pool.settings();
        let defaults = self.pool.transaction_defaults()?;
        let session = &self.session.settings;
        let has_replicas = replicas.any() || settings.servers.replicas_gone == ReplicasGone::Error;
        let may = self.mode == PoolMode::Transaction
            && has_replicas
            && self.freshness(None).is_some()
            && is_read_only(begin, session)
            && (begin.read_committed || is_read_committed(session, defaults.read_committed))
            && settings.timeouts.transaction_timeout.is_zero()
            && !defaults.has_timeout
            && LIMITS.iter().all(|name| session.sql_of(name).is_none());
        may.then_some(defaults.idle_max)
    }

    /// Whether a read of a deferred transaction has the same result outside of it, so that a replica may answer it.
    pub(super) fn may_leave_transaction(&self, request: &Request) -> bool {
        let Some(deferred) = &self.deferred else {
            return true;
        };
        let statement = request.template.statement.as_ref();
        let is_constant = statement.is_none_or(|s| s.depends_on_transaction);
        !deferred.failed
            && !is_constant
            && !request.template.hints().commit_on_success
            && !names_moment(request)
    }

    /// The limit of the time that a client may be idle in a deferred transaction; `None` without one.
    pub(super) fn idle_limit_in_transaction(&self, idle_max: Duration) -> Option<IdleLimit> {
        let configured = self.pool.settings().timeouts.idle_transaction_timeout;
        IdleLimit::shortest([
            (configured, IdleReason::Transaction),
            (idle_max, IdleReason::InTransaction),
        ])
    }

    /// Sends the answer to a request that no server relays. If it `failed`, so does the transaction.
    pub(super) async fn send_answer(
        &mut self,
        mut answer: BytesMut,
        failed: bool,
    ) -> Result<(), ClientEnd> {
        if let Some(deferred) = &mut self.deferred {
            deferred.failed |= failed;
            replace_status(&mut answer, deferred.status());
        }
        Ok(self.stream.write_all(&mut answer).await?)
    }
}
