//! The environment and the user on which the meaning of a command line depends.

#[cfg(feature = "embedded")]
use super::home::Home;
use paceline_config::PREFIX;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// The parts of the environment that Paceline reads.
#[derive(Debug, Clone, Default)]
pub(super) struct ProcessEnvironment {
    /// Every variable that begins with `PACELINE_` and is not empty.
    pub(super) variables: BTreeMap<String, String>,
    /// The folders of the user, for the data of the embedded PostgreSQL.
    #[cfg(feature = "embedded")]
    pub(super) home: Home,
}

impl ProcessEnvironment {
    /// Reads the environment of this process.
    pub(super) fn read() -> Self {
        Self {
            variables: std::env::vars_os().filter_map(own).collect(),
            #[cfg(feature = "embedded")]
            home: Home::read(),
        }
    }

    /// The value of the variable `PACELINE_<name>`.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        let value = self.variables.get(&format!("{PREFIX}{name}"))?;
        Some(value.as_str())
    }
}

/// A variable for Paceline. A value that is not UTF-8 gets replacement characters, so that reading the key fails.
fn own((name, value): (OsString, OsString)) -> Option<(String, String)> {
    let name = name.into_string().ok()?;
    let is_own = name.starts_with(PREFIX) && !value.is_empty();
    is_own.then(|| (name, value.to_string_lossy().into_owned()))
}
