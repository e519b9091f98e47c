//! `server_check_query`: a connection that has been idle for `server_check_delay` answers a query before it serves again.
//!
//! Only connections that are about to serve are checked. Their clients wait in the line meanwhile, where any other connection
//! that becomes free serves them first.

use super::{Inner, Pool};
use crate::clock;
use crate::close_reason;
use crate::server::ServerConn;
use paceline_relay::sequences::SequenceToken;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connection that has just been checked is not checked again for this long, whatever `server_check_delay` is: it serves first.
const CHECK_HOLDS: Duration = Duration::from_secs(1);

/// Maximum number of idle connections among which the one with a client's own sequence values is sought.
const OWN_SOUGHT_MAX: usize = 16;
/// One that has been idle for longer is not preferred, so that the pool can close it.
const OWN_IDLE_MAX: Duration = Duration::from_secs(1);

impl Pool {
    /// If one of the connections that were used last remembers the sequence values of this client, it is the next that serves.
    pub(super) fn prefer_own(&self, inner: &mut Inner, now: Instant, own: SequenceToken) {
        if own == SequenceToken::default() {
            return;
        }
        let idle = &mut inner.servers.idle;
        let first = idle.len().saturating_sub(OWN_SOUGHT_MAX);
        let mut last_used = idle.iter().skip(first);
        let found = last_used.rposition(|conn| conn.side.sequences.token() == own);
        if let Some(at) = found.map(|at| first + at)
            && let Some(conn) = idle.get(at)
            && now.saturating_duration_since(conn.idle_since) < OWN_IDLE_MAX
            && !self.must_be_checked(conn, now)
        {
            let conn = idle.remove(at);
            idle.push(conn);
        }
    }

    /// An idle connection that may serve at once.
    pub(super) fn take_idle(
        self: &Arc<Self>,
        inner: &mut Inner,
        now: Instant,
    ) -> Option<Box<ServerConn>> {
        while let Some(mut conn) = inner.servers.idle.pop() {
            if !conn.is_alive() {
                conn.mark_lost();
                inner.servers.open -= 1;
            } else if self.must_be_checked(&conn, now) {
                // The others have been idle for longer.
                self.check(inner, conn);
                return None;
            } else {
                return Some(conn);
            }
        }
        None
    }

    /// Must this idle connection be checked before it serves?
    fn must_be_checked(&self, conn: &ServerConn, now: Instant) -> bool {
        let config = self.shared.config();
        let pooling = &config.paceline.pooling;
        let delay = pooling.server_check_delay;
        let since = |then| now.saturating_duration_since(then);
        let is_due = match conn.checked.filter(|checked| *checked >= conn.idle_since) {
            Some(checked) => since(checked) >= delay.max(CHECK_HOLDS),
            None => since(conn.idle_since) >= delay,
        };
        is_due && pooling.check_query().is_some()
    }

    /// Checks a connection in the background, unless the number of connections under check is that of the waiting clients: then it stays
    /// idle.
    fn check(self: &Arc<Self>, inner: &mut Inner, mut conn: Box<ServerConn>) {
        if inner.servers.checking >= inner.line.ready_len().max(1) {
            inner.servers.idle.push(conn);
            return;
        }
        inner.servers.checking += 1;
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            let config = Arc::clone(&pool.shared.config());
            let settings = &config.paceline;
            let query = settings.pooling.check_query().unwrap_or_default();
            let limit = settings.timeouts.server_connect_timeout;
            let answers = conn.answers(query, limit).await;
            conn.checked = Some(clock::now());
            if !answers {
                conn.closes_because(close_reason::CHECK_FAILED);
            }
            // A lost one gives its place up before its successor asks for one.
            pool.checked(answers.then_some(conn));
        });
    }

    fn checked(self: &Arc<Self>, conn: Option<Box<ServerConn>>) {
        let now = clock::now();
        let mut inner = self.lock();
        inner.servers.checking -= 1;
        match conn {
            Some(conn) => self.return_idle(&mut inner, conn),
            None => self.lost(&mut inner),
        }
        self.dispatch(&mut inner, now);
        self.start_timer(&mut inner);
    }
}
