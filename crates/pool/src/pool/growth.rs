//! Opening server connections.

use super::login_backoff::LoginBackoff;
use super::wait_timer::LOOK_AHEAD;
use super::{Inner, Pool, PoolState, WaitResult, Waiter};
use crate::clock;
use crate::credentials::Credential;
use crate::quota::ServerSlot;
use crate::server::{Generation, GenerationGuard, ServerConn, ServerError, ServerLog};
use bytes::{Bytes, BytesMut};
use paceline_batch::line::WaitEntry;
use paceline_config::PoolSettings;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// After a failed attempt, the next connection of a pool that has one is opened after this time.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Pool {
    /// Opens a connection in the background if the pool may have one more.
    pub(super) fn grow(self: &Arc<Self>, inner: &mut Inner) {
        let settings = self.settings();
        if !self.may_grow(inner, &settings, clock::now()) {
            return;
        }
        if let Some(slot) = self.server_slot(inner, &settings) {
            self.open_in(inner, slot);
        }
    }

    /// Opens a connection because short waits add up, if a slot is free. No other pool closes one for that.
    pub(super) fn grow_for_waits(self: &Arc<Self>, inner: &mut Inner, now: Instant) {
        let settings = self.settings();
        let may_open = inner.servers.may_open(now)
            && inner.servers.waits.is_worth_growing(now)
            && inner.line.oldest_ready_alone(LOOK_AHEAD).is_some()
            && self.may_grow(inner, &settings, now);
        if may_open
            && !self.quotas.others_starve()
            && let Ok(slot) = self.quotas.server_slot(&settings)
        {
            inner.servers.waits.clear();
            self.open_in(inner, slot);
        }
    }

    fn may_grow(&self, inner: &Inner, settings: &PoolSettings, now: Instant) -> bool {
        inner.admin.state == PoolState::Active
            && !inner.is_excluded()
            && inner.servers.no_primary.is_none()
            && inner.servers.open < inner.open_max_now(settings, now)
    }

    fn open_in(self: &Arc<Self>, inner: &mut Inner, slot: ServerSlot) {
        inner.servers.open += 1;
        inner.servers.opening += 1;
        let pool = Arc::clone(self);
        let generation = Arc::clone(&inner.servers.generation);
        let must_be_primary = inner.servers.hosts.is_some();
        tokio::spawn(async move {
            let opening = pool.open(slot, &generation, must_be_primary);
            let opened = generation.attempt(opening).await;
            pool.opened(generation, opened);
        });
    }

    async fn open(
        &self,
        slot: ServerSlot,
        generation: &Arc<Generation>,
        must_be_primary: bool,
    ) -> Result<Box<ServerConn>, ServerError> {
        let config = Arc::clone(&self.shared.config());
        let limit = config.paceline.timeouts.server_connect_timeout;
        let none = self.shared.settings_interner.none();
        let prepared_max = config.paceline.state.max_prepared_statements;
        let address = &generation.address;
        let credentials = self.shared.credentials.of(address, &self.shown);
        let mut conn =
            ServerConn::open_within(limit, address, &credentials, none, prepared_max).await?;
        if must_be_primary {
            conn.check_primary(limit).await?;
        } else if self.has_shards() {
            // Replicas of shards depend on them.
            conn.read_defaults(limit).await?;
        }
        if let Some(replica) = &self.replica {
            conn.check_system(replica.hosts.system_at(replica.id), limit)
                .await?;
            conn.side.is_replica = true;
        }
        if let Some(shard) = &self.shard {
            conn.check_system(shard.system, limit).await?;
        }
        conn.slot = Some(slot);
        conn.checked = Some(clock::now());
        conn.log = Some(self.server_log(&conn, generation));
        conn.generation = Some(GenerationGuard::new(generation, &conn.stream));
        Ok(Box::new(conn))
    }

    /// Begins to log a connection under the names of its pool. A pool for `auth_query` has none.
    pub(super) fn server_log(&self, conn: &ServerConn, generation: &Generation) -> ServerLog {
        let address = &generation.address;
        let names = match self.name.get() {
            Some(name) => (name.database.as_str(), name.user.as_str()),
            None => (address.database.as_str(), address.user.as_str()),
        };
        ServerLog::begin(
            &self.shared,
            names,
            &conn.stream.peer(),
            &generation.replaced,
        )
    }

    /// Puts a connection that was opened just now on the list of the console.
    pub(super) fn list(&self, conn: &ServerConn) {
        let id = self.shared.next_server_id();
        self.server_list.add(id, &self.shared.clock, conn);
    }

    pub(super) fn opened(
        self: &Arc<Self>,
        generation: Arc<Generation>,
        opened: Result<Box<ServerConn>, ServerError>,
    ) {
        let now = clock::now();
        let mut inner = self.lock();
        inner.servers.opening -= 1;
        let is_current = Arc::ptr_eq(&generation, &inner.servers.generation);
        match opened {
            Ok(conn) => {
                self.list(&conn);
                let idle_default = u64::try_from(conn.side.idle_default.as_millis());
                let idle_default = idle_default.unwrap_or_default();
                self.idle_default_ms.store(idle_default, Ordering::Relaxed);
                if let Some(defaults) = conn.transaction_defaults {
                    self.transaction_defaults.store(Some(Arc::new(defaults)));
                }
                if is_current {
                    inner.servers.backoff = None;
                    inner.analyses.server_reached();
                }
                self.return_idle(&mut inner, conn);
                self.dispatch(&mut inner, now);
                // Requests waited for this connection.
                inner.servers.waits.clear();
                self.keep_min_size(&mut inner, &self.settings(), now);
            }
            Err(error) if is_current => self.not_opened(&mut inner, &error, now),
            // Connections lead elsewhere now.
            Err(_) => {
                self.lost(&mut inner);
                self.dispatch(&mut inner, now);
            }
        }
        self.start_timer(&mut inner);
    }

    /// Handles a failed attempt. Clients continue to wait, for other connections or for the next attempt. If there is no
    /// connection and the server refuses the login, they get the error.
    fn not_opened(&self, inner: &mut Inner, error: &ServerError, now: Instant) {
        self.suspect_host(inner);
        let servers = &mut inner.servers;
        servers.open -= 1;
        self.signals.closed.notify_waiters();
        servers.grow_not_before = now + RETRY_AFTER;
        let address = &servers.generation.address;
        tracing::warn!(database = address.database, user = address.user, %error, "no server connection");
        if servers.open > 0 {
            if error.is_wrong_password() {
                tracing::warn!(
                    database = address.database,
                    user = address.user,
                    connections = servers.open,
                    "the server rejects the password (28P01): the pool keeps the connections that it has and opens no more; was the password changed?"
                );
            }
            return;
        }
        let retry = self.settings().timeouts.server_login_retry;
        let backoff = LoginBackoff::after(servers.backoff.as_ref(), error, retry, now);
        servers.grow_not_before = backoff.until;
        let is_final = backoff.is_final();
        servers.backoff = Some(backoff);
        if self.is_beside() && (is_final || inner.servers.hosts.is_none()) {
            return self.send_elsewhere(inner, now);
        }
        if !is_final {
            return;
        }
        let mut message = BytesMut::new();
        error.write_fatal(&mut message);
        let waiting = inner.line.drain(now);
        self.reject(waiting, &message.freeze());
    }

    /// Ends the connections of these clients with an error.
    pub(super) fn reject(&self, entries: Vec<WaitEntry<Waiter>>, message: &Bytes) {
        self.leaves_line(entries.len());
        for entry in entries {
            // A client that has left needs no answer.
            let _ = entry
                .request
                .answer
                .send(WaitResult::Fatal(message.clone()));
        }
    }

    /// Opens a connection if the pool has fewer than `min_pool_size`, and clients.
    pub(super) fn keep_min_size(
        self: &Arc<Self>,
        inner: &mut Inner,
        settings: &PoolSettings,
        now: Instant,
    ) {
        let servers = &inner.servers;
        // Replication clients do not use the connections of the pool.
        let clients = self.clients.load(Ordering::Relaxed);
        let clients = clients.saturating_sub(self.replication_clients.load(Ordering::Relaxed));
        if servers.open < settings.min_size && servers.may_open(now) && clients > 0 {
            self.grow(inner);
        }
    }

    /// Remembers the credential that a client has shown. If it is a new one, logins that the server has refused are tried again.
    pub fn set_shown(&self, credential: &Credential) {
        if self.shown.set(credential) {
            self.lock().servers.forget_failures();
        }
    }
}

impl Inner {
    /// Maximum number of connections now: with the reserve if a request has waited for it.
    pub(super) fn open_max_now(&self, settings: &PoolSettings, now: Instant) -> usize {
        let waited = |since| now.duration_since(since) >= settings.pooling.reserve_pool_timeout;
        let reserve = settings.reserve_size > 0 && self.line.oldest_ready().is_some_and(waited);
        settings.size + if reserve { settings.reserve_size } else { 0 }
    }
}
