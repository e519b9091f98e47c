//! `paceline bench`: starts the demo unless targets are named, runs the lab, and prints the results. `bench report` and
//! `bench compare` read the results of earlier runs.

#[cfg(test)]
mod tests;

use crate::cli::{Bench, Compare, Report};
use anyhow::Context;
use paceline_bench::{
    Calibration, Demo, Interrupt, PACELINE_SETTINGS, Plan, Progress, Record, Script, Target, Work,
};
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The exit code of a shell for an interrupted command.
const INTERRUPTED: u8 = 130;

/// Runs a measurement. The exit code is 1 if a run or a check failed, 130 if the measurement was interrupted.
///
/// # Errors
/// Nothing could be run, or results could not be written.
pub(crate) async fn bench(mut bench: Bench) -> anyhow::Result<ExitCode> {
    paceline_bench::allow_clients(bench.plan.most_clients())?;
    let mut results = Results::new(&bench)?;
    // Fail before measuring if the report cannot be written.
    bench.html.as_deref().map(open).transpose()?;
    // Before anything is started, so that an interrupt stops all started processes.
    let mut signals = InterruptSignals::new()?;
    let interrupt = Interrupt::default();
    let mut demo = start(&bench, &mut signals, &interrupt).await?;
    let measured = match interrupt.is_set() {
        true => Ok(()),
        false => measure(&mut bench, demo.as_mut(), signals, &interrupt, &mut results).await,
    };
    let shown = results.show(bench.html.as_deref());
    if let Some(demo) = demo {
        demo.stop()?;
    }
    measured.and(shown)?;
    Ok(match paceline_bench::all_hold(&results.records) {
        _ if interrupt.is_set() => ExitCode::from(INTERRUPTED),
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Starts the demo unless targets are named. After an interrupt, waits for the start to finish, because only then the demo can be
/// stopped cleanly.
async fn start(
    bench: &Bench,
    signals: &mut InterruptSignals,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Demo>> {
    let Some(data_dir) = bench.demo_folder.clone() else {
        return Ok(None);
    };
    eprintln!("starting PostgreSQL and Paceline");
    let program = program()?;
    // With the sizes of the sources, the server must accept all clients of a storm. Otherwise it rejects some.
    let clients = match bench.plan.sizes.full {
        true => bench.plan.most_clients(),
        false => 0,
    };
    let mut settings: Vec<_> = (bench.plan.choices.iter())
        .map(|choice| choice.work.settings())
        .collect();
    settings.push(&[]);
    settings.sort_unstable();
    settings.dedup();
    let start = move || Demo::start(&data_dir, &program, clients, &settings);
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

/// The executable of Paceline.
fn program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find the program paceline")
}

/// Runs the plan until it is complete or the second interrupt arrives.
async fn measure(
    bench: &mut Bench,
    demo: Option<&mut Demo>,
    signals: InterruptSignals,
    interrupt: &Interrupt,
    results: &mut Results,
) -> anyhow::Result<()> {
    if let Some(demo) = demo {
        bench.plan.targets = targets(demo, bench).await?;
        for choice in &mut bench.plan.choices {
            let settings = choice.work.settings();
            if choice.work.is_behind_a_thin_link() {
                choice.own_targets = demo.start_thin_link(&program()?)?;
            } else if !settings.is_empty() {
                choice.own_targets = demo.targets(settings);
            }
        }
    }
    print_scripts(&bench.plan);
    let mut add = |record: &Record| results.add(record);
    let mut progress = Progress::new(&mut add);
    tokio::select! {
        () = paceline_bench::bench(&bench.plan, interrupt, &mut progress) => {}
        () = signals.listen(interrupt) => {}
    }
    Ok(())
}

/// The records in memory, and the file of `--json`.
struct Results {
    records: Vec<Record>,
    file: Option<File>,
    /// Settings of each Paceline that the lab starts, before those of the record's own.
    paceline_settings: Vec<String>,
    /// The first error of writing the file.
    write_error: Option<anyhow::Error>,
}

impl Results {
    fn new(bench: &Bench) -> anyhow::Result<Self> {
        let has_paceline = bench.demo_folder.is_some() || bench.plan.starts_servers();
        let settings = has_paceline.then_some(PACELINE_SETTINGS);
        Ok(Self {
            records: Vec::new(),
            file: bench.json.as_deref().map(open).transpose()?,
            paceline_settings: settings.into_iter().flatten().map(str::to_owned).collect(),
            write_error: None,
        })
    }

    fn add(&mut self, record: &Record) {
        let mut record = record.clone();
        let settings = self.paceline_settings.iter().cloned();
        record.conditions.stand.splice(..0, settings);
        if let Some(file) = &mut self.file {
            let written = write(file, &record);
            self.write_error = self.write_error.take().or(written.err());
        }
        self.records.push(record);
    }

    /// Prints the table and writes the report.
    ///
    /// # Errors
    /// The report or a record could not be written.
    fn show(&mut self, html: Option<&Path>) -> anyhow::Result<()> {
        let mut out = std::io::stdout();
        let table = paceline_bench::table(&self.records, out.is_terminal());
        // A closed pipe is no error: its reader may want the first lines only.
        let _ = write!(out, "{table}");
        if let Some(html) = html {
            write_report(html, &self.records)?;
        }
        let written = self.write_error.take().map_or(Ok(()), Err);
        written.context("results could not be written")
    }
}

/// Writes a report of records.
///
/// # Errors
/// The records cannot be read, or the report cannot be written.
pub(crate) fn report(report: &Report) -> anyhow::Result<()> {
    write_report(&report.html, &read(&report.records)?)
}

/// Compares two files of records. The exit code is 1 with `--fail-on-slower` if something became slower.
///
/// # Errors
/// The records cannot be read.
pub(crate) fn compare(compare: &Compare) -> anyhow::Result<ExitCode> {
    let (before, after) = (read(&compare.before)?, read(&compare.after)?);
    let comparison = paceline_bench::compare(&before, &after);
    // A closed pipe is no error: its reader may want the first lines only.
    let _ = write!(std::io::stdout(), "{comparison}");
    Ok(match compare.fail_on_slower && comparison.is_slower() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// Measures the load generator itself.
///
/// # Errors
/// The test server of the calibration cannot be started or reached.
#[expect(clippy::print_stdout, reason = "the output of the command")]
pub(crate) async fn calibrate(calibration: &Calibration) -> anyhow::Result<ExitCode> {
    let ceilings = paceline_bench::calibrate(calibration).await?;
    print!("{}", paceline_bench::ceilings(&ceilings));
    Ok(ExitCode::SUCCESS)
}

/// The targets of the demo: in the lab's own database, or in an empty one for a script, after its `--setup`.
async fn targets(demo: &Demo, bench: &Bench) -> anyhow::Result<Vec<Arc<Target>>> {
    if scripts(&bench.plan).next().is_none() {
        return Ok(demo.targets(&[]));
    }
    let targets = demo.targets_in_empty_database().await?;
    if let (Some(setup), Some(direct)) = (&bench.setup, targets.first()) {
        let done = setup.run_once(direct).await;
        done.with_context(|| format!("--setup {}", setup.name()))?;
    }
    Ok(targets)
}

/// Prints the targets of a script, because it may change tables that are not the lab's.
fn print_scripts(plan: &Plan) {
    for script in scripts(plan) {
        let (name, statements) = (script.name(), script.statements());
        for target in &plan.targets {
            eprintln!("running {name} (statements: {statements}; no check) on {target}");
        }
    }
}

fn scripts(plan: &Plan) -> impl Iterator<Item = &Script> {
    plan.choices.iter().filter_map(|choice| match &choice.work {
        Work::Script(script) => Some(script.as_ref()),
        Work::Variant(_) | Work::OnReplicas(_) | Work::OnShards(_) | Work::Failover(_) => None,
    })
}

/// The signals that interrupt a measurement.
struct InterruptSignals([Signal; 3]);

impl InterruptSignals {
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

    /// Sets `interrupt` at the first signal, which ends the current run cleanly. Returns at the second signal.
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

fn write_report(file: &Path, records: &[Record]) -> anyhow::Result<()> {
    let written = std::fs::write(file, paceline_bench::report(records));
    written.with_context(|| format!("cannot write {}", file.display()))
}

/// Reads at least one record.
fn read(file: &Path) -> anyhow::Result<Vec<Record>> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    let records = paceline_bench::read_lines(&text)
        .map_err(|(line, why)| anyhow::anyhow!("{shown}, line {line}: not a record: {why}"))?;
    anyhow::ensure!(!records.is_empty(), "{shown} holds no records");
    Ok(records)
}
