//! PgBouncer's options for the process: another user (`-u`), the background (`-d`), and replacing a running process (`-R`). The
//! background process is started as a new program; nothing forks.

use crate::cli::{Daemon, Service};
use crate::serve;
use anyhow::{Context, bail};
use nix::unistd::{Uid, User, initgroups, setgid, setuid};
use paceline_config::Config;
use rustix::process::{Pid, Signal, kill_process, setsid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// The output of the background process when it listens.
const READY: &[u8] = b"\n";

/// Becomes the configured user, with all groups of that user. Only root can; nothing changes if the process runs as that user.
///
/// # Errors
/// The user does not exist, or the system does not permit the change. A program named `pgbouncer` does not run as root, as
/// PgBouncer does not.
pub(crate) fn change_user(config: &Config, service: &Service) -> anyhow::Result<()> {
    let name = &config.paceline.operation.user;
    if !name.is_empty() {
        let user = User::from_name(name).with_context(|| format!("cannot look up user {name}"))?;
        let Some(user) = user else {
            bail!("user {name} does not exist: choose another user in the configuration");
        };
        if user.uid != Uid::effective() {
            let group = user.gid;
            let names = std::ffi::CString::new(name.as_str())?;
            initgroups(&names, group)
                .and_then(|()| setgid(group))
                .and_then(|()| setuid(user.uid))
                .with_context(|| format!("cannot become user {name}: only root can"))?;
        }
    }
    if service.is_pgbouncer && Uid::effective().is_root() {
        bail!("pgbouncer does not run as root: add -u USERNAME, or user to the configuration");
    }
    Ok(())
}

/// Starts the background process, and returns when it listens or has ended.
///
/// # Errors
/// The configuration has no pidfile or no log, or the process cannot be started.
pub(crate) fn start_child(config: &Config) -> anyhow::Result<ExitCode> {
    let settings = &config.paceline;
    if settings.operation.pidfile.is_none() {
        bail!("daemon needs pidfile configured");
    }
    if settings.logging.logfile.is_none() && !settings.logging.syslog {
        bail!("daemon needs logfile or syslog configured");
    }
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let mut child = Command::new(program(&name)?)
        .arg0(name)
        // Before the other arguments: after "--", options are not recognized.
        .arg(format!("--{}", Daemon::CHILD))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the process in the background")?;
    let mut answer = [0; READY.len()];
    let mut output = child.stdout.take().context("the process has no output")?;
    if output.read_exact(&mut answer).is_ok() {
        return Ok(ExitCode::SUCCESS);
    }
    // The process has printed why it ended.
    let status = child.wait()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The path by which this program was called, which may be a symbolic link: the system names the process after it, so that `pgrep`
/// finds the process. If that path leads to another program, the program's own path.
fn program(called: &OsStr) -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let called = Path::new(called);
    let is_path = called
        .parent()
        .is_some_and(|folder| !folder.as_os_str().is_empty());
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let found = match is_path {
        true => vec![called.to_owned()],
        false => std::env::split_paths(&search_path)
            .map(|folder| folder.join(called))
            .collect(),
    };
    let is_own = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path == own);
    Ok(found.into_iter().find(is_own).unwrap_or(own))
}

/// Detaches the background process from the session and the terminal of its parent.
///
/// # Errors
/// The process is a group leader already.
pub(crate) fn leave_session() -> io::Result<()> {
    setsid().map(drop).map_err(io::Error::from)
}

/// Notifies the parent that this background process listens, and closes the streams that it inherited.
fn release_parent() -> io::Result<()> {
    io::stdout().write_all(READY)?;
    io::stdout().flush()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(())
}

/// Actions when the process listens: ends the predecessor, releases the parent.
pub(crate) struct WhenListening {
    predecessor: Option<Pid>,
    is_child: bool,
}

impl WhenListening {
    /// Reads the predecessor from the pidfile, before this process replaces the file.
    pub(crate) fn new(config: &Config, service: &Service) -> Self {
        let pidfile = config.paceline.operation.pidfile.as_deref();
        let predecessor = match service.takes_over {
            true => pidfile.and_then(serve::running_process),
            false => None,
        };
        if service.takes_over && predecessor.is_none() {
            tracing::info!("old process not found, try to continue normally");
        }
        Self {
            predecessor,
            is_child: service.daemon == Daemon::Child,
        }
    }

    /// Executes the actions.
    pub(crate) fn run(self) {
        if let Some(predecessor) = self.predecessor {
            let pid = predecessor.as_raw_nonzero();
            match kill_process(predecessor, Signal::TERM) {
                Ok(()) => tracing::info!("process {pid} ends when its clients have disconnected"),
                Err(error) => tracing::warn!(%error, "cannot send SIGTERM to process {pid}"),
            }
        }
        if self.is_child
            && let Err(error) = release_parent()
        {
            tracing::warn!(%error, "cannot close the standard streams");
        }
    }
}
