//! What an operator orders while Paceline runs, by signal or from the console, in PgBouncer's words.

#[cfg(test)]
mod tests;

use crate::admin::Admin;
use paceline_pool::pool::Pool;
use paceline_pool::pools::Pools;
use paceline_pool::pools::admin_state::{AdminError, AdminState, OrderId};
use paceline_proxy::lifecycle::Phase;
use paceline_wire::ErrorResponse;
use std::sync::Arc;

/// A command. Databases are named as clients name them; `None` means all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminCommand {
    /// No transaction begins; complete when every server connection is closed.
    Pause(Option<String>),
    /// Ends `Pause`, `Suspend` or `Kill`; `None`: of all databases.
    Resume(Option<String>),
    /// No new clients.
    Disable(String),
    /// New clients again.
    Enable(String),
    /// Server connections are replaced when they become free.
    Reconnect(Option<String>),
    /// Closes all connections of a database at once, and pauses it.
    Kill(Option<String>),
    /// Complete when every server connection that was to be replaced is closed.
    WaitClose(Option<String>),
    /// No transaction begins; complete when every server connection is free. Connections are kept.
    Suspend,
    /// Reads the configuration again.
    Reload,
    /// The process ends.
    Shutdown(Shutdown),
}

/// When the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// At once.
    Immediate,
    /// When every transaction is over; clients that are idle are told to go (`WAIT_FOR_SERVERS`).
    WaitForServers,
    /// When every client has left by itself (`WAIT_FOR_CLIENTS`).
    WaitForClients,
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

/// The error of PgBouncer's console for a command that is refused.
fn refused(message: impl Into<String>) -> ErrorResponse {
    ErrorResponse::error("08P01", message)
}

fn refusal(error: AdminError) -> ErrorResponse {
    refused(error.to_string())
}

impl Admin {
    /// Executes a command; returns when it is complete. Dropping the future of `Pause` or `Suspend` takes the command back. That of
    /// `Shutdown(Immediate)` never completes.
    ///
    /// # Errors
    /// The error for the operator.
    pub async fn execute(self: &Arc<Self>, command: AdminCommand) -> Result<(), ErrorResponse> {
        tracing::info!(?command, "an operator's command");
        match command {
            AdminCommand::Pause(database) => self.pause(database.as_deref()).await,
            AdminCommand::Resume(database) => self.resume(database.as_deref()),
            AdminCommand::Disable(database) => self.disable(&database, true),
            AdminCommand::Enable(database) => self.disable(&database, false),
            AdminCommand::Reconnect(database) => {
                let pools = self.pools_named(database.as_deref(), "reconnect")?;
                pools.iter().for_each(Pool::reconnect);
                Ok(())
            }
            AdminCommand::Kill(database) => self.kill(database.as_deref()),
            AdminCommand::WaitClose(database) => {
                let pools = self.pools_named(database.as_deref(), "wait in")?;
                replaced(&pools).await;
                Ok(())
            }
            AdminCommand::Suspend => self.suspend().await,
            AdminCommand::Reload => self.reload().await,
            AdminCommand::Shutdown(when) => self.shut_down(when).await,
        }
    }

    /// # Errors
    /// There is no such database, or it is the console's; then `verb` says what cannot be done to it.
    fn check_named(&self, database: Option<&str>, verb: &str) -> Result<(), ErrorResponse> {
        let Some(name) = database else {
            return Ok(());
        };
        let config = self.proxy.config();
        // The console cannot be paused.
        if config.is_console(name) {
            return Err(refused(format!("cannot {verb} admin db: {name}")));
        }
        // One that was configured may have clients yet, or be paused.
        match config.database(name).is_some()
            || !self.proxy.pools.of(database).is_empty()
            || self.proxy.pools.has_orders(name)
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
        Ok(self.proxy.pools.of(database))
    }

