//! Changes of a pool's configuration while it works.

use super::login_backoff::LoginBackoff;
use super::{Inner, Pool, PoolConfig};
use crate::address::Address;
use crate::clock;
use crate::close_reason;
use crate::server::Generation;
use paceline_batch::policy::Policy;
use std::sync::Arc;

impl Pool {
    /// The policy of grouping.
    pub fn policy(&self) -> Policy {
        self.policy.get()
    }

    /// The destination of new connections.
    pub fn address(&self) -> Arc<Address> {
        Arc::clone(&self.lock().servers.generation.address)
    }

    /// Applies a new configuration. Connections that lead elsewhere, or exceed the new limit, are closed when they are free.
    pub(crate) fn reconfigure(self: &Arc<Self>, config: PoolConfig) {
        self.commits.store(config.commit_counter());
        self.policy.set(config.policy);
        self.set_decisions(&config);
        let open_max = config.settings.open_max();
        let settings = Arc::new(config.settings);
        self.settings.store(Arc::clone(&settings));
        let now = clock::now();
        let mut inner = self.lock();
        inner.servers.open_max = open_max;
        inner.shorten_lifetimes(&settings, now);
        inner.line.set_limits(config.limits);
        let mut address = config.address;
        let present = Arc::clone(&inner.servers.generation.address);
        if config.no_primary.is_some()
            && let Some(hosts) = &config.hosts
            && let Some(upstream) = hosts.same_server(&present.upstream)
        {
            // The host may be found to be the primary again.
            address.location = hosts.location(&upstream);
            address.upstream = self.with_login(&address.upstream, &upstream);
        }
        if !present.leads_to(&address) {
            let why = close_reason::CONFIGURATION_CHANGED;
            self.change_address(&mut inner, address, why);
        }
        // The operator may have corrected the reason: a password in a file is not part of the address.
        if inner
            .servers
            .backoff
            .as_ref()
            .is_some_and(LoginBackoff::is_final)
        {
            inner.servers.forget_failures();
        }
        inner.servers.hosts = config.hosts;
        self.apply_primary(&mut inner, config.no_primary);
        let servers = &mut inner.servers;
        while servers.open > open_max
            && let Some(mut conn) = servers.idle.pop().or_else(|| servers.suspended.pop())
        {
            servers.open -= 1;
            conn.closes_because(close_reason::TOO_MANY);
            conn.terminate();
        }
        self.dispatch(&mut inner, now);
        self.start_timer(&mut inner);
        // Requests that wait may now have waited long enough for a further connection.
        self.signals.look_again.notify_one();
    }

    /// Changes the destination of new connections, and forgets the facts from the former server.
    pub(super) fn change_address(&self, inner: &mut Inner, address: Address, why: &'static str) {
        if !self.is_beside() {
            self.shared.quotas.change_user(&self.quotas, &address.user);
        }
        inner.analyses.clear();
        let load = self.shared.server_loads.of(&address.upstream);
        inner.line.set_server(clock::now(), load);
        let next = Generation::new(Arc::new(address), &self.signals.closed);
        self.begin_generation(inner, next, why);
        inner.replication.replace();
    }
}
