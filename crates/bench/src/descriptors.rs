//! The limit of open files: every client needs a file descriptor.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Descriptors for standard streams, files and the runtime.
const OTHERS: u64 = 64;

/// Raises the limit of open files so that `clients` clients can connect.
///
/// # Errors
/// The hard limit is lower. The message says how many descriptors are needed and how to raise the limit.
pub fn allow(clients: usize) -> anyhow::Result<()> {
    let needed = clients as u64 + OTHERS;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let allowed = limit.maximum.unwrap_or(u64::MAX);
    anyhow::ensure!(
        allowed >= needed,
        "{clients} clients need {needed} file descriptors, and this shell allows {allowed}; \
         allow more (ulimit -Hn {needed}, as root) or ask for fewer clients"
    );
    limit.current = Some(needed);
    setrlimit(Resource::Nofile, limit)?;
    Ok(())
}
