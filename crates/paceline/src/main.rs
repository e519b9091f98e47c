//! The program `paceline`: reads the command line and runs the command.

mod advise;
#[cfg(feature = "bench")]
mod bench;
mod cli;
mod daemon;
#[cfg(feature = "embedded")]
mod embedded;
mod explain;
mod host_check;
mod serve;
mod server_address;
mod top;
mod worker_threads;

use anyhow::Context;
use cli::{Command, Daemon, Explain, Serve};
use daemon::WhenListening;
use mimalloc::MiMalloc;
use paceline_admin::config_source::ConfigSource;
use paceline_admin::{file_limit, log};
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let started = SystemTime::now();
    let command = match Command::from_process() {
        Ok(command) => command,
        Err(error) => error.exit(),
    };
    let success = |()| ExitCode::SUCCESS;
    let ended = match command {
        Command::Check { file, connect } => check(&file, connect),
        Command::Import { file, password_dir } => {
            import(&file, password_dir.as_deref()).map(success)
        }
        Command::Schema => schema().map(success),
        Command::Help(text) => print_all(text.as_bytes()).map(success),
        Command::Completions(shell) => print_all(&cli::completions(shell)).map(success),
        Command::ManPages(folder) => man_pages(&folder).map(success),
        Command::Explain(arguments) => explain(&arguments).map(success),
        Command::Advise(arguments) => {
            runtime(1).and_then(|runtime| runtime.block_on(advise::advise(&arguments)))
        }
        Command::Top(arguments) => {
            runtime(1).and_then(|runtime| runtime.block_on(top::top(&arguments)).map(success))
        }
        #[cfg(feature = "bench")]
        Command::Lab(command) => lab(command),
        Command::Serve(serve) => run(*serve, started),
    };
    match ended {
        Ok(code) => code,
        Err(error) => {
            log::print_error(&format!("paceline: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "the output of the command")]
fn check(file: &Path, connect: bool) -> anyhow::Result<ExitCode> {
    let checked = cli::check(file)?;
    println!("{}", checked.summary);
    if !connect {
        return Ok(ExitCode::SUCCESS);
    }
    let report = runtime(1)?.block_on(host_check::check_hosts(&checked.config));
    for line in &report.lines {
        println!("{line}");
    }
    Ok(match report.all_answered {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

#[expect(clippy::print_stdout, reason = "the output of the command")]
fn import(file: &Path, password_dir: Option<&Path>) -> anyhow::Result<()> {
    let imported = paceline_config::import(file, password_dir)?;
    for remark in imported.remarks {
        log::print_line(&format!("paceline: {remark}"));
    }
    print!("{}", imported.toml);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the output of the command")]
fn schema() -> anyhow::Result<()> {
    println!("{:#}", paceline_config::schema());
    Ok(())
}

/// Prints a text; that the reader stops reading is no error.
fn print_all(text: &[u8]) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed.context("cannot print"),
    }
}

#[expect(clippy::print_stdout, reason = "the output of the command")]
fn man_pages(folder: &Path) -> anyhow::Result<()> {
    let pages = cli::man::write_pages(folder);
    let pages = pages.with_context(|| format!("cannot write into {}", folder.display()))?;
    for page in pages {
        println!("{}", page.display());
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the output of the command")]
fn explain(arguments: &Explain) -> anyhow::Result<()> {
    let answer = runtime(1)?.block_on(explain::explain(arguments))?;
    println!("{answer}");
    Ok(())
}

#[cfg(feature = "bench")]
fn lab(command: cli::LabCommand) -> anyhow::Result<ExitCode> {
    match command {
        cli::LabCommand::Bench(bench) => runtime(1)?.block_on(bench::bench(*bench)),
        cli::LabCommand::Report(report) => bench::report(&report).map(|()| ExitCode::SUCCESS),
        cli::LabCommand::Compare(compare) => bench::compare(&compare),
        cli::LabCommand::Calibrate(calibration) => {
            runtime(1)?.block_on(bench::calibrate(&calibration))
        }
    }
}

fn run(serve: Serve, started: SystemTime) -> anyhow::Result<ExitCode> {
    match serve.service.daemon {
        // The background process reads the configuration again, and changes its user itself.
        Daemon::Start => return daemon::start_child(&serve.config),
        Daemon::Child => daemon::leave_session()?,
        Daemon::No => {}
    }
    daemon::change_user(&serve.config, &serve.service)?;
    let options = log::LogOptions {
        filter: serve.log_filter.as_deref(),
        quiet: serve.service.quiet,
    };
    log::start(&options, &serve.config.paceline.logging)?;
    for remark in &serve.remarks {
        tracing::warn!("{remark}");
    }
    file_limit::raise(&serve.config);
    let operation = &serve.config.paceline.operation;
    let runtime = runtime(worker_threads::worker_threads(operation.worker_threads))?;
    let signals = runtime.block_on(async { serve::CommandSignals::new() })?;
    #[cfg(feature = "embedded")]
    let (embedded, to_embedded) = embedded::start(serve.embedded.as_deref())?;
    #[cfg(not(feature = "embedded"))]
    let to_embedded = None;
    let mut config = serve.config;
    if let Some(database) = &to_embedded {
        let any = paceline_config::ANY_DATABASE.to_owned();
        config
            .databases
            .insert(any, paceline_config::Database::clone(database));
    }
    let source = ConfigSource::new(serve.inputs, to_embedded);
    let when_listening = WhenListening::new(&config, &serve.service);
    let served = serve::serve(config, source, signals, started, || when_listening.run());
    let served = runtime.block_on(served);
    // Server connections must be closed before the embedded PostgreSQL stops.
    runtime.shutdown_background();
    #[cfg(feature = "embedded")]
    if let Some(server) = embedded {
        server.stop()?;
    }
    served.map(|()| ExitCode::SUCCESS)
}

fn runtime(threads: usize) -> anyhow::Result<Runtime> {
    let mut builder = match threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    if threads > 1 {
        builder.worker_threads(threads);
    }
    builder
        .enable_all()
        .build()
        .context("cannot start the runtime")
}
