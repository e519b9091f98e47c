//! What operators have ordered of databases: paused, disabled, suspended. Pure: it says how a pool must be held, and holds
//! none.

#[cfg(test)]
mod tests;

use super::refused;
use crate::pool::Hold;
use paceline_wire::ErrorResponse;
use std::collections::BTreeMap;

/// Names one order to pause or to suspend, so that nobody takes back another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token(u64);

/// What has been ordered.
#[derive(Debug, Default)]
pub(crate) struct Standings {
    all: Mode,
    /// Only those of which something is ordered.
    databases: BTreeMap<String, Standing>,
    orders: u64,
}

/// What holds for all databases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Active,
    Paused(Token),
    Suspended(Token),
    /// Work comes to its end with the process.
    Closing,
}

/// What holds for one database.
#[derive(Debug, Default, PartialEq, Eq)]
struct Standing {
    /// Orders to pause whose ends are waited for: each waits for its own.
    pausing: Vec<Token>,
    /// One has been carried out, or it was killed.
    paused: bool,
    disabled: bool,
}

impl Standings {
    /// How the pools of a database are held.
    pub(crate) fn hold(&self, database: &str) -> Hold {
        let standing = self.databases.get(database);
        match self.hold_of_all() {
            Hold::Open if standing.is_some_and(Standing::is_paused) => Hold::Paused,
            hold => hold,
        }
    }

    /// How all pools are held, whatever else is said of single databases.
    pub(crate) fn hold_of_all(&self) -> Hold {
        match self.all {
            Mode::Closing => Hold::Closing,
            Mode::Paused(_) => Hold::Paused,
            Mode::Suspended(_) => Hold::Suspended,
            Mode::Active => Hold::Open,
        }
    }

    /// Is anything ordered of this database alone?
    pub(crate) fn names(&self, database: &str) -> bool {
        self.databases.contains_key(database)
    }

    /// May a client log in to this database?
    ///
    /// # Errors
    /// It is disabled.
    pub(crate) fn admit(&self, database: &str) -> Result<(), ErrorResponse> {
        match self.databases.get(database) {
            Some(Standing { disabled: true, .. }) => {
                let message = format!("database \"{database}\" is disabled");
                Err(ErrorResponse::fatal("08P01", message))
            }
            _ => Ok(()),
        }
    }

    /// PAUSE, of one database or of all.
    ///
    /// # Errors
    /// All are paused or suspended already.
    pub(crate) fn pause(&mut self, database: Option<&str>) -> Result<Token, ErrorResponse> {
        self.check_active()?;
        let token = self.token();
        match database {
            None => self.all = Mode::Paused(token),
            Some(name) => self.of(name).pausing.push(token),
        }
        Ok(token)
    }

    /// SUSPEND.
    ///
    /// # Errors
    /// Something is paused or suspended already.
    pub(crate) fn suspend(&mut self) -> Result<Token, ErrorResponse> {
        self.check_active()?;
        if self.databases.values().any(Standing::is_paused) {
            return Err(refused("cannot suspend with paused databases"));
        }
        let token = self.token();
        self.all = Mode::Suspended(token);
        Ok(token)
    }

    /// RESUME, of one database, or of everything that is paused or suspended.
    ///
    /// # Errors
    /// It is not paused, or the process comes to its end.
    pub(crate) fn resume(&mut self, database: Option<&str>) -> Result<(), ErrorResponse> {
        if self.all == Mode::Closing {
            return Err(refused("pooler is shutting down"));
        }
        match database {
            Some(name) if self.resume_one(name) => Ok(()),
            Some(name) => Err(refused(format!("database {name} is not paused"))),
            None => {
                let held = std::mem::take(&mut self.all) != Mode::Active;
                let one_held = self.resume_each();
                match held || one_held {
                    true => Ok(()),
                    false => Err(refused("pooler is not paused/suspended")),
                }
            }
        }
    }

    /// Takes back one order to pause or suspend, if it is in force.
    pub(crate) fn take_back(&mut self, token: Token) {
        if self.all.is_of(token) {
            self.all = Mode::Active;
        }
        self.end_pausing(token);
        self.forget_usual();
    }

    /// An order to pause has been carried out: only RESUME takes it back.
    pub(crate) fn carried_out(&mut self, token: Token) {
        if let Some(one) = self.end_pausing(token) {
            one.paused = true;
        }
    }

    /// Is this order in force?
    pub(crate) fn holds(&self, token: Token) -> bool {
        let mut each = self.databases.values();
        self.all.is_of(token) || each.any(|one| one.pausing.contains(&token))
    }

    /// DISABLE and ENABLE.
    pub(crate) fn disable(&mut self, database: &str, disabled: bool) {
        self.of(database).disabled = disabled;
        self.forget_usual();
    }

    /// Before KILL: whoever comes later waits.
    ///
    /// # Errors
    /// All are paused or suspended already.
    pub(crate) fn pause_each<'a>(
        &mut self,
        databases: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), ErrorResponse> {
        self.check_active()?;
        for name in databases {
            self.of(name).paused = true;
        }
        Ok(())
    }

    /// Work comes to its end with the process; nothing takes that back.
    pub(crate) fn close(&mut self) {
        self.all = Mode::Closing;
    }

    fn check_active(&self) -> Result<(), ErrorResponse> {
        match self.all {
            Mode::Active => Ok(()),
            _ => Err(refused("already suspended/paused")),
        }
    }

    fn token(&mut self) -> Token {
        self.orders += 1;
        Token(self.orders)
    }

    fn of(&mut self, database: &str) -> &mut Standing {
        self.databases.entry(database.to_owned()).or_default()
    }

    fn resume_one(&mut self, database: &str) -> bool {
        let standing = self.databases.get_mut(database);
        let paused = standing.is_some_and(Standing::resume);
        self.forget_usual();
        paused
    }

    /// True: there was one.
    fn resume_each(&mut self) -> bool {
        let mut found = false;
        for one in self.databases.values_mut() {
            found |= one.resume();
        }
        self.forget_usual();
        found
    }

    /// Nobody waits for the end of this order any more; of which database it was.
    fn end_pausing(&mut self, token: Token) -> Option<&mut Standing> {
        let mut each = self.databases.values_mut();
        each.find_map(|one| {
            let place = one.pausing.iter().position(|pausing| *pausing == token)?;
            one.pausing.swap_remove(place);
            Some(one)
        })
    }

    fn forget_usual(&mut self) {
        self.databases.retain(|_, one| *one != Standing::default());
    }
}

impl Standing {
    fn is_paused(&self) -> bool {
        self.paused || !self.pausing.is_empty()
    }

    /// True: it was paused.
    fn resume(&mut self) -> bool {
        let paused = self.is_paused();
        self.paused = false;
        self.pausing.clear();
        paused
    }
}

impl Mode {
    fn is_of(self, token: Token) -> bool {
        self == Self::Paused(token) || self == Self::Suspended(token)
    }
}
