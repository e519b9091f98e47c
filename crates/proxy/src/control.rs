//! What an operator orders while Paceline runs, by signal or from the admin console (PgBouncer's commands, in its words).
//!
//! Orders are told in what pools can do: be held, be reshaped, have their connections replaced or cut ([`crate::pool`]).

mod config_snapshot;
mod reload;
mod standings;
#[cfg(test)]
mod tests;

pub(crate) use config_snapshot::{ConfigSnapshot, ConfigSnapshotError};
pub(crate) use reload::Origin;
pub(crate) use standings::{Standings, Token};

use crate::pool::Pool;
use crate::proxy::Proxy;
use paceline_wire::ErrorResponse;
use std::sync::Arc;

/// An order. Databases are named as clients name them; `None` is all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// No transaction begins; done when every server connection is closed.
    Pause(Option<String>),
    /// After `Pause`, `Suspend` or `Kill`; `None`: of everything that is held.
    Resume(Option<String>),
    /// No new clients.
    Disable(String),
    /// New clients again.
    Enable(String),
    /// Server connections are replaced when they become free.
    Reconnect(Option<String>),
    /// All connections of a database end at once, and it is paused.
    Kill(Option<String>),
    /// Done when every server connection that was to be replaced is closed.
    WaitClose(Option<String>),
    /// No transaction begins; done when every server connection is free. They are kept.
    Suspend,
    /// The configuration is read again.
    Reload,
    /// The process ends.
    Shutdown(Shutdown),
}

/// When the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shutdown {
    /// At once.
    Immediate,
    /// When every transaction is over; clients that are idle are told to go (`WAIT_FOR_SERVERS`).
    WaitForServers,
    /// When every client has left by itself (`WAIT_FOR_CLIENTS`).
    WaitForClients,
}

/// The process, from its start to its end. It never goes back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It serves.
    #[default]
    Serving,
    /// Nobody new is listened to; who is there is served.
    WaitingForClients,
    /// Transactions come to their end.
    WaitingForServers,
    /// It ends now.
    Ending,
}

impl Shutdown {
    fn phase(self) -> Phase {
        match self {
            Self::WaitForClients => Phase::WaitingForClients,
            Self::WaitForServers => Phase::WaitingForServers,
            Self::Immediate => Phase::Ending,
        }
    }
}

/// As PgBouncer's console refuses an order.
fn refused(message: impl Into<String>) -> ErrorResponse {
    ErrorResponse::error("08P01", message)
}

impl Proxy {
    /// Carries out an order; returns when it is done. Whoever gives up waiting for `Pause` or `Suspend` takes it back. After
    /// `Shutdown(Immediate)` it does not return.
    ///
    /// # Errors
    /// What whoever gave the order is told.
    pub(crate) async fn carry_out(self: &Arc<Self>, order: Order) -> Result<(), ErrorResponse> {
        tracing::info!(?order, "an operator's order");
        match order {
            Order::Pause(database) => self.pause(database.as_deref()).await,
            Order::Resume(database) => self.resume(database.as_deref()),
            Order::Disable(database) => self.disable(&database, true),
            Order::Enable(database) => self.disable(&database, false),
            Order::Reconnect(database) => {
                let pools = self.pools_named(database.as_deref(), "reconnect")?;
                pools.iter().for_each(Pool::reconnect);
                Ok(())
            }
            Order::Kill(database) => self.kill(database.as_deref()),
            Order::WaitClose(database) => {
                let pools = self.pools_named(database.as_deref(), "wait in")?;
                replaced(&pools).await;
                Ok(())
            }
            Order::Suspend => self.suspend().await,
            Order::Reload => self.reload().await,
            Order::Shutdown(when) => self.shut_down(when).await,
        }
    }

    /// # Errors
    /// There is no such database, or it is the console's; then `verb` says what cannot be done to it.
    fn check_named(&self, database: Option<&str>, verb: &str) -> Result<(), ErrorResponse> {
        let Some(name) = database else {
            return Ok(());
        };
        let config = self.config();
        // Nobody pauses the console.
        if config.is_console(name) {
            return Err(refused(format!("cannot {verb} admin db: {name}")));
        }
        // One that was configured may have clients yet, or be paused.
        match config.database(name).is_some()
            || !self.pools_of(database).is_empty()
            || self.is_ordered(name)
        {
            true => Ok(()),
            false => Err(refused(format!("no such database: {name}"))),
        }
    }

