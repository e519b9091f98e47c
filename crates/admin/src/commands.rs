//! The commands that operators give by signal or in the console. They have PgBouncer's names and error texts.

#[cfg(test)]
mod tests;

use crate::admin::Admin;
use paceline_config::GroupingTarget;
use paceline_pool::pool::Pool;
use paceline_pool::pools::Pools;
use paceline_pool::pools::admin_state::{AdminError, AdminState, OrderId};
use paceline_proxy::lifecycle::Phase;
use paceline_wire::ErrorResponse;
use std::sync::Arc;

/// A command. A database has the name that clients use; `None` means all databases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminCommand {
    /// Lets no transaction begin. Complete when every server connection is closed.
    Pause(Option<String>),
    /// Ends `Pause`, `Suspend` or `Kill`.
    Resume(Option<String>),
    /// Rejects new clients.
    Disable(String),
    /// Accepts new clients again.
    Enable(String),
    /// Replaces server connections when they become free.
    Reconnect(Option<String>),
    /// Closes all connections of a database at once, and pauses it.
    Kill(Option<String>),
    /// Waits until every server connection that `Reconnect` or `Reload` replaces is closed.
    WaitClose(Option<String>),
    /// Allows or denies the grouping of statements; `None` returns to the configuration.
    Grouping {
        /// The database.
        database: String,
        /// Its table, or the statement.
        target: GroupingTarget,
        /// Whether grouping is allowed.
        allowed: Option<bool>,
    },
    /// Lets no transaction begin. Complete when every server connection is free; the connections stay open.
    Suspend,
    /// Reads the configuration again.
    Reload,
    /// Ends the process.
    Shutdown(Shutdown),
}

/// The event after which a shutdown ends the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// At once.
    Immediate,
    /// When every transaction is over; idle clients are disconnected (`WAIT_FOR_SERVERS`).
    WaitForServers,
    /// When every client has disconnected (`WAIT_FOR_CLIENTS`).
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

/// The error for a rejected command. PgBouncer uses this SQLSTATE for all of them.
fn rejected(message: impl Into<String>) -> ErrorResponse {
    ErrorResponse::error("08P01", message)
}

fn admin_error(error: AdminError) -> ErrorResponse {
    rejected(error.to_string())
}

impl Admin {
    /// Executes a command and returns when it is complete. If the caller drops the future of `Pause` or `Suspend`, the command is
    /// undone. The future of `Shutdown(Immediate)` never completes.
    ///
    /// # Errors
    /// The error for the operator.
    pub async fn execute(self: &Arc<Self>, command: AdminCommand) -> Result<(), ErrorResponse> {
        tracing::info!(?command, "command of an operator");
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
            AdminCommand::Grouping {
                database,
                target,
                allowed,
            } => {
                self.check_named(Some(&database), "group in")?;
                self.proxy.pools.decide_grouping(&database, target, allowed);
                Ok(())
            }
            AdminCommand::Suspend => self.suspend().await,
            AdminCommand::Reload => self.reload().await,
            AdminCommand::Shutdown(when) => self.shut_down(when).await,
        }
    }

    /// Checks that a command applies to this database. `verb` names the command in the error.
    ///
    /// # Errors
    /// The database does not exist, or it is the console.
    fn check_named(&self, database: Option<&str>, verb: &str) -> Result<(), ErrorResponse> {
        let Some(name) = database else {
            return Ok(());
        };
        let config = self.proxy.config();
        if config.is_console(name) {
            return Err(rejected(format!("cannot {verb} admin db: {name}")));
        }
        // A database that has been removed from the configuration may still have clients, or be paused.
        match config.database(name).is_some()
            || !self.proxy.pools.of(database).is_empty()
            || self.proxy.pools.has_orders(name)
        {
            true => Ok(()),
            false => Err(rejected(format!("no such database: {name}"))),
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
        let order = order.map_err(admin_error)?;
        let pending = PendingOrder::new(self, order);
        let pools = self.proxy.pools.of(database);
        pending.until(replaced(&pools)).await
    }

    async fn suspend(self: &Arc<Self>) -> Result<(), ErrorResponse> {
        let order = self.proxy.pools.order(AdminState::suspend);
        let order = order.map_err(admin_error)?;
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
            return Err(rejected("pooler is shutting down"));
        }
        // PgBouncer's error for the console is that nothing is paused.
        if !database.is_some_and(|name| self.proxy.config().is_console(name)) {
            self.check_named(database, "resume")?;
        }
        let resumed = self.proxy.pools.order(|state| state.resume(database));
        resumed.map_err(admin_error)
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
        paused.map_err(admin_error)?;
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
            // The console session that has sent the command stays open until the process ends.
            Shutdown::Immediate => std::future::pending().await,
            Shutdown::WaitForServers | Shutdown::WaitForClients => Ok(()),
        }
    }

    /// Enters this phase, unless the process is in a later one already.
    pub fn begin(&self, phase: Phase) {
        self.proxy.phase.send_if_modified(|now| {
            let is_later = *now < phase;
            *now = phase.max(*now);
            is_later
        });
    }
}

/// Waits until the server connections that these pools replace are closed.
async fn replaced(pools: &[Arc<Pool>]) {
    for pool in pools {
        pool.replaced().await;
    }
}

/// A `Pause` or `Suspend` that is not complete. Dropping it undoes the command.
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

    /// Waits until the command is complete.
    ///
    /// # Errors
    /// Another operator has undone the command.
    async fn until(mut self, complete: impl Future<Output = ()>) -> Result<(), ErrorResponse> {
        let outcome = tokio::select! {
            biased;
            () = self.revoked() => Err(rejected("resumed before all server connections were free")),
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
