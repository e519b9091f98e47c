//! Transactions that begin READ ONLY. Each statement of a READ COMMITTED transaction has a snapshot of its own, so its reads may run
//! on replicas, one by one. Paceline itself answers BEGIN; the transaction is deferred. It really begins on the primary before the
//! first request that is not such a read (`relay/begin.rs`); from then on it is like any other.

#[cfg(test)]
mod tests;

use super::idle_timer::{IdleLimit, IdleReason};
use super::{Client, ClientEnd};
use bytes::{Bytes, BytesMut};
use paceline_batch::strategy::PlannedRequest;
use paceline_config::{PoolMode, ReplicasGone};
use paceline_relay::request::Request;
use paceline_relay::settings::SessionSettings;
use paceline_sql::{Begin, begins_alone, depends_on_parse_time, ends_alone};
use paceline_wire::backend::{Status, write_command_complete};
use paceline_wire::frontend::tag;
use paceline_wire::reader::Reader;
use paceline_wire::{Frame, Frames};
use std::sync::Arc;
use std::time::Duration;

/// A transaction that has not begun on a server.
pub(super) struct DeferredTransaction {
    /// The client's BEGIN.
    pub(super) begin: Bytes,
    /// Whether a request of the transaction has failed, for example because the client cancelled it.
    pub(super) failed: bool,
    /// Whether a replica has answered a read of the transaction.
    pub(super) has_read: bool,
    /// The primary's default of `idle_in_transaction_session_timeout`; zero means none.
    idle_max: Duration,
    /// The request for which the transaction really begins, if it is a read that may not have been analyzed.
    pub(super) read: Option<Arc<PlannedRequest>>,
}

impl DeferredTransaction {
    /// The status that the client knows.
    pub(super) fn status(&self) -> Status {
        match self.failed {
            true => Status::Failed,
            false => Status::Transaction,
        }
    }

    pub(super) fn idle_max(&self) -> Duration {
        self.idle_max
    }
}

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
        Status::Idle.write(&mut out);
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

/// Settings that limit the time of transactions.
const LIMITS: [&str; 2] = ["idle_in_transaction_session_timeout", "transaction_timeout"];

const READ_ONLY: &str = "default_transaction_read_only";

pub(super) const ISOLATION: &str = "default_transaction_isolation";

/// Maximum number of bytes of a `Query` that is looked at.
const QUERY_BYTES_MAX: usize = 256;

/// The text of a request that is one short `Query`.
fn query_text(bytes: &Bytes) -> Option<&str> {
    let mut frames = Frames::new(bytes);
    let is_short =
        |frame: &Frame<'_>| frame.tag == tag::QUERY && frame.bytes.len() <= QUERY_BYTES_MAX;
    let query = frames.next().filter(is_short)?;
    let text = Reader::new(query.body()).str().ok()?;
    let is_whole = query.body().len() == text.len() + 1;
    (is_whole && frames.next().is_none()).then_some(text)
}

/// Whether the text says that the transaction only reads, or the client has made that its default.
fn is_read_only(begin: Begin, settings: &SessionSettings) -> bool {
    let default = || settings.sql_of(READ_ONLY).and_then(value_of);
    begin.read_only || default().is_some_and(|value| ["on", "true", "yes", "1"].contains(&&*value))
}

/// Whether a transaction that names no isolation level has this one.
fn is_read_committed(settings: &SessionSettings, default: bool) -> bool {
    match settings.sql_of(ISOLATION) {
        Some(sql) => sql.to_ascii_lowercase().contains("read committed"),
        None => default,
    }
}

/// The value of [`READ_ONLY`] in the SQL that sets it, in lower case.
fn value_of(sql: &str) -> Option<String> {
    let sql = sql.to_ascii_lowercase();
    let words = sql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut words = words.filter(|word| !word.is_empty());
    words.find(|word| *word == READ_ONLY)?;
    words.find(|word| *word != "to").map(str::to_owned)
}

/// Whether a parameter may refer to the beginning of the transaction (`$1::timestamptz` of `now`).
fn names_moment(request: &Request) -> bool {
    let parameters = request.parameters();
    let values = parameters.into_iter().filter_map(|(_, value)| value);
    let mut texts = values.map(String::from_utf8_lossy);
    texts.any(|text| depends_on_parse_time(&text))
}

/// Replaces the transaction status in the ReadyForQuery at the end of an answer.
fn replace_status(answer: &mut BytesMut, status: Status) {
    let mut ready = BytesMut::new();
    Status::Idle.write(&mut ready);
    if answer.ends_with(&ready) {
        answer.truncate(answer.len() - ready.len());
        status.write(answer);
    }
}
