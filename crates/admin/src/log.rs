//! The log: to standard error, to a file (`logfile`) and to the system's log (`syslog`), in any combination.
//!
//! The log keeps a handle of standard error of its own: versions of the SQL parser before 18 redirected the process's while they
//! worked, and what others printed meanwhile was lost. If standard error is the journal of systemd, each line begins with its
//! priority (`sd-daemon(3)`) and has no time, because the journal has one. What the system's log does not take at once is lost; a
//! full pipe at standard error or as `logfile` holds up the process, as it does PgBouncer.

mod priority;
mod standard_error;
mod syslog;
mod targets;
#[cfg(test)]
mod tests;

pub use targets::{LogError, Targets};

use paceline_config::Logging;
use standard_error::StandardError;
use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

static LOG: OnceLock<Log> = OnceLock::new();

/// Where the log goes, and what of it.
struct Log {
    /// `None`: nothing is written there (`-q`).
    standard_error: Option<StandardError>,
    targets: Mutex<Targets>,
    filter: reload::Handle<EnvFilter, Registry>,
    /// The command line or the environment says what is logged; `verbose` does not.
    is_filter_said: bool,
}

/// How to log.
pub struct Manner<'a> {
    /// A level, or directives of [`EnvFilter`], as the command line or the environment says it; `None`: `verbose` does.
    pub filter: Option<&'a str>,
    /// Nothing but failures goes to standard error.
    pub quiet: bool,
}

/// Starts logging.
///
/// # Errors
/// The filter is none, or the file cannot be opened.
pub fn start(manner: &Manner<'_>, logging: &Logging) -> anyhow::Result<()> {
    let said = manner.filter.unwrap_or(level(logging.verbose));
    let filter = EnvFilter::try_new(said).map_err(|error| {
        anyhow::anyhow!("log level: {error}; use error, warn, info, debug or trace")
    })?;
    let (filter, handle) = reload::Layer::new(filter);
    let standard_error = match manner.quiet {
        true => None,
        false => Some(StandardError::new()?),
    };
    let _ = LOG.set(Log {
        standard_error,
        targets: Mutex::new(Targets::open(logging)?),
        filter: handle,
        is_filter_said: manner.filter.is_some(),
    });
    let lines = fmt::layer()
        .without_time()
        .with_ansi(false)
        .with_writer(Lines);
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .init();
    Ok(())
}

/// The level that `verbose` stands for.
fn level(verbose: usize) -> &'static str {
    match verbose {
        0 => "info",
        1 => "debug",
        _ => "trace",
    }
}

/// Logs to these targets from now on.
pub fn write_to(targets: Targets) {
    if let Some(log) = LOG.get() {
        *log.lock() = targets;
    }
}

/// Logs as much as `verbose` says, unless the command line or the environment says how much.
pub fn set_verbose(verbose: usize) {
    let Some(log) = LOG.get().filter(|log| !log.is_filter_said) else {
        return;
    };
    // The subscriber is there as long as the process.
    let _ = log.filter.reload(EnvFilter::new(level(verbose)));
}

/// Prints a line that is part of the command-line contract.
pub fn say(line: &str) {
    match LOG.get() {
        Some(log) => log.say(Level::INFO, line),
        None => standard_error::print(line),
    }
}

/// Says why the process ends. Standard error has it in any case.
pub fn fail(line: &str) {
    match LOG.get() {
        Some(log) => {
            if log.standard_error.is_none() {
                standard_error::print(line);
            }
            log.say(Level::ERROR, line);
        }
        None => standard_error::print(line),
    }
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Targets> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line of the log: level, module and message.
    fn write(&self, level: Level, line: &str) {
        let time = now();
        if let Some(standard_error) = &self.standard_error {
            standard_error.write(level, &time, line);
        }
        self.lock().write(level, &time, line);
    }

    /// A line that has no time on standard error.
    fn say(&self, level: Level, line: &str) {
        if let Some(standard_error) = &self.standard_error {
            standard_error.write(level, "", line);
        }
        self.lock()
            .write(level, &now(), &format!("{level:>5} {line}"));
    }
}

/// The time, as every line begins.
fn now() -> String {
    let mut time = String::new();
    // A String takes everything.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    time.push(' ');
    time
}

/// A line of the log may quote what clients and servers have sent: characters that could end a line, or change how a terminal
/// shows it, are escaped.
fn escaped(line: &str) -> Cow<'_, str> {
    const MARKS: [RangeInclusive<char>; 3] = [
        '\u{200e}'..='\u{200f}',
        '\u{2028}'..='\u{202e}',
        '\u{2066}'..='\u{2069}',
    ];
    let is_hidden = |c: char| c.is_control() || MARKS.iter().any(|marks| marks.contains(&c));
    if !line.contains(is_hidden) {
        return Cow::Borrowed(line);
    }
    let shown = |c: char| match is_hidden(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    Cow::Owned(line.chars().map(shown).collect())
}

/// Passes each line on with its level.
struct Lines;

struct Line(Level);

impl MakeWriter<'_> for Lines {
    type Writer = Line;

    fn make_writer(&self) -> Line {
        Line(Level::INFO)
    }

    fn make_writer_for(&self, metadata: &Metadata<'_>) -> Line {
        Line(*metadata.level())
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(log) = LOG.get() {
            log.write(self.0, &escaped(String::from_utf8_lossy(bytes).trim_end()));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
