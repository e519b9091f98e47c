//! The file that tells other programs the process id.

use anyhow::{Context, bail};
use rustix::process::{Pid, test_kill_process};
use std::path::{Path, PathBuf};

/// The file goes when this does, unless a newer process has written its own in its place.
#[derive(Debug)]
pub(super) struct PidFile(PathBuf);

impl PidFile {
    /// Writes it. What a process has left that is gone is replaced; with `replace` (several processes at one address) also
    /// that of one that runs.
    ///
    /// # Errors
    /// Another process runs, or the file cannot be written.
    pub(super) fn write(path: &Path, replace: bool) -> anyhow::Result<Self> {
        if let Some(other) = holder(path).filter(|pid| !replace && runs(*pid)) {
            bail!(
                "pidfile {} names process {other}, which runs: stop it, or choose another pidfile",
                path.display()
            );
        }
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{}", std::process::id()));
        // Nobody reads half a number.
        std::fs::write(&draft, format!("{}\n", std::process::id()))
            .and_then(|()| std::fs::rename(&draft, path))
            .with_context(|| format!("cannot write the pidfile {}", path.display()))?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if holder(&self.0) != Some(std::process::id()) {
            return;
        }
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "the pidfile could not be removed");
        }
    }
}

/// The process that a file names.
fn holder(path: &Path) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The process that the file names, if it runs and is a Paceline or PgBouncer: it is called so, or as this process is. (A process id
/// that has been given to another program since must not get a signal.)
pub(crate) fn running_process(path: &Path) -> Option<Pid> {
    let pid = holder(path).filter(|pid| runs(*pid))?;
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

/// What the system calls a process: the first 15 bytes of the file name of its program.
fn name_of(process: &str) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// Another process has this id. (In a container the id may have been this one's own, too.)
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
    fn it_names_this_process_and_goes_with_it() {
        let (_folder, path) = file("not a number");
        let written = PidFile::write(&path, false).unwrap();
        assert_eq!(holder(&path), Some(std::process::id()));
        drop(written);
        assert!(!path.exists());
    }

    #[test]
    fn that_of_a_process_that_runs_is_kept_unless_it_may_be_replaced() {
        let (_folder, path) = file("1\n");
        let refusal = PidFile::write(&path, false).unwrap_err().to_string();
        assert!(refusal.contains("names process 1, which runs"), "{refusal}");
        assert_eq!(holder(&path), Some(1));
        drop(PidFile::write(&path, true).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn that_of_a_newer_process_is_left_alone() {
        let (_folder, path) = file("");
        let written = PidFile::write(&path, false).unwrap();
        std::fs::write(&path, "1\n").unwrap();
        drop(written);
        assert_eq!(holder(&path), Some(1));
    }
}