    async fn pause(self: &Arc<Self>, database: Option<&str>) -> Result<(), ErrorResponse> {
        self.check_named(database, "pause")?;
        let order = self.proxy.pools.order(|state| state.pause(database));
        let order = order.map_err(refusal)?;
        let pending = PendingOrder::new(self, order);
        let pools = self.proxy.pools.of(database);
        pending.until(replaced(&pools)).await
    }

    async fn suspend(self: &Arc<Self>) -> Result<(), ErrorResponse> {
        let order = self.proxy.pools.order(AdminState::suspend);
        let order = order.map_err(refusal)?;
        let pending = PendingOrder::new(self, order);
        let pools = self.proxy.pools.all();
        pending
            .until(async {
                for pool in &pools {
                    pool.at_rest().await;
                }
            })
            .await
    }

    fn resume(&self, database: Option<&str>) -> Result<(), ErrorResponse> {
        if self.proxy.is_shutting_down() {
            return Err(refused("pooler is shutting down"));
        }
        // The console's own database is one that is not paused.
        if !database.is_some_and(|name| self.proxy.config().is_console(name)) {
            self.check_named(database, "resume")?;
        }
        let resumed = self.proxy.pools.order(|state| state.resume(database));
        resumed.map_err(refusal)
    }

    fn disable(&self, database: &str, disabled: bool) -> Result<(), ErrorResponse> {
        let verb = if disabled { "disable" } else { "enable" };
        self.check_named(Some(database), verb)?;
        self.proxy
            .pools
            .order(|state| state.disable(database, disabled));
        Ok(())
    }

    fn kill(&self, database: Option<&str>) -> Result<(), ErrorResponse> {
        self.check_named(database, "kill")?;
        let names = match database {
            Some(name) => [name.to_owned()].into(),
            None => self.proxy.pools.databases(),
        };
        let paused = self
            .proxy
            .pools
            .order(|state| state.pause_each(names.iter().map(String::as_str)));
        paused.map_err(refusal)?;
        for name in &names {
            self.proxy.pools.of(Some(name)).iter().for_each(Pool::kill);
        }
        Ok(())
    }

    async fn shut_down(&self, when: Shutdown) -> Result<(), ErrorResponse> {
        if when == Shutdown::WaitForServers {
            self.proxy.pools.order(AdminState::close);
        }
        self.begin(when.phase());
        match when {
            // The connection that the order came from stays open to the end.
            Shutdown::Immediate => std::future::pending().await,
            Shutdown::WaitForServers | Shutdown::WaitForClients => Ok(()),
        }
    }

    /// Enters this phase unless the process is in a later one.
    pub fn begin(&self, phase: Phase) {
        self.proxy.phase.send_if_modified(|now| {
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

/// An order to pause or to suspend, taken back unless it completes.
struct PendingOrder<'a> {
    pools: &'a Pools,
    order: Option<OrderId>,
}

impl<'a> PendingOrder<'a> {
    fn new(admin: &'a Admin, order: OrderId) -> Self {
        Self {
            pools: &admin.proxy.pools,
            order: Some(order),
        }
    }

    /// Waits until the order is complete.
    ///
    /// # Errors
    /// Another operator has taken the order back.
    async fn until(mut self, complete: impl Future<Output = ()>) -> Result<(), ErrorResponse> {
        let outcome = tokio::select! {
            biased;
            () = self.revoked() => Err(refused("resumed before all server connections were free")),
            () = complete => Ok(()),
        };
        if let (Ok(()), Some(order)) = (&outcome, self.order.take()) {
            self.pools.order(|state| state.complete(order));
        }
        outcome
    }

    async fn revoked(&self) {
        if let Some(order) = self.order {
            self.pools.order_revoked(order).await;
        }
    }
}

impl Drop for PendingOrder<'_> {
    fn drop(&mut self) {
        if let Some(order) = self.order {
            self.pools.order(|state| state.take_back(order));
        }
    }
}
