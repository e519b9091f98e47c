//! Where the configuration of `serve` comes from: what a reload reads again.

use crate::config::{Config, ConfigError};
use std::fmt;
use std::path::PathBuf;

/// The arguments of `serve` that make up its configuration, as they were given.
#[derive(Default)]
pub(crate) struct Source {
    /// `--upstream`.
    pub(super) upstream: Option<String>,
    /// `--config`.
    pub(super) file: Option<PathBuf>,
    /// `--set`, in order.
    pub(super) set: Vec<String>,
    /// `--listen`.
    pub(super) listen: Option<String>,
}

/// The rest may hold passwords.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Source");
        shown.field("file", &self.file).finish_non_exhaustive()
    }
}

impl Source {
    /// What messages call it.
    pub(super) fn place(&self) -> String {
        let file = self.file.as_ref().map(|file| file.display().to_string());
        file.unwrap_or_else(|| "paceline serve".to_owned())
    }

    /// The configuration as it is written now.
    ///
    /// # Errors
    /// [`ConfigError`] with everything that is wrong with it.
    pub(crate) fn read(&self) -> Result<Config, ConfigError> {
        let mut config = match (&self.upstream, &self.file) {
            (Some(url), _) => Config::for_upstream(url)?,
            (None, Some(file)) => Config::load(file)?,
            (None, None) => Config::default(),
        };
        for assignment in &self.set {
            config.set(assignment)?;
        }
        if let Some(address) = &self.listen {
            config.set(&format!("listen={address}"))?;
        }
        config.check_access(&self.place())?;
        Ok(config)
    }
}
