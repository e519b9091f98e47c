//! The state that all connections of browsers share.

use super::login_limit::LoginLimit;
use super::sampler::Sampler;
use super::sessions::{SessionInfo, Sessions};
use crate::admin::Admin;
use paceline_proxy::auth::console_access;
use paceline_proxy::cancel::ConsoleAccess;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The state of the web console.
pub(super) struct WebConsole {
    pub(super) admin: Arc<Admin>,
    pub(super) sampler: Arc<Sampler>,
    sessions: Mutex<Sessions>,
    login_limit: Mutex<LoginLimit>,
}

/// A session, and what its user may do now.
pub(super) struct Permitted {
    pub(super) session: SessionInfo,
    pub(super) access: ConsoleAccess,
    pub(super) cookie: String,
}

impl WebConsole {
    pub(super) fn new(admin: Arc<Admin>) -> Self {
        Self {
            sampler: Sampler::new(&admin.proxy),
            admin,
            sessions: Mutex::default(),
            login_limit: Mutex::default(),
        }
    }

    pub(super) fn lock_sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_limit(&self) -> MutexGuard<'_, LoginLimit> {
        let limit = self.login_limit.lock();
        limit.unwrap_or_else(PoisonError::into_inner)
    }

    /// The session of a cookie. What its user may do follows from the configuration in force.
    pub(super) fn permitted(&self, is_local: bool, cookie: &str) -> Option<Permitted> {
        let session = self.lock_sessions().touch(Instant::now(), cookie)?;
        let config = self.admin.proxy.config();
        let access = console_access(&config, &session.user, is_local)?;
        Some(Permitted {
            session,
            access,
            cookie: cookie.to_owned(),
        })
    }
}
