//! Compares the coordinator with a shard: the databases, and the definitions of tables.

use crate::facts::{ColumnFacts, DatabaseFacts, DefaultFacts, Definition};
use crate::hash::hashes_alike;
use crate::reason::{LeafProblem, ServerProblem};
use crate::table::ColumnDefault;
use std::fmt;

/// The oldest major version whose catalog shows the version of a database's collation.
const VERSION_MIN: u32 = 15;

/// The encoding in which Paceline hashes and compares text.
const ENCODING: &str = "UTF8";

/// Settings without which no statement runs on a shard: the comparison of definitions behind a statement must see the catalog as it is
/// then, and names in texts are read as UTF-8.
const WANTED_SETTINGS: [(&str, &str); 2] = [
    ("default_transaction_isolation", "read committed"),
    ("client_encoding", ENCODING),
];

impl DatabaseFacts {
    /// Checks that a server may be the coordinator of sharded tables, or a shard.
    pub(crate) fn check(&self) -> Result<(), ServerProblem> {
        if self.version < VERSION_MIN {
            return Err(ServerProblem::OldVersion(VERSION_MIN));
        }
        if self.in_recovery {
            return Err(ServerProblem::InRecovery);
        }
        if self.encoding != ENCODING {
            return Err(ServerProblem::Encoding(self.encoding.clone()));
        }
        if self.converts {
            return Err(ServerProblem::Converts);
        }
        for (name, wanted) in WANTED_SETTINGS {
            if let Some(Some(value)) = self.settings.get(name)
                && value != wanted
            {
                return Err(ServerProblem::Setting {
                    name,
                    value: value.clone(),
                    wanted,
                });
            }
        }
        match hashes_alike(&self.hashes) {
            true => Ok(()),
            false => Err(ServerProblem::OtherHashes),
        }
    }

    /// Checks that a shard with these facts matches the coordinator.
    pub(crate) fn compare(&self, coordinator: &Self) -> Result<(), ServerProblem> {
        self.check()?;
        if self.version != coordinator.version {
            return Err(ServerProblem::OtherVersion {
                own: self.version,
                coordinator: coordinator.version,
            });
        }
        if self.collation != coordinator.collation {
            return Err(ServerProblem::OtherCollation {
                own: self.collation.clone(),
                coordinator: coordinator.collation.clone(),
            });
        }
        self.compare_settings(coordinator)
    }

    fn compare_settings(&self, coordinator: &Self) -> Result<(), ServerProblem> {
        let names = coordinator.settings.keys().chain(self.settings.keys());
        for name in names {
            let value = |facts: &Self| facts.settings.get(name).cloned().flatten();
            let (own, of_coordinator) = (value(self), value(coordinator));
            if own.is_none() || own != of_coordinator {
                let shown = |value: Option<String>| value.unwrap_or_else(|| "not known".to_owned());
                return Err(ServerProblem::OtherSetting {
                    name: name.clone(),
                    own: shown(own),
                    coordinator: shown(of_coordinator),
                });
            }
        }
        Ok(())
    }
}

/// The first line that only one of the two definitions has.
pub(crate) fn compare_lines(coordinator: &[String], shard: &[String]) -> Result<(), LeafProblem> {
    if coordinator == shard {
        return Ok(());
    }
    let only = |one: &[String], other: &[String]| {
        let mut lines = one.iter().filter(|line| !other.contains(line));
        lines.next().cloned()
    };
    if let Some(line) = only(coordinator, shard) {
        return Err(LeafProblem::OnlyCoordinator(line));
    }
    match only(shard, coordinator) {
        Some(line) => Err(LeafProblem::OnlyShard(line)),
        None => Ok(()),
    }
}

/// Whether an INSERT that leaves a column out stores the same on the shard, or may not leave it out there.
pub(crate) fn compare_defaults(
    coordinator: &ColumnFacts,
    shard: &ColumnFacts,
) -> Result<(), LeafProblem> {
    let alike = match coordinator.column_default() {
        ColumnDefault::Alike => coordinator.default == shard.default,
        // The statement gives the value.
        ColumnDefault::Coordinator => shard.default != DefaultFacts::IdentityAlways,
        ColumnDefault::Identity => true,
    };
    if alike {
        return Ok(());
    }
    Err(LeafProblem::OtherDefault {
        column: coordinator.name.clone(),
        coordinator: coordinator.default.to_string(),
        shard: shard.default.to_string(),
    })
}

impl ColumnFacts {
    /// The source of the column's value on a shard if an INSERT leaves the column out.
    pub(crate) fn column_default(&self) -> ColumnDefault {
        match self.default {
            DefaultFacts::Null | DefaultFacts::Expression { portable: true, .. } => {
                ColumnDefault::Alike
            }
            DefaultFacts::Expression {
                portable: false, ..
            }
            | DefaultFacts::IdentityByDefault => ColumnDefault::Coordinator,
            DefaultFacts::IdentityAlways => ColumnDefault::Identity,
        }
    }
}

impl fmt::Display for DefaultFacts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Null => "NULL",
            Self::Expression { text, .. } => text,
            Self::IdentityByDefault => "an identity",
            Self::IdentityAlways => "an identity (GENERATED ALWAYS)",
        })
    }
}

impl Definition {
    /// A definition whose lines are in one order, whatever the catalog's.
    #[must_use]
    pub fn new(unfit: Option<String>, mut lines: Vec<String>) -> Self {
        lines.sort();
        Self { unfit, lines }
    }
}
