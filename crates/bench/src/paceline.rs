//! A Paceline that the lab runs on loopback, as a process of its own.

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

/// Limit for Paceline to listen.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Limit for Paceline to shut down.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// Settings of Paceline: it also groups statements without a hint.
pub const PACELINE_SETTINGS: [&str; 2] = ["hotspot_for_autocommit=true", "default_pool_size=4"];

/// A Paceline process; it ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Paceline {
    child: Child,
    address: SocketAddr,
    /// Its configuration, if it has a file.
    _file: Option<NamedTempFile>,
}

impl Paceline {
    /// Starts the executable `program` with further `settings` in front of the servers of the URL `upstream`. Returns when it
    /// listens.
    ///
    /// # Errors
    /// Paceline does not start. No process is left running.
    pub(crate) fn start(program: &Path, upstream: &str, settings: &[&str]) -> anyhow::Result<Self> {
        Self::run(program, &["--upstream", upstream], settings, None)
    }

    /// The same for clients of this database only, so that the database may have shards.
    ///
    /// # Errors
    /// As for [`Paceline::start`]; or its configuration cannot be written.
    pub(crate) fn start_for(
        program: &Path,
        database: &str,
        upstream: &str,
        settings: &[&str],
    ) -> anyhow::Result<Self> {
        let file = tempfile::Builder::new().suffix(".toml").tempfile();
        let mut file = file.context("cannot create a temporary file")?;
        writeln!(file, "[databases.{database}]\nprimary = \"{upstream}\"")?;
        let path = file.path().display().to_string();
        Self::run(program, &["--config", &path], settings, Some(file))
    }

    fn run(
        program: &Path,
        upstream: &[&str],
        settings: &[&str],
        file: Option<NamedTempFile>,
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn"]);
        command.args(upstream);
        let settings = PACELINE_SETTINGS.iter().chain(settings);
        command.args(settings.flat_map(|setting| ["--set", setting]));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        // An interrupt at the terminal is for this process, which shuts down the others.
        let child = command.process_group(0).spawn();
        let child = child.with_context(|| format!("cannot run {}", program.display()))?;
        let mut paceline = Self {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            _file: file,
        };
        let stderr = paceline.child.stderr.take();
        let (sender, lines) = mpsc::channel();
        // The thread reads to the end, so that Paceline never blocks on a full pipe.
        thread::spawn(move || {
            let lines = stderr
                .into_iter()
                .flat_map(|stderr| BufReader::new(stderr).lines());
            for line in lines.map_while(Result::ok) {
                // Fails once `await_address` has returned.
                let _ = sender.send(line);
            }
        });
        paceline.address = await_address(&lines)?;
        Ok(paceline)
    }

    /// The port on which it listens.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }
}

/// Waits for the line "listening on ADDR:PORT".
fn await_address(lines: &Receiver<String>) -> anyhow::Result<SocketAddr> {
    let deadline = Instant::now() + START_LIMIT;
    let mut output = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(line) = lines.recv_timeout(left) else {
            let output = output.join(" / ");
            bail!("Paceline does not listen; its output: {output}");
        };
        let address = line.split_once("listening on ");
        match address.and_then(|(_, address)| address.split_whitespace().next()?.parse().ok()) {
            Some(address) => return Ok(address),
            None => output.push(line),
        }
    }
}

impl Drop for Paceline {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok();
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            // Fails if the process has already ended.
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + STOP_LIMIT;
        while Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
