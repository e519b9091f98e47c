//! Logs, on standard error.
//!
//! The log keeps a handle of its own: versions of the SQL parser before 18 redirected the process's standard error while they
//! worked, and what others printed meanwhile was lost.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use tracing_subscriber::EnvFilter;

static STANDARD_ERROR: OnceLock<File> = OnceLock::new();

/// Starts logging what `filter` lets pass.
pub(crate) fn start(filter: &str) -> anyhow::Result<()> {
    let own = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let file = own.try_clone()?;
    let _ = STANDARD_ERROR.set(own);
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        anyhow::anyhow!("log level: {error}; use error, warn, info, debug or trace")
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(std::sync::Mutex::new(file))
        .init();
    Ok(())
}

/// Prints a line that is part of the command-line contract.
pub(crate) fn say(line: &str) {
    let text = format!("{line}\n");
    // Nobody is left to be told when standard error is closed.
    let _ = match STANDARD_ERROR.get() {
        Some(file) => { file }.write_all(text.as_bytes()),
        None => io::stderr().write_all(text.as_bytes()),
    };
}
