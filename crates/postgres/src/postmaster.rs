//! The postmaster as a child process: its exit, a clean shutdown, and SIGKILL. It never waits without a limit.

use std::iter;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::error::Error;
use crate::processes;

/// Limit for a fast shutdown, including its checkpoint.
const STOP_TIME_LIMIT: Duration = Duration::from_secs(60);
/// Limit for processes to disappear after SIGKILL.
const KILL_TIME_LIMIT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A postmaster that this process has started.
#[derive(Debug)]
pub(crate) struct Postmaster {
    child: Child,
}

impl Postmaster {
    pub(crate) fn spawn(mut command: Command) -> Result<Self, Error> {
        let child = command
            .spawn()
            .map_err(Error::io("run", command.get_program()))?;
        Ok(Self { child })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The exit status of the postmaster; `None` while it runs.
    pub(crate) fn exit_status(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child
            .try_wait()
            .map_err(Error::io("wait for", "postgres"))
    }

    /// Requests a fast shutdown; kills the server if that takes too long.
    pub(crate) fn stop(&mut self, pgdata: &Path) -> Result<(), Error> {
        if self.exit_status()?.is_none() {
            processes::signal(self.pid(), Signal::INT);
        }
        if self.wait_for_exit(STOP_TIME_LIMIT)?.is_some() {
            return Ok(());
        }
        self.kill(pgdata)?;
        Err(Error::StopTimedOut {
            pid: self.pid(),
            seconds: STOP_TIME_LIMIT.as_secs(),
        })
    }

    /// Sends SIGKILL to the postmaster and to its children, each of which has its own process group. Returns when none of
    /// them exists any more.
    pub(crate) fn kill(&mut self, pgdata: &Path) -> Result<(), Error> {
        if self.exit_status()?.is_none() {
            // A stopped postmaster starts no child while this function lists them.
            processes::signal(self.pid(), Signal::STOP);
        }
        let children = processes::children(self.pid());
        for pid in children.iter().copied() {
            processes::signal(pid, Signal::KILL);
        }
        self.child.kill().map_err(Error::io("kill", "postgres"))?;
        if self.wait_for_exit(KILL_TIME_LIMIT)?.is_none() {
            return Err(still_running(self.pid()));
        }
        wait_for_children(&children, pgdata)
    }

    /// Waits for the postmaster to exit. Returns `None` when the limit has passed.
    fn wait_for_exit(&mut self, limit: Duration) -> Result<Option<ExitStatus>, Error> {
        let deadline = Instant::now() + limit;
        loop {
            let status = self.exit_status()?;
            if status.is_some() || Instant::now() > deadline {
                return Ok(status);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Waits until the killed children have exited. Also kills children that the list did not contain.
fn wait_for_children(killed: &[u32], pgdata: &Path) -> Result<(), Error> {
    let deadline = Instant::now() + KILL_TIME_LIMIT;
    loop {
        let missed = processes::servers_in(pgdata);
        for pid in missed.iter().copied() {
            processes::signal(pid, Signal::KILL);
        }
        let alive = iter::chain(missed, killed.iter().copied()).find(|pid| processes::alive(*pid));
        match alive {
            None => return Ok(()),
            Some(pid) if Instant::now() > deadline => return Err(still_running(pid)),
            Some(_) => thread::sleep(POLL_INTERVAL),
        }
    }
}

fn still_running(pid: u32) -> Error {
    Error::StillRunning {
        pid,
        seconds: KILL_TIME_LIMIT.as_secs(),
    }
}
