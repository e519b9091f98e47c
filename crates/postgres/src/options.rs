//! The options of an embedded server. No option can make the server lose data or listen on the network.

use std::path::PathBuf;

use crate::error::Error;

/// Settings that callers may not change, because durability, the restriction to loopback or the files of this crate depend
/// on them. Sorted.
const RESERVED_SETTINGS: [&str; 11] = [
    "config_file",
    "data_directory",
    "external_pid_file",
    "fsync",
    "full_page_writes",
    "hba_file",
    "ident_file",
    "listen_addresses",
    "logging_collector",
    "port",
    "unix_socket_directories",
];

/// The options of an embedded server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The data folder. It contains the cluster in `pgdata`, the log `postgresql.log` and the Unix socket in `socket` (unless that
    /// path is too long: then the socket is in a temporary folder). The server creates the folder if it is missing and keeps it
    /// when it stops.
    pub data_dir: PathBuf,
    /// The TCP port on 127.0.0.1; `None` selects a free port.
    pub port: Option<u16>,
    /// Additional settings, passed to the server as `-c name=value`. If a name occurs more than once, the last one applies.
    pub settings: Vec<(String, String)>,
    /// The folder with the binaries to use; `None` searches for them.
    pub bin_dir: Option<PathBuf>,
}

impl Options {
    /// Defaults: a free port, no additional settings, the newest suitable binaries.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            port: None,
            settings: Vec::new(),
            bin_dir: None,
        }
    }

    /// Refuses the settings that callers may not change. Like PostgreSQL, ignores case and reads `-` as `_` in names.
    pub(crate) fn check_settings(&self) -> Result<(), Error> {
        let reserved = |name: &str| {
            let name = name.trim().to_ascii_lowercase().replace('-', "_");
            RESERVED_SETTINGS.binary_search(&name.as_str()).is_ok()
        };
        match self.settings.iter().find(|(name, _)| reserved(name)) {
            Some((name, _)) => Err(Error::ReservedSetting(name.clone())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str) -> Result<(), Error> {
        let mut options = Options::new("folder");
        options.settings.push((name.to_owned(), "off".to_owned()));
        options.check_settings()
    }

    #[test]
    fn settings_for_durability_and_loopback_are_reserved() {
        for name in RESERVED_SETTINGS
            .into_iter()
            .chain(["FSYNC", "Full-Page-Writes", " fsync"])
        {
            assert!(
                matches!(check(name), Err(Error::ReservedSetting { .. })),
                "{name}"
            );
        }
        check("shared_buffers").unwrap();
        check("synchronous_commit").unwrap();
    }
}
