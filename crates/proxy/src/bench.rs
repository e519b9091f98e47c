//! `paceline bench`: starts what is to be measured, if nobody named it, has the lab carry out the order, shows what came of it.

use crate::cli::Bench;
use anyhow::Context;
use paceline_lab::{Interrupt, Progress, Record, Stand};
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

/// As a shell has it for a command that was interrupted.
const INTERRUPTED: u8 = 130;

/// Carries out the order. Ends with 1 if a run failed or a check does not hold, with 130 if it was interrupted.
///
/// # Errors
/// Nothing could be run at all, or results could not be written.
#[expect(clippy::print_stdout, reason = "the answer of the command")]
pub(crate) async fn bench(mut bench: Bench) -> anyhow::Result<ExitCode> {
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
        bench.order.targets = stand.targets();
    }
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
        listened = listen(&interrupt) => listened?,
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
    Ok(match paceline_lab::all_hold(&records) {
        _ if interrupt.is_set() => ExitCode::from(INTERRUPTED),
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Turns the first interrupt into a tidy end of the run that goes on; returns at the second.
async fn listen(interrupt: &Interrupt) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut keyboard = signal(SignalKind::interrupt())?;
    let mut next = async || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
            _ = keyboard.recv() => {}
        }
    };
    next().await;
    eprintln!("\ninterrupted: ending this run; once more to end at once");
    interrupt.set();
    next().await;
    Ok(())
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
