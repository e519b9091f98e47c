//! The targets of the log besides standard error. A reload opens them again.

use super::syslog::Syslog;
use paceline_config::Logging;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;
use tracing::Level;

/// The log file and the system's log.
pub struct Targets {
    file: Option<File>,
    syslog: Option<Syslog>,
}

/// The reason why a target cannot be opened.
#[derive(Debug, Error)]
pub enum LogError {
    /// The file cannot be written.
    #[error("logfile {}: {reason}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        reason: io::Error,
    },
}

impl Targets {
    /// Opens the targets. Creates a new log file if the old one has been renamed.
    ///
    /// # Errors
    /// The log file cannot be opened.
    pub fn open(logging: &Logging) -> Result<Self, LogError> {
        let file = logging.logfile.as_deref().map(append_to).transpose()?;
        Ok(Self {
            file,
            syslog: logging.syslog.then(|| Syslog::new(logging)),
        })
    }

    pub(super) fn write(&mut self, level: Level, time: &str, line: &str) {
        if let Some(file) = &mut self.file {
            // A full disk does not end the process.
            let _ = file.write_all(format!("{time}{line}\n").as_bytes());
        }
        if let Some(syslog) = &mut self.syslog {
            syslog.write(level, line);
        }
    }
}

fn append_to(path: &Path) -> Result<File, LogError> {
    let opened = File::options().create(true).append(true).open(path);
    opened.map_err(|reason| LogError::File {
        file: path.to_owned(),
        reason,
    })
}
