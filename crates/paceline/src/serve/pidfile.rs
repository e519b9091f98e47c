//! The pidfile, from which other programs read the process id.

use anyhow::{Context, bail};
use rustix::process::{Pid, test_kill_process};
use std::path::{Path, PathBuf};

/// The pidfile of this process. Dropping it removes the file, unless another process has replaced it.
#[derive(Debug)]
pub(super) struct PidFileGuard(PathBuf);

impl PidFileGuard {
    /// Writes the file. Replaces the file of a process that has ended, and with `replace` (several processes at one address) also
    /// that of a running process.
    ///
    /// # Errors
    /// The process that the file names runs, or the file cannot be written.
    pub(super) fn write(path: &Path, replace: bool) -> anyhow::Result<Self> {
        if let Some(other) = read_pid(path).filter(|pid| !replace && runs(*pid)) {
            bail!(
                "pidfile {} names process {other}, which runs: stop it, or choose another pidfile",
                path.display()
            );
        }
        let mut new_file = path.as_os_str().to_owned();
        new_file.push(format!(".{}", std::process::id()));
        // Renaming prevents that a reader gets half a number.
        std::fs::write(&new_file, format!("{}\n", std::process::id()))
            .and_then(|()| std::fs::rename(&new_file, path))
            .with_context(|| format!("cannot write the pidfile {}", path.display()))?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for PidFileGuard {
    fn drop(&mut self) {
        if read_pid(&self.0) != Some(std::process::id()) {
            return;
        }
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "the pidfile could not be removed");
        }
    }
}

/// The process id in a pidfile.
fn read_pid(path: &Path) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The process that the file names, if it runs and its name is `paceline`, `pgbouncer` or that of this process. Another program may
/// have got the process id, and must not get a signal.
pub(crate) fn running_process(path: &Path) -> Option<Pid> {
    let pid = read_pid(path).filter(|pid| runs(*pid))?;
    let own = name_of("self");
    let name = name_of(&pid.to_string())?;
    let is_known = matches!(name.as_str(), "paceline" | "pgbouncer") || own == Some(name.clone());
    if !is_known {
        let file = path.display();
        tracing::warn!(
            "the pidfile {file} names process {pid}, which is called {name}: it is no Paceline or PgBouncer, and is not asked to end"
        );
        return None;
    }
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// The system's name of a process: the first 15 bytes of the file name of its program.
fn name_of(process: &str) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// Does another process with this id run? In a container, an earlier process may have had the id of this one.
fn runs(pid: u32) -> bool {
    let found = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let runs = |pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH);
    pid != std::process::id() && found.is_some_and(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("paceline.pid");
        std::fs::write(&path, content).unwrap();
        (folder, path)
    }

    #[test]
    fn the_pidfile_names_this_process_until_it_ends() {
        let (_folder, path) = file("not a number");
        let written = PidFileGuard::write(&path, false).unwrap();
        assert_eq!(read_pid(&path), Some(std::process::id()));
        drop(written);
        assert!(!path.exists());
    }

    #[test]
    fn the_pidfile_of_a_running_process_is_replaced_only_on_request() {
        let (_folder, path) = file("1\n");
        let error = PidFileGuard::write(&path, false).unwrap_err().to_string();
        assert!(error.contains("names process 1, which runs"), "{error}");
        assert_eq!(read_pid(&path), Some(1));
        drop(PidFileGuard::write(&path, true).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn the_pidfile_of_a_newer_process_is_not_removed() {
        let (_folder, path) = file("");
        let written = PidFileGuard::write(&path, false).unwrap();
        std::fs::write(&path, "1\n").unwrap();
        drop(written);
        assert_eq!(read_pid(&path), Some(1));
    }
}
