//! `paceline bench`: starts what is to be measured, if nobody named it, has the lab carry out the order, shows what came of it.
//! Reports and comparisons of what came of it earlier measure nothing.

#[cfg(test)]
mod tests;

use crate::cli::{Bench, Compare, Report};
use anyhow::Context;
use paceline_bench::{
    Calibration, Demo, Interrupt, PACELINE_SETTINGS, Plan, Progress, Record, Script, Target, Work,
};
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// As a shell has it for a command that was interrupted.
const INTERRUPTED: u8 = 130;

/// Carries out the order. Ends with 1 if a run failed or a check does not hold, with 130 if it was interrupted.
///
/// # Errors
/// Nothing could be run at all, or results could not be written.
pub(crate) async fn bench(mut bench: Bench) -> anyhow::Result<ExitCode> {
    paceline_bench::allow_clients(bench.order.most_clients())?;
    let mut kept = Kept::new(&bench)?;
    // Told before anything is measured, if it cannot be written.
    bench.html.as_deref().map(open).transpose()?;
    // Before anything is started: whoever interrupts from here on ends it in good order.
    let mut signals = Signals::new()?;
    let interrupt = Interrupt::default();
    let stand = start(&bench, &mut signals, &interrupt).await?;
    let measured = match interrupt.is_set() {
        true => Ok(()),
        false => measure(&mut bench, stand.as_ref(), signals, &interrupt, &mut kept).await,
    };
    let told = kept.tell(bench.html.as_deref());
    if let Some(stand) = stand {
        stand.stop()?;
    }
    measured.and(told)?;
    Ok(match paceline_bench::all_hold(&kept.records) {
        _ if interrupt.is_set() => ExitCode::from(INTERRUPTED),
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Starts what is to be measured, if nobody named it. What has begun to start is waited for even if it is not needed any more:
/// only then can it be ended in good order.
async fn start(
    bench: &Bench,
    signals: &mut Signals,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Demo>> {
    let Some(data_dir) = bench.stand.clone() else {
        return Ok(None);
    };
    eprintln!("starting PostgreSQL and Paceline");
    let program = std::env::current_exe().context("where is paceline?")?;
    // A small server turns a storm away; with the sizes of the sources it is to bear it.
    let clients = match bench.order.sizes.full {
        true => bench.order.most_clients(),
        false => 0,
    };
    let start = move || Demo::start(&data_dir, &program, clients);
    let mut started = tokio::task::spawn_blocking(start);
    let started = tokio::select! {
        biased;
        () = signals.next() => {
            eprintln!("\ninterrupted: ending both as soon as they have started");
            interrupt.set();
            started.await
        }
        started = &mut started => started,
    };
    started?.map(Some)
}

/// Runs everything, up to the second interrupt.
async fn measure(
    bench: &mut Bench,
    stand: Option<&Demo>,
    signals: Signals,
    interrupt: &Interrupt,
    kept: &mut Kept,
) -> anyhow::Result<()> {
    if let Some(stand) = stand {
        bench.order.targets = targets(stand, bench).await?;
    }
    announce(&bench.order);
    let mut keep = |record: &Record| kept.add(record);
    let mut progress = Progress::new(&mut keep);
    tokio::select! {
        () = paceline_bench::bench(&bench.order, interrupt, &mut progress) => {}
        () = signals.listen(interrupt) => {}
    }
    Ok(())
}

/// The records, in memory and in a file, if one was named.
struct Kept {
    records: Vec<Record>,
    file: Option<File>,
    /// What each record says besides: settings of the stand's Paceline.
    stand: Vec<String>,
    /// The first that went wrong with the file.
    unwritten: Option<anyhow::Error>,
}

impl Kept {
    fn new(bench: &Bench) -> anyhow::Result<Self> {
        let settings = bench.stand.iter().flat_map(|_| PACELINE_SETTINGS);
        Ok(Self {
            records: Vec::new(),
            file: bench.json.as_deref().map(open).transpose()?,
            stand: settings.map(str::to_owned).collect(),
            unwritten: None,
        })
    }

    fn add(&mut self, record: &Record) {
        let mut record = record.clone();
        record.conditions.stand.clone_from(&self.stand);
        if let Some(file) = &mut self.file {
            let written = write(file, &record);
            self.unwritten = self.unwritten.take().or(written.err());
        }
        self.records.push(record);
    }

    /// Shows the table and writes the page.
    ///
    /// # Errors
    /// The page or a record could not be written.
    fn tell(&mut self, html: Option<&Path>) -> anyhow::Result<()> {
        let mut out = std::io::stdout();
        let table = paceline_bench::table(&self.records, out.is_terminal());
        // Who reads only the first lines closes the pipe; the exit code is told all the same.
        let _ = write!(out, "{table}");
        if let Some(html) = html {
            write_page(html, &self.records)?;
        }
        let unwritten = self.unwritten.take().map_or(Ok(()), Err);
        unwritten.context("results could not be written")
    }
}

/// Makes a page of records that were kept.
///
/// # Errors
/// The records cannot be read, or the page cannot be written.
pub(crate) fn report(report: &Report) -> anyhow::Result<()> {
    write_page(&report.html, &read(&report.records)?)
}

/// Says what has changed between two files of records. Ends with 1 if something got slower, and that was to be a failure.
///
/// # Errors
/// The records cannot be read.
pub(crate) fn compare(compare: &Compare) -> anyhow::Result<ExitCode> {
    let (before, after) = (read(&compare.before)?, read(&compare.after)?);
    let comparison = paceline_bench::compare(&before, &after);
    // Who reads only the first lines closes the pipe; the exit code is told all the same.
    let _ = write!(std::io::stdout(), "{comparison}");
    Ok(match compare.fail_on_slower && comparison.is_slower() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// Measures the load generator itself.
///
/// # Errors
/// The server that does no work cannot be started or reached.
#[expect(clippy::print_stdout, reason = "the answer of the command")]
pub(crate) async fn calibrate(calibration: &Calibration) -> anyhow::Result<ExitCode> {
    let ceilings = paceline_bench::calibrate(calibration).await?;
    print!("{}", paceline_bench::ceilings(&ceilings));
    Ok(ExitCode::SUCCESS)
}

/// Those of the stand: the lab's own database, or an empty one for a script, with its tables.
async fn targets(stand: &Demo, bench: &Bench) -> anyhow::Result<Vec<Arc<Target>>> {
    if scripts(&bench.order).next().is_none() {
        return Ok(stand.targets());
    }
    let targets = stand.targets_in_empty_database().await?;
    if let (Some(setup), Some(direct)) = (&bench.setup, targets.first()) {
        let done = setup.run_once(direct).await;
        done.with_context(|| format!("setting up by {}", setup.name()))?;
    }
    Ok(targets)
}

/// Says what a script will be run on: its tables are not the lab's.
fn announce(order: &Plan) {
    for script in scripts(order) {
        let (name, statements) = (script.name(), script.statements());
        for target in &order.targets {
            eprintln!("running {name} (statements: {statements}; no check) on {target}");
        }
    }
}

fn scripts(order: &Plan) -> impl Iterator<Item = &Script> {
    order
        .choices
        .iter()
        .filter_map(|choice| match &choice.work {
            Work::Script(script) => Some(script.as_ref()),
            Work::Variant(_) => None,
        })
}

/// Whatever asks the command to end.
struct Signals([Signal; 3]);

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self([
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::interrupt())?,
        ]))
    }

    async fn next(&mut self) {
        let Self([terminate, hangup, keyboard]) = self;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
            _ = keyboard.recv() => {}
        }
    }

    /// Turns the first into a tidy end of the run that goes on; returns at the second.
    async fn listen(mut self, interrupt: &Interrupt) {
        self.next().await;
        eprintln!("\ninterrupted: ending this run; once more to end at once");
        interrupt.set();
        self.next().await;
    }
}

fn open(file: &Path) -> anyhow::Result<File> {
    let opened = OpenOptions::new().create(true).append(true).open(file);
    opened.with_context(|| format!("cannot write {}", file.display()))
}

fn write(file: &mut File, record: &Record) -> anyhow::Result<()> {
    let line = record.to_line()?;
    writeln!(file, "{line}")?;
    Ok(())
}

fn write_page(file: &Path, records: &[Record]) -> anyhow::Result<()> {
    let written = std::fs::write(file, paceline_bench::report(records));
    written.with_context(|| format!("cannot write {}", file.display()))
}

/// Reads records; there is at least one.
fn read(file: &Path) -> anyhow::Result<Vec<Record>> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    let records = paceline_bench::read_lines(&text)
        .map_err(|(line, why)| anyhow::anyhow!("{shown}, line {line}: not a record: {why}"))?;
    anyhow::ensure!(!records.is_empty(), "{shown} holds no records");
    Ok(records)
}