    fn pools_named(
        &self,
        database: Option<&str>,
        verb: &str,
    ) -> Result<Vec<Arc<Pool>>, ErrorResponse> {
        self.check_named(database, verb)?;
        Ok(self.pools_of(database))
    }

    async fn pause(self: &Arc<Self>, database: Option<&str>) -> Result<(), ErrorResponse> {
        self.check_named(database, "pause")?;
        let token = self.order(|standings| standings.pause(database))?;
        let held = Held::new(self, token);
        let pools = self.pools_of(database);
        held.until(replaced(&pools)).await
    }

    async fn suspend(self: &Arc<Self>) -> Result<(), ErrorResponse> {
        let token = self.order(Standings::suspend)?;
        let held = Held::new(self, token);
        let pools = self.pools();
        held.until(async {
            for pool in &pools {
                pool.at_rest().await;
            }
        })
        .await
    }

    fn resume(&self, database: Option<&str>) -> Result<(), ErrorResponse> {
        if self.is_shutting_down() {
            return Err(refused("pooler is shutting down"));
        }
        // The console's own database is one that is not paused.
        if !database.is_some_and(|name| self.config().is_console(name)) {
            self.check_named(database, "resume")?;
        }
        self.order(|standings| standings.resume(database))
    }

    fn disable(&self, database: &str, disabled: bool) -> Result<(), ErrorResponse> {
        let verb = if disabled { "disable" } else { "enable" };
        self.check_named(Some(database), verb)?;
        self.order(|standings| standings.disable(database, disabled));
        Ok(())
    }

    fn kill(&self, database: Option<&str>) -> Result<(), ErrorResponse> {
        self.check_named(database, "kill")?;
        let names = match database {
            Some(name) => [name.to_owned()].into(),
            None => self.databases_in_use(),
        };
        self.order(|standings| standings.pause_each(names.iter().map(String::as_str)))?;
        for name in &names {
            self.pools_of(Some(name)).iter().for_each(Pool::kill);
        }
        Ok(())
    }

    async fn shut_down(&self, when: Shutdown) -> Result<(), ErrorResponse> {
        if when == Shutdown::WaitForServers {
            self.order(Standings::close);
        }
        self.begin(when.phase());
        match when {
            // The connection that the order came from stays open to the end.
            Shutdown::Immediate => std::future::pending().await,
            Shutdown::WaitForServers | Shutdown::WaitForClients => Ok(()),
        }
    }

    /// The process enters this phase, if it has not gone further.
    pub(crate) fn begin(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let onward = *now < phase;
            *now = phase.max(*now);
            onward
        });
    }
}

/// Returns when the connections of these pools that were to be replaced are closed.
async fn replaced(pools: &[Arc<Pool>]) {
    for pool in pools {
        pool.replaced().await;
    }
}

/// An order to pause or to suspend, taken back unless it is carried out.
struct Held<'a> {
    proxy: &'a Proxy,
    token: Option<Token>,
}

impl<'a> Held<'a> {
    fn new(proxy: &'a Proxy, token: Token) -> Self {
        Self {
            proxy,
            token: Some(token),
        }
    }

    /// Waits for what makes it complete.
    ///
    /// # Errors
    /// Somebody else has taken it back.
    async fn until(mut self, complete: impl Future<Output = ()>) -> Result<(), ErrorResponse> {
        let outcome = tokio::select! {
            biased;
            () = self.revoked() => Err(refused("resumed before all server connections were free")),
            () = complete => Ok(()),
        };
        if let (Ok(()), Some(token)) = (&outcome, self.token.take()) {
            self.proxy.order(|standings| standings.carried_out(token));
        }
        outcome
    }

    async fn revoked(&self) {
        loop {
            let ordered = self.proxy.ordered.notified();
            let in_force = |token| self.proxy.order_holds(token);
            if !self.token.is_some_and(in_force) {
                return;
            }
            ordered.await;
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(token) = self.token {
            self.proxy.order(|standings| standings.take_back(token));
        }
    }
}
