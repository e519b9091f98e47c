//! `paceline bench`: starts what is to be measured, if nobody named it, has the lab carry out the order, shows what came of it.

use crate::cli::Bench;
use anyhow::Context;
use paceline_lab::{Calibration, Interrupt, Order, Progress, Record, Script, Stand, Target, Work};
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

/// Carries out the order. `Ok(false)`: a run failed, or a check does not hold.
///
/// # Errors
/// Nothing could be run at all, or results could not be written.
#[expect(clippy::print_stdout, reason = "the answer of the command")]
pub(crate) async fn bench(mut bench: Bench) -> anyhow::Result<bool> {
    let clients = bench
        .order
        .choices
        .iter()
        .flat_map(|choice| &choice.clients);
    paceline_lab::allow_clients(clients.copied().max().unwrap_or_default())?;
    let mut json = bench.json.as_deref().map(open).transpose()?;
    let stand = match &bench.stand {
        Some(data_dir) => {
            eprintln!("starting PostgreSQL and Paceline");
            let program = std::env::current_exe().context("where is paceline?")?;
            Some(Stand::start(data_dir, &program)?)
        }
        None => None,
    };
    if let Some(stand) = &stand {
        bench.order.targets = targets(stand, &bench).await?;
    }
    announce(&bench.order);
    let (mut records, mut unwritten) = (Vec::new(), None);
    let mut keep = |record: &Record| {
        if let Some(file) = &mut json {
            unwritten = write(file, record).err();
        }
        records.push(record.clone());
    };
    let interrupt = Interrupt::default();
    let mut progress = Progress::new(&mut keep);
    tokio::select! {
        () = paceline_lab::bench(&bench.order, &interrupt, &mut progress) => {}
        () = listen(&interrupt) => {}
    }
    if let Some(stand) = stand {
        stand.stop()?;
    }
    print!(
        "{}",
        paceline_lab::table(&records, std::io::stdout().is_terminal())
    );
    if let Some(error) = unwritten {
        return Err(error).context("results could not be written");
    }
    Ok(paceline_lab::all_hold(&records) && !interrupt.is_set())
}

/// Measures the load generator itself.
///
/// # Errors
/// The server that does no work cannot be started or reached.
#[expect(clippy::print_stdout, reason = "the answer of the command")]
pub(crate) async fn calibrate(calibration: &Calibration) -> anyhow::Result<bool> {
    let ceilings = paceline_lab::calibrate(calibration).await?;
    print!("{}", paceline_lab::ceilings(&ceilings));
    Ok(true)
}

/// Those of the stand: the lab's own database, or an empty one for a script, with its tables.
async fn targets(stand: &Stand, bench: &Bench) -> anyhow::Result<Vec<Arc<Target>>> {
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
fn announce(order: &Order) {
    for script in scripts(order) {
        let (name, statements) = (script.name(), script.statements());
        for target in &order.targets {
            eprintln!("running {name} (statements: {statements}; no check) on {target}");
        }
    }
}

fn scripts(order: &Order) -> impl Iterator<Item = &Script> {
    order
        .choices
        .iter()
        .filter_map(|choice| match &choice.work {
            Work::Script(script) => Some(script.as_ref()),
            Work::Variant(_) => None,
        })
}

/// Turns the first interrupt into a tidy end. Never returns: a second one ends the process as ever.
async fn listen(interrupt: &Interrupt) {
    let mut heard = 0;
    loop {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        heard += 1;
        if heard > 1 {
            std::process::exit(130);
        }
        eprintln!("\ninterrupted: ending this run; again to end at once");
        interrupt.set();
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
