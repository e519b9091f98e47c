//! A library of queues and its program: whether it is installed here, and how it is run. Knows no test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use crate::harness::caretaker::{self, Adopted};
use crate::harness::installed::installed;
use crate::harness::{programs, until};

/// Folder of the installed libraries.
const FAMILY: &str = "queue-clients";

/// The properties of a library.
pub(super) struct Library {
    /// Of its folders: beside this file, and where it is installed.
    pub(super) name: &'static str,
    /// Its program, from the folder of its sources and the one where it is installed.
    pub(super) program: fn(&Path, &Path) -> Command,
    /// Reads the library's own tables: every `job` that is not completed, and whether it is `held` by a worker.
    pub(super) unfinished: &'static str,
}

/// A process that works until it is stopped.
pub(super) struct Worker {
    child: Child,
    log: PathBuf,
    _adopted: Adopted,
}

impl Library {
    /// Whether it can be run here; says why when not.
    pub(super) fn is_installed(&self) -> bool {
        installed(FAMILY, self.name).is_some()
    }

    /// Runs a command of its program to the end.
    #[track_caller]
    pub(super) fn run(&self, url: &str, command: &[&str]) {
        programs::output(self.command(url).args(command));
    }

    /// Starts a worker.
    #[track_caller]
    pub(super) fn work(&self, url: &str) -> Worker {
        let log = caretaker::folder("worker").join("log");
        let file = File::create(&log).unwrap();
        let mut command = self.command(url);
        command.arg("work").stdin(Stdio::null());
        command.stdout(file.try_clone().unwrap()).stderr(file);
        let child = command.spawn().unwrap();
        Worker {
            _adopted: caretaker::adopt("KILL", child.id()),
            child,
            log,
        }
    }

    fn command(&self, url: &str) -> Command {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/groups/queue_clients");
        let installed = installed(FAMILY, self.name).unwrap();
        let mut command = (self.program)(&sources.join(self.name), &installed);
        command.arg(url);
        command
    }
}

impl Worker {
    /// SIGKILL.
    pub(super) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM: it finishes the jobs that it holds, and ends in good order.
    #[track_caller]
    pub(super) fn stop(mut self) {
        assert_eq!(self.ended(), None, "it ended too early");
        caretaker::signal("TERM", self.child.id());
        until("the worker ends", || self.ended().is_some());
        let status = self.ended().unwrap();
        assert!(status.success(), "the worker: {status}");
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let said = std::fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("a worker said:\n{said}");
        }
    }
}
