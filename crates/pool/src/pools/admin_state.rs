//! The orders of operators: which databases are paused, disabled or suspended. Pure: knows no pool.

#[cfg(test)]
mod tests;

use crate::pool::PoolState;
use paceline_wire::ErrorResponse;
use std::collections::BTreeMap;
use thiserror::Error;

/// Identifies one order to pause or suspend, so that an operator takes back only that order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderId(u64);

/// The reason why an order is refused, in PgBouncer's words.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AdminError {
    /// All databases are paused or suspended.
    #[error("already suspended/paused")]
    AlreadyHeld,
    /// A database is paused, and SUSPEND is ordered.
    #[error("cannot suspend with paused databases")]
    PausedDatabases,
    /// RESUME of a database that is not paused.
    #[error("database {0} is not paused")]
    NotPaused(String),
    /// RESUME while nothing is paused or suspended.
    #[error("pooler is not paused/suspended")]
    NothingPaused,
    /// The process ends.
    #[error("pooler is shutting down")]
    ShuttingDown,
}

/// The orders in force.
#[derive(Debug, Default)]
pub struct AdminState {
    all: GlobalState,
    /// Databases with orders of their own.
    databases: BTreeMap<String, DatabaseState>,
    orders: u64,
}

/// The order for all databases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum GlobalState {
    #[default]
    Active,
    Paused(OrderId),
    Suspended(OrderId),
    /// The process ends.
    Closing,
}

/// The orders for one database.
#[derive(Debug, Default, PartialEq, Eq)]
struct DatabaseState {
    /// Orders to pause that are not complete yet.
    pausing: Vec<OrderId>,
    /// An order to pause is complete, or the database was killed.
    paused: bool,
    disabled: bool,
}

impl AdminState {
    /// The state of the pools of a database.
    pub fn state(&self, database: &str) -> PoolState {
        let standing = self.databases.get(database);
        match self.state_of_all() {
            PoolState::Active if standing.is_some_and(DatabaseState::is_paused) => {
                PoolState::Paused
            }
            state => state,
        }
    }

    /// The state of all pools, without the orders for single databases.
    pub(crate) fn state_of_all(&self) -> PoolState {
        match self.all {
            GlobalState::Closing => PoolState::ShuttingDown,
            GlobalState::Paused(_) => PoolState::Paused,
            GlobalState::Suspended(_) => PoolState::Suspended,
            GlobalState::Active => PoolState::Active,
        }
    }

    /// Whether there is an order for this database alone.
    pub fn has_orders(&self, database: &str) -> bool {
        self.databases.contains_key(database)
    }

    /// Whether clients may log in to a database.
    ///
    /// # Errors
    /// The database is disabled.
    pub fn admit(&self, database: &str) -> Result<(), ErrorResponse> {
        match self.databases.get(database) {
            Some(DatabaseState { disabled: true, .. }) => {
                let message = format!("database \"{database}\" is disabled");
                Err(ErrorResponse::fatal("08P01", message))
            }
            _ => Ok(()),
        }
    }

    /// PAUSE, of one database or of all.
    ///
    /// # Errors
    /// All databases are paused or suspended.
    pub fn pause(&mut self, database: Option<&str>) -> Result<OrderId, AdminError> {
        self.check_active()?;
        let order = self.order();
        match database {
            None => self.all = GlobalState::Paused(order),
            Some(name) => self.of(name).pausing.push(order),
        }
        Ok(order)
    }

    /// SUSPEND.
    ///
    /// # Errors
    /// A database is paused or suspended.
    pub fn suspend(&mut self) -> Result<OrderId, AdminError> {
        self.check_active()?;
        if self.databases.values().any(DatabaseState::is_paused) {
            return Err(AdminError::PausedDatabases);
        }
        let order = self.order();
        self.all = GlobalState::Suspended(order);
        Ok(order)
    }

    /// RESUME, of one database, or of everything that is paused or suspended.
    ///
    /// # Errors
    /// The database is not paused, or the process ends.
    pub fn resume(&mut self, database: Option<&str>) -> Result<(), AdminError> {
        if self.all == GlobalState::Closing {
            return Err(AdminError::ShuttingDown);
        }
        match database {
            Some(name) if self.resume_one(name) => Ok(()),
            Some(name) => Err(AdminError::NotPaused(name.to_owned())),
            None => {
                let held = std::mem::take(&mut self.all) != GlobalState::Active;
                let one_held = self.resume_each();
                match held || one_held {
                    true => Ok(()),
                    false => Err(AdminError::NothingPaused),
                }
            }
        }
    }

    /// Takes back one order to pause or suspend, if it is in force.
    pub fn take_back(&mut self, order: OrderId) {
        if self.all.is_of(order) {
            self.all = GlobalState::Active;
        }
        self.end_pausing(order);
        self.forget_default();
    }

    /// An order to pause is complete: from now on only RESUME ends it.
    pub fn complete(&mut self, order: OrderId) {
        if let Some(one) = self.end_pausing(order) {
            one.paused = true;
        }
    }

    /// Whether this order is in force.
    pub(crate) fn is_in_force(&self, order: OrderId) -> bool {
        let mut each = self.databases.values();
        self.all.is_of(order) || each.any(|one| one.pausing.contains(&order))
    }

    /// DISABLE and ENABLE.
    pub fn disable(&mut self, database: &str, disabled: bool) {
        self.of(database).disabled = disabled;
        self.forget_default();
    }

    /// Pauses databases before KILL: later clients wait.
    ///
    /// # Errors
    /// All databases are paused or suspended.
    pub fn pause_each<'a>(
        &mut self,
        databases: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), AdminError> {
        self.check_active()?;
        for name in databases {
            self.of(name).paused = true;
        }
        Ok(())
    }

    /// The process ends; nothing takes this back.
    pub fn close(&mut self) {
        self.all = GlobalState::Closing;
    }

    fn check_active(&self) -> Result<(), AdminError> {
        match self.all {
            GlobalState::Active => Ok(()),
            _ => Err(AdminError::AlreadyHeld),
        }
    }

    fn order(&mut self) -> OrderId {
        self.orders += 1;
        OrderId(self.orders)
    }

    fn of(&mut self, database: &str) -> &mut DatabaseState {
        self.databases.entry(database.to_owned()).or_default()
    }

    fn resume_one(&mut self, database: &str) -> bool {
        let standing = self.databases.get_mut(database);
        let paused = standing.is_some_and(DatabaseState::resume);
        self.forget_default();
        paused
    }

    /// Returns whether a database was paused.
    fn resume_each(&mut self) -> bool {
        let mut found = false;
        for one in self.databases.values_mut() {
            found |= one.resume();
        }
        self.forget_default();
        found
    }

    /// Removes an order that is not complete; returns its database.
    fn end_pausing(&mut self, order: OrderId) -> Option<&mut DatabaseState> {
        let mut each = self.databases.values_mut();
        each.find_map(|one| {
            let place = one.pausing.iter().position(|pausing| *pausing == order)?;
            one.pausing.swap_remove(place);
            Some(one)
        })
    }

    fn forget_default(&mut self) {
        self.databases
            .retain(|_, one| *one != DatabaseState::default());
    }
}

impl DatabaseState {
    fn is_paused(&self) -> bool {
        self.paused || !self.pausing.is_empty()
    }

    /// Returns whether the database was paused.
    fn resume(&mut self) -> bool {
        let paused = self.is_paused();
        self.paused = false;
        self.pausing.clear();
        paused
    }
}

impl GlobalState {
    fn is_of(self, order: OrderId) -> bool {
        self == Self::Paused(order) || self == Self::Suspended(order)
    }
}
