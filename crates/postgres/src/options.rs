//! What a caller may choose about an embedded server. It never lets a setting make the server lose data or listen to
//! the network.

use std::path::PathBuf;

use crate::error::Error;

/// Settings that the server's durability, locality or bookkeeping rests on, sorted.
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

/// How to run an embedded server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder that holds everything: the cluster in `pgdata`, the log `postgresql.log`, the Unix socket in `socket`.
    /// Created when missing, kept when the server stops.
    pub data_dir: PathBuf,
    /// The TCP port on 127.0.0.1; `None` takes any free one.
    pub port: Option<u16>,
    /// Extra settings, given to the server as `-c name=value`; the last of a name wins.
    pub settings: Vec<(String, String)>,
    /// Use the binaries in this folder and no others.
    pub bin_dir: Option<PathBuf>,
    /// The Unix socket's folder; `None` takes `data_dir/socket`, or one in the temporary folder if that is too long.
    pub socket_dir: Option<PathBuf>,
}

impl Options {
    /// Any free port, no extra settings, the newest fitting binaries.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            port: None,
            settings: Vec::new(),
            bin_dir: None,
            socket_dir: None,
        }
    }

    /// Refuses settings that the caller must not choose. PostgreSQL ignores case and takes `-` for `_` in their names.
    pub(crate) fn check_settings(&self) -> Result<(), Error> {
        let reserved = |name: &str| {
            let name = name.trim().to_ascii_lowercase().replace('-', "_");
            RESERVED_SETTINGS.binary_search(&name.as_str()).is_ok()
        };
        match self.settings.iter().find(|(name, _)| reserved(name)) {
            Some((name, _)) => Err(Error::ReservedSetting { name: name.clone() }),
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
    fn durability_and_locality_are_not_up_for_choice() {
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
