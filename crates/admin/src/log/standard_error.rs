//! Standard error, which may be the journal of systemd.

use super::priority::priority;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use tracing::Level;

/// A duplicate of standard error, made at the start.
pub(super) struct StandardError {
    file: File,
    is_journal: bool,
}

impl StandardError {
    pub(super) fn new() -> io::Result<Self> {
        let file = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let is_journal = match (std::env::var("JOURNAL_STREAM"), file.metadata()) {
            (Ok(journal), Ok(own)) => is_stream(&journal, own.dev(), own.ino()),
            _ => false,
        };
        Ok(Self { file, is_journal })
    }

    pub(super) fn write(&self, level: Level, time: &str, line: &str) {
        let text = match self.is_journal {
            true => with_priorities(level, line),
            false => format!("{time}{line}\n"),
        };
        // If standard error is closed, an error cannot be reported.
        let _ = (&self.file).write_all(text.as_bytes());
    }
}

/// Writes to the present standard error of the process.
pub(super) fn print(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Does `JOURNAL_STREAM` (`device:inode`) name this file? A process inherits the variable even if its standard error is redirected.
pub(super) fn is_stream(journal: &str, device: u64, inode: u64) -> bool {
    let parts = journal.split_once(':');
    parts.is_some_and(|(dev, ino)| dev.parse() == Ok(device) && ino.parse() == Ok(inode))
}

/// Adds the priority to each line, because the journal reads line by line.
fn with_priorities(level: Level, text: &str) -> String {
    let priority = priority(level);
    let lines = text.lines().map(|line| format!("<{priority}>{line}\n"));
    lines.collect()
}
