//! The progress on standard error: one line that is updated on a terminal, one line per run elsewhere.

use crate::bench::{Observer, Run, Stage};
use crate::record::Record;
use crate::show;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Clears the line and moves the cursor to its beginning.
const CLEAR: &str = "\r\x1b[2K";

/// Writes the progress to standard error.
pub struct Progress<'a> {
    is_terminal: bool,
    keep: &'a mut dyn FnMut(&Record),
}

impl<'a> Progress<'a> {
    /// Passes every record to `keep` as soon as the run has ended.
    pub fn new(keep: &'a mut dyn FnMut(&Record)) -> Self {
        Self {
            is_terminal: io::stderr().is_terminal(),
            keep,
        }
    }

    fn write(&self, text: &str) {
        // Fails only if standard error is closed.
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

impl Observer for Progress<'_> {
    fn on_stage(&mut self, run: &Run<'_>, stage: Stage) {
        if self.is_terminal {
            self.write(&format!("{CLEAR}{}", line(run, stage)));
        }
    }

    fn on_end(&mut self, record: &Record) {
        if self.is_terminal {
            self.write(CLEAR);
        } else {
            self.write(&format!("{}\n", result(record)));
        }
        (self.keep)(record);
    }
}

/// Formats `[3/10] hot-row hinted, 256 clients, paceline: 76,120 updates/s, 3.1 ms, 42 s left`.
fn line(run: &Run<'_>, stage: Stage) -> String {
    let head = format!(
        "[{}/{}] {} {}, {} clients, {}",
        run.number,
        run.of,
        run.choice.scenario.name,
        run.choice.work.name(),
        show::count(run.clients as u64),
        run.target.name
    );
    let left = |elapsed| run.left.saturating_sub(elapsed).as_secs();
    match stage {
        Stage::Preparing => format!("{head}: preparing, {} s left", left(Duration::ZERO)),
        Stage::Connecting(clients) => {
            format!("{head}: {} connected", show::count(clients as u64))
        }
        Stage::Running {
            rate,
            latency,
            failed,
            elapsed,
        } => {
            let (rate, unit) = (show::number(rate.round()), run.choice.scenario.unit);
            let latency = show::duration(latency.as_micros() as f64);
            let failed = match failed {
                0 => String::new(),
                failed => format!(", {} failed", show::count(failed)),
            };
            format!(
                "{head}: {rate} {unit}/s, {latency}{failed}, {} s left",
                left(elapsed)
            )
        }
        Stage::Checking => format!("{head}: checking"),
    }
}

fn result(record: &Record) -> String {
    let head = format!(
        "{} {}, {} clients, {}, round {}",
        record.scenario, record.variant, record.clients, record.target, record.round
    );
    let ran = match record.figures() {
        Err(why) => return format!("{head}: did not run: {why}"),
        Ok(ran) => ran,
    };
    let check = match &ran.check {
        Some(check) if check.holds => check.says.clone(),
        Some(check) => format!("CHECK FAILED: {}", check.says),
        None => "no check".to_owned(),
    };
    let [p50, p99] = [ran.latency.p50, ran.latency.p99].map(|micros| show::duration(micros as f64));
    let behind = ran.open_loop.iter().map(|turns| format!(", {turns}"));
    let (rate, behind) = (show::number(ran.rate), behind.collect::<String>());
    format!("{head}: {rate}/s, p50 {p50}, p99 {p99}{behind}; {check}")
}
