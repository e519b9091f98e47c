//! The machine and the user that a command line is resolved for.

#[cfg(feature = "embedded")]
use super::home::Home;
use paceline_config::PREFIX;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// What matters of the environment.
#[derive(Debug, Clone, Default)]
pub(super) struct Machine {
    /// Every variable that begins with `PACELINE_` and is not empty.
    pub(super) environment: BTreeMap<String, String>,
    /// For the embedded PostgreSQL.
    #[cfg(feature = "embedded")]
    pub(super) home: Home,
}

impl Machine {
    /// The machine that this process runs on.
    pub(super) fn this() -> Machine {
        Machine {
            environment: std::env::vars_os().filter_map(own).collect(),
            #[cfg(feature = "embedded")]
            home: Home::this(),
        }
    }

    /// What the variable `PACELINE_<name>` says.
    pub(super) fn said(&self, name: &str) -> Option<&str> {
        let value = self.environment.get(&format!("{PREFIX}{name}"))?;
        Some(value.as_str())
    }
}

/// A variable that is meant for Paceline. What is not UTF-8 fits no key, and is told so.
fn own((name, value): (OsString, OsString)) -> Option<(String, String)> {
    let name = name.into_string().ok()?;
    let is_own = name.starts_with(PREFIX) && !value.is_empty();
    is_own.then(|| (name, value.to_string_lossy().into_owned()))
}
