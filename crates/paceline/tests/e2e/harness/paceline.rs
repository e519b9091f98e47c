//! The binary under test, as a child process. Dropping it ends the process; its log is shown if the test has failed.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::caretaker::{self, Adopted};
use super::wait::{LIMIT, until};

/// For an orderly end after SIGTERM.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// The command line of a Paceline that is not started yet.
pub(crate) struct Builder {
    command: Command,
    listen: String,
    file: Option<PathBuf>,
    stdin: Stdio,
    stdout: Stdio,
}

/// A running Paceline.
pub(crate) struct Paceline {
    child: Child,
    _adopted: Adopted,
    address: SocketAddr,
    file: Option<PathBuf>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Paceline {
    /// In front of the server at `upstream`, on any free port.
    pub(crate) fn start(upstream: &str) -> Builder {
        Builder::new(&["--upstream", upstream])
    }

    /// With the text of a configuration file, on any free port.
    pub(crate) fn configured(text: &str) -> Builder {
        let file = caretaker::folder("p").join("paceline.toml");
        std::fs::write(&file, text).unwrap();
        let mut builder = Builder::new(&["--config", file.to_str().unwrap()]);
        builder.file = Some(file);
        builder
    }

    /// With the configuration in `file`, on any free port.
    pub(crate) fn with_file(file: &Path) -> Builder {
        Builder::new(&["--config", file.to_str().unwrap()])
    }

    /// Whether a line of the log so far holds `text`.
    pub(crate) fn logged(&self, text: &str) -> bool {
        let log = self.log.lock().unwrap();
        log.iter().any(|line| line.contains(text))
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal (a name without SIG).
    pub(crate) fn signal(&self, signal: &str) {
        caretaker::signal(signal, self.pid());
    }

    /// Its configuration file.
    pub(crate) fn file(&self) -> &Path {
        self.file.as_deref().unwrap()
    }

    /// Replaces the text of its configuration file and reloads it; returns when it has logged `answer`.
    #[track_caller]
    pub(crate) fn reload(&self, text: &str, answer: &str) {
        std::fs::write(self.file.as_ref().unwrap(), text).unwrap();
        self.signal_and_hear("HUP", answer);
    }

    /// Sends it a signal; returns when it has logged a line with `answer` since.
    #[track_caller]
    pub(crate) fn signal_and_hear(&self, signal: &str, answer: &str) {
        let heard = self.heard(answer);
        self.signal(signal);
        until(&format!("it says {answer:?}"), || {
            self.heard(answer) > heard
        });
    }

    /// The number of logged lines with this text.
    pub(crate) fn heard(&self, text: &str) -> usize {
        let log = self.log.lock().unwrap();
        log.iter().filter(|line| line.contains(text)).count()
    }

    /// Returns its exit code when it has ended by itself.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        until("it has ended", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status?.code()
    }

    /// It has not ended.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// The address and port of the metrics.
    #[track_caller]
    pub(crate) fn metrics(&self) -> String {
        let url = self.announced("metrics at http://");
        url.strip_suffix("/metrics").unwrap().to_owned()
    }

    /// The URL of the web console, without the last slash.
    #[track_caller]
    pub(crate) fn web_console(&self) -> String {
        let url = self.announced("web console at ");
        url.strip_suffix('/').unwrap().to_owned()
    }

    /// The rest of the line with this text.
    #[track_caller]
    fn announced(&self, text: &str) -> String {
        let log = self.log.lock().unwrap();
        let mut found = log.iter().filter_map(|line| line.split_once(text));
        found.next().unwrap().1.to_owned()
    }

    /// Resident memory in KiB: now, or the most it ever was (`VmRSS`, `VmHWM`).
    pub(crate) fn memory_kib(&self, which: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(which)).unwrap();
        let number = line.split_whitespace().nth(1).unwrap();
        number.parse().unwrap()
    }

    /// Asks it to end (SIGTERM) and returns its exit code; `None` when it had to be killed.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        caretaker::signal("TERM", self.pid());
        let deadline = Instant::now() + STOP_LIMIT;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.code();
            }
            thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        None
    }
}

impl Builder {
    fn new(source: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        command.arg("serve").args(source);
        // Variables for the tests are no settings of Paceline.
        let environment = std::env::vars_os().map(|(name, _)| name);
        for name in environment.filter(|name| name.as_encoded_bytes().starts_with(b"PACELINE_")) {
            command.env_remove(name);
        }
        let builder = Self {
            command,
            listen: "127.0.0.1:0".to_owned(),
            file: None,
            stdin: Stdio::null(),
            stdout: Stdio::null(),
        };
        builder.set("shutdown_timeout=0")
    }

    /// On this port, instead of any free one.
    pub(crate) fn at(self, port: u16) -> Self {
        self.listen(&format!("127.0.0.1:{port}"))
    }

    /// Another address to listen on.
    pub(crate) fn listen(mut self, address: &str) -> Self {
        self.listen = address.to_owned();
        self
    }

    /// Started by this program, which is given the command line as its last arguments.
    pub(crate) fn by(mut self, mut starter: Command) -> Self {
        starter.arg(self.command.get_program());
        starter.args(self.command.get_args());
        self.command = starter;
        self
    }

    /// With these as standard input and output.
    pub(crate) fn passing(mut self, stdin: OwnedFd, stdout: OwnedFd) -> Self {
        (self.stdin, self.stdout) = (stdin.into(), stdout.into());
        self
    }

    /// A setting, `key=value`.
    pub(crate) fn set(mut self, setting: &str) -> Self {
        self.command.args(["--set", setting]);
        self
    }

    /// A variable of its environment.
    pub(crate) fn environment(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it; returns when it listens.
    #[track_caller]
    pub(crate) fn spawn(mut self) -> Paceline {
        self.command.args(["--listen", &self.listen]);
        let mut child = self
            .command
            .stdin(self.stdin)
            .stdout(self.stdout)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let adopted = caretaker::adopt("KILL", child.id());
        let log = Arc::new(Mutex::new(Vec::new()));
        let (sender, listening) = channel();
        let stderr = child.stderr.take().unwrap();
        let copy = log.clone();
        thread::spawn(move || drain(stderr, &copy, &sender));
        match await_address(&listening) {
            Some(address) => Paceline {
                child,
                _adopted: adopted,
                address,
                file: self.file,
                log,
            },
            None => {
                let _ = child.kill();
                let _ = child.wait();
                panic!("paceline does not listen: {:#?}", log.lock().unwrap());
            }
        }
    }
}

impl Drop for Paceline {
    fn drop(&mut self) {
        self.stop();
        if thread::panicking() {
            let log = self.log.lock().unwrap_or_else(|lock| lock.into_inner());
            eprintln!("paceline said:");
            log.iter().for_each(|line| eprintln!("  {line}"));
        }
    }
}

/// Reads standard error to its end, so that Paceline never waits for a full pipe.
fn drain(stderr: ChildStderr, log: &Mutex<Vec<String>>, listening: &Sender<SocketAddr>) {
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        if let Some(address) = address_in(&line) {
            // After the first, the receiver is gone.
            let _ = listening.send(address);
        }
        log.lock().unwrap().push(line);
    }
}

fn address_in(line: &str) -> Option<SocketAddr> {
    let (_, address) = line.split_once("listening on ")?;
    address.split_whitespace().next()?.parse().ok()
}

fn await_address(listening: &Receiver<SocketAddr>) -> Option<SocketAddr> {
    listening.recv_timeout(LIMIT).ok()
}
