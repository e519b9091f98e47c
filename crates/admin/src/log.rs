//! The log: to standard error, to a file (`logfile`) and to the system's log (`syslog`), in any combination.
//!
//! The log duplicates standard error at the start: versions of the SQL parser before 18 redirect that of the process while they
//! parse, and output of other threads would be lost. If standard error is the journal of systemd, each line begins with its priority
//! (`sd-daemon(3)`) and has no time, because the journal adds one. Messages that the system's log does not accept at once are lost. A
//! full pipe at standard error or as `logfile` blocks the process, as it blocks PgBouncer.

mod priority;
mod recent;
mod standard_error;
mod syslog;
mod targets;
#[cfg(test)]
mod tests;

pub(crate) use recent::record;
#[cfg(test)]
pub(crate) use recent::recorders;
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

/// The targets and the filter of the log.
struct Log {
    /// `None` with `-q`.
    standard_error: Option<StandardError>,
    targets: Mutex<Targets>,
    filter: reload::Handle<EnvFilter, Registry>,
    /// The command line or the environment sets the filter, so `verbose` has no effect.
    is_filter_fixed: bool,
}

/// The options of the log on the command line and in the environment.
pub struct LogOptions<'a> {
    /// A level, or directives of [`EnvFilter`]; `None`: `verbose` sets the level.
    pub filter: Option<&'a str>,
    /// Writes nothing to standard error except the error that ends the process.
    pub quiet: bool,
}

/// Starts logging.
///
/// # Errors
/// The filter is not valid, or the log file cannot be opened.
pub fn start(options: &LogOptions<'_>, logging: &Logging) -> anyhow::Result<()> {
    let directives = options.filter.unwrap_or(level(logging.verbose));
    let filter = EnvFilter::try_new(directives).map_err(|error| {
        anyhow::anyhow!("log level: {error}; use error, warn, info, debug or trace")
    })?;
    let (filter, handle) = reload::Layer::new(filter);
    let standard_error = match options.quiet {
        true => None,
        false => Some(StandardError::new()?),
    };
    let _ = LOG.set(Log {
        standard_error,
        targets: Mutex::new(Targets::open(logging)?),
        filter: handle,
        is_filter_fixed: options.filter.is_some(),
    });
    let lines = fmt::layer()
        .without_time()
        .with_ansi(false)
        .with_writer(LogWriter);
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .init();
    Ok(())
}

/// The log level for a value of `verbose`.
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

/// Sets the level for a value of `verbose`, unless the command line or the environment sets the filter.
pub fn set_verbose(verbose: usize) {
    let Some(log) = LOG.get().filter(|log| !log.is_filter_fixed) else {
        return;
    };
    // The subscriber lives until the process ends, so this cannot fail.
    let _ = log.filter.reload(EnvFilter::new(level(verbose)));
}

/// Prints a line that is part of the command-line contract, and logs it.
pub fn print_line(line: &str) {
    match LOG.get() {
        Some(log) => log.write_plain(Level::INFO, line),
        None => standard_error::print(line),
    }
}

/// Prints the error that ends the process, also with `-q`, and logs it.
pub fn print_error(line: &str) {
    match LOG.get() {
        Some(log) => {
            if log.standard_error.is_none() {
                standard_error::print(line);
            }
            log.write_plain(Level::ERROR, line);
        }
        None => standard_error::print(line),
    }
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Targets> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line that consists of level, module and message.
    fn write(&self, level: Level, line: &str) {
        let time = now();
        recent::add(level, &time, line);
        if let Some(standard_error) = &self.standard_error {
            standard_error.write(level, &time, line);
        }
        self.lock().write(level, &time, line);
    }

    /// Writes a line, which has no time on standard error.
    fn write_plain(&self, level: Level, line: &str) {
        if let Some(standard_error) = &self.standard_error {
            standard_error.write(level, "", line);
        }
        self.lock()
            .write(level, &now(), &format!("{level:>5} {line}"));
    }
}

/// The time at the beginning of a line.
fn now() -> String {
    let mut time = String::new();
    // Writing to a String does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    time.push(' ');
    time
}

/// Escapes control characters and marks that change the direction of text: a line may quote what clients and servers have sent,
/// which must not forge lines or terminal output.
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

/// Creates a [`LogLine`] for each event.
struct LogWriter;

/// Writes one line at its level.
struct LogLine(Level);

impl MakeWriter<'_> for LogWriter {
    type Writer = LogLine;

    fn make_writer(&self) -> LogLine {
        LogLine(Level::INFO)
    }

    fn make_writer_for(&self, metadata: &Metadata<'_>) -> LogLine {
        LogLine(*metadata.level())
    }
}

impl Write for LogLine {
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
