//! How the process runs where PgBouncer's users expect it to: as another user, in the background, in the place of a process that
//! runs already. Nothing here forks: the background process is started as a new one.

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

/// What the background process says when it listens.
const READY: &[u8] = b"\n";

/// Becomes the configured user, with all groups of it. Root only can; whoever is that user already stays so.
///
/// # Errors
/// There is no such user, or the system refuses. As PgBouncer, a process that is called so does not run as root.
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

/// Starts the background process, and returns when that listens or has ended.
///
/// # Errors
/// The configuration lacks what a process in the background needs, or it cannot be started.
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
        // First: behind "--" nothing is an option.
        .arg(format!("--{}", Daemon::CHILD))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the process in the background")?;
    let mut said = [0; READY.len()];
    let mut output = child.stdout.take().context("the process has no output")?;
    if output.read_exact(&mut said).is_ok() {
        return Ok(ExitCode::SUCCESS);
    }
    // It has said why.
    let status = child.wait()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The path of this program as it was called, by a symbolic link perhaps: the system names the process after it, and `pgrep` finds
/// it by that name. If the name leads to another program, the path is the program's own.
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

/// The background process leaves the session and the terminal that it was started from.
///
/// # Errors
/// The system refuses.
pub(crate) fn leave_session() -> io::Result<()> {
    setsid().map(drop).map_err(io::Error::from)
}

/// The background process listens: whoever has started it need not wait, and nothing of theirs stays open.
fn let_parent_go() -> io::Result<()> {
    io::stdout().write_all(READY)?;
    io::stdout().flush()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    Ok(())
}

/// What is to be done when the process listens.
pub(crate) struct OnceListening {
    predecessor: Option<Pid>,
    is_child: bool,
}

impl OnceListening {
    /// Looks for the process that this one takes over from, which the pidfile names until this one writes it.
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

    /// Does it.
    pub(crate) fn run(self) {
        if let Some(predecessor) = self.predecessor {
            let pid = predecessor.as_raw_nonzero();
            match kill_process(predecessor, Signal::TERM) {
                Ok(()) => tracing::info!("process {pid} ends when its clients have left"),
                Err(error) => tracing::warn!(%error, "process {pid} cannot be asked to end"),
            }
        }
        if self.is_child
            && let Err(error) = let_parent_go()
        {
            tracing::warn!(%error, "standard streams stay as they were");
        }
    }
}
