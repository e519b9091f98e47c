//! Transactions that begin READ ONLY. Each statement of a READ COMMITTED transaction has a snapshot of its own, so its reads may run
//! on replicas, one by one. Paceline itself answers BEGIN; the transaction is deferred. It really begins on the primary before the
//! first request that is not such a read (`relay/begin.rs`); from then on it is like any other.

use super::deferred_transaction::{
    DeferredTransaction, LIMITS, is_read_committed, is_read_only, is_sync, query_text,
    replace_status,
};
use super::idle_timer::{IdleLimit, IdleReason};
use super::taken::Taken;
use super::{Client, ClientEnd};
use bytes::{Bytes, BytesMut};
use paceline_config::{PoolMode, ReplicasGone};
use paceline_pool::server::DefaultIsolation;
use paceline_relay::request::{Request, RequestScanner};
use paceline_sql::{Begin, begins_alone, ends_alone};
use paceline_wire::backend::write_command_complete;
use paceline_wire::frontend::{tag, write_query};
use std::time::Duration;

impl Client {
    /// Takes a BEGIN by the extended protocol from the beginning of the client's buffer, if its transaction is deferred. What follows
    /// is the first request of the transaction. With its answer the client gets that of BEGIN, as both have the same `Sync`.
    pub(super) fn take_begin(&mut self) {
        if !matches!(self.input.first(), Some(&(tag::PARSE | tag::BIND)))
            || self.deferred.is_some()
            || self.scanner.is_in_ignored()
            || self.replicas.load().is_none()
        {
            return;
        }
        let recognize = |text: &str| begins_alone(text).map(|begin| (begin, text.to_owned()));
        let Some((len, (begin, text))) = self.session.first_command(&self.input, recognize) else {
            return;
        };
        // After these, no message refers to the portal of BEGIN.
        let next = self.input.get(len);
        let is_usual = matches!(next, Some(&(tag::PARSE | tag::BIND | tag::SYNC)));
        let Some(idle_max) = is_usual.then(|| self.deferral(begin)).flatten() else {
            return;
        };
        let messages = self.input.split_to(len);
        self.scanner = RequestScanner::default();
        let mut query = BytesMut::new();
        write_query(&mut query, &text);
        let templates = &self.proxy.shared.templates;
        let begun = self
            .session
            .answer_command(&messages, templates, begin.command());
        self.count_answered(&messages, begun.len());
        self.budget.message(tag::BIND, begun.len());
        let mut deferred = DeferredTransaction::new(query.freeze(), idle_max);
        deferred.begun = begun;
        deferred.is_counted = false;
        self.deferred = Some(Box::new(deferred));
    }

    /// Answers a request that is only a `Sync`, or that begins or ends a deferred transaction; without the ReadyForQuery.
    pub(super) fn answer_transaction(&mut self, bytes: &Bytes) -> Option<BytesMut> {
        match &self.deferred {
            _ if is_sync(bytes) => Some(BytesMut::new()),
            Some(_) => self.end_deferred(bytes),
            // Most clients have no replicas: they end here.
            None if self.replicas.load().is_none() => None,
            None => self.begin_by_query(bytes),
        }
    }

    /// Defers the transaction that a request begins which is one `Query`.
    fn begin_by_query(&mut self, bytes: &Bytes) -> Option<BytesMut> {
        let begin = begins_alone(query_text(bytes)?)?;
        let idle_max = self.deferral(begin)?;
        self.session.statements.close_unnamed();
        self.deferred = Some(Box::new(DeferredTransaction::new(bytes.clone(), idle_max)));
        let mut out = BytesMut::new();
        write_command_complete(&mut out, begin.command());
        Some(out)
    }

    /// Ends the deferred transaction if that is all that a request does.
    fn end_deferred(&mut self, bytes: &Bytes) -> Option<BytesMut> {
        let failed = self.has_failed();
        let answer = match query_text(bytes) {
            Some(text) => {
                let mut out = BytesMut::new();
                write_command_complete(&mut out, ends_alone(text)?.command(failed));
                self.session.statements.close_unnamed();
                out
            }
            None => {
                let (len, end) = self.session.first_command(bytes, ends_alone)?;
                let (messages, rest) = bytes.split_at_checked(len)?;
                if !is_sync(rest) {
                    return None;
                }
                let templates = &self.proxy.shared.templates;
                self.session
                    .answer_command(messages, templates, end.command(failed))
            }
        };
        let mut out = self.deferred.take()?.begun;
        out.extend_from_slice(&answer);
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
        let read_committed = defaults.isolation == DefaultIsolation::ReadCommitted;
        let session = &self.session.settings;
        let freshness = self.freshness(None)?;
        let has_replicas =
            replicas.any(freshness) || settings.servers.replicas_gone == ReplicasGone::Error;
        let may = self.mode == PoolMode::Transaction
            && has_replicas
            && is_read_only(begin, session)
            && (begin.read_committed || is_read_committed(session, read_committed))
            && settings.timeouts.transaction_timeout.is_zero()
            && !defaults.has_timeout
            && LIMITS.iter().all(|name| session.sql_of(name).is_none());
        may.then_some(defaults.idle_max)
    }

    /// Whether a read of a deferred transaction has the same result outside of it, so that a replica may answer it. In a transaction, the
    /// client may fetch the rest of the rows of a portal that has a row limit.
    pub(super) fn may_leave_transaction(&self, request: &Request) -> bool {
        let Some(deferred) = &self.deferred else {
            return true;
        };
        let statement = request.template.statement.as_ref();
        let is_constant = statement.is_none_or(|s| s.depends_on_transaction);
        !deferred.failed
            && !is_constant
            && request.form.row_limit() == 0
            && !request.template.hints().commit_on_success
            && !request.names_moment()
    }

    /// The limit of the time that a client may be idle in a deferred transaction; `None` without one.
    pub(super) fn idle_limit_in_transaction(&self, idle_max: Duration) -> Option<IdleLimit> {
        let configured = self.pool.settings().timeouts.idle_transaction_timeout;
        IdleLimit::shortest([
            (configured, IdleReason::Transaction),
            (idle_max, IdleReason::InTransaction),
        ])
    }

    /// Sends the answer to a request that no server relays. If it `failed`, so does the transaction. If not all of the request has been
    /// read, the answer is an error.
    pub(super) async fn send_answer(
        &mut self,
        mut answer: BytesMut,
        failed: bool,
    ) -> Result<(), ClientEnd> {
        if let Some(deferred) = &mut self.deferred {
            deferred.failed |= failed;
            replace_status(&mut answer, deferred.status());
            deferred.precede(&mut answer);
        }
        match self.taken {
            Taken::All => self.send(&mut answer).await,
            // Boxed because it is rare: its state would be part of every client.
            Taken::First | Taken::None => Box::pin(self.answer_in_parts(answer)).await,
        }
    }
}
