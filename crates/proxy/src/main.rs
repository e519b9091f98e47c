//! `paceline`: the command.

mod auth;
mod bench;
mod cancel;
mod cli;
mod client;
mod config;
mod console;
mod control;
mod daemon;
mod explain;
mod files;
mod keyring;
mod learn;
mod log;
mod metrics;
mod net_settings;
mod peers;
mod pool;
mod presence;
mod proxy;
mod replication;
mod room;
mod serve;
mod server;
mod shared_listen;
mod stats;
mod status;
#[cfg(test)]
mod testing;
mod trip;

use anyhow::Context;
use cli::{Command, Daemon, Explain, Serve};
use config::{ANY_DATABASE, Database, Host, SslMode, Upstream, UpstreamTls};
use control::Origin;
use daemon::OnceListening;
use paceline_postgres::{Options, Server};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;
use tokio::runtime::{Builder, Runtime};

fn main() -> ExitCode {
    let started = SystemTime::now();
    let command = match Command::from_process() {
        Ok(command) => command,
        Err(error) => error.exit(),
    };
    let done = |()| ExitCode::SUCCESS;
    let ended = match command {
        Command::Check { file } => check(&file).map(done),
        Command::Import { file, password_dir } => import(&file, password_dir.as_deref()).map(done),
        Command::Schema => schema().map(done),
        Command::Explain(question) => explain(&question).map(done),
        Command::Bench(order) => {
            runtime(1).and_then(|runtime| runtime.block_on(bench::bench(*order)))
        }
        Command::Report(report) => bench::report(&report).map(done),
        Command::Compare(compare) => bench::compare(&compare),
        Command::Calibrate(calibration) => {
            runtime(1).and_then(|runtime| runtime.block_on(bench::calibrate(&calibration)))
        }
        Command::Serve(serve) => run(*serve, started),
    };
    match ended {
        Ok(code) => code,
        Err(error) => {
            log::fail(&format!("paceline: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "the answer of the command")]
fn check(file: &Path) -> anyhow::Result<()> {
    let summary = cli::check(file)?;
    println!("{summary}");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the answer of the command")]
fn import(file: &Path, password_dir: Option<&Path>) -> anyhow::Result<()> {
    let imported = config::import(file, password_dir)?;
    for remark in imported.remarks {
        log::say(&format!("paceline: {remark}"));
    }
    print!("{}", imported.toml);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the answer of the command")]
fn schema() -> anyhow::Result<()> {
    println!("{:#}", config::schema());
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the answer of the command")]
fn explain(question: &Explain) -> anyhow::Result<()> {
    let answer = runtime(1)?.block_on(explain::explain(question))?;
    println!("{answer}");
    Ok(())
}

fn run(mut serve: Serve, started: SystemTime) -> anyhow::Result<ExitCode> {
    match serve.service.daemon {
        // The process in the background reads the configuration again, and changes user then.
        Daemon::Asked => return daemon::start_child(&serve.config),
        Daemon::Child => daemon::leave_session()?,
        Daemon::No => {}
    }
    daemon::change_user(&serve.config, &serve.service)?;
    let manner = log::Manner {
        filter: serve.log_filter.as_deref(),
        quiet: serve.service.quiet,
    };
    log::start(&manner, &serve.config.paceline.logging)?;
    for remark in &serve.remarks {
        tracing::warn!("{remark}");
    }
    files::raise_limit(&serve.config);
    let runtime = runtime(serve.config.paceline.operation.worker_threads)?;
    let signals = runtime.block_on(async { serve::Signals::new() })?;
    let embedded = match &serve.embedded {
        Some(data_dir) => Some(start_embedded(data_dir, &mut serve.config)?),
        None => None,
    };
    let to_embedded = embedded
        .as_ref()
        .and_then(|_| serve.config.databases.get(ANY_DATABASE));
    let origin = Origin::new(serve.source, to_embedded.cloned());
    let listening = OnceListening::new(&serve.config, &serve.service);
    let served = serve::serve(serve.config, origin, signals, started, || listening.run());
    let served = runtime.block_on(served);
    // Connections close before the server that they lead to.
    runtime.shutdown_background();
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
        .context("the runtime could not be started")
}

/// Starts PostgreSQL and makes it the server of every database.
fn start_embedded(data_dir: &Path, config: &mut config::Config) -> anyhow::Result<Server> {
    tracing::info!(data_dir = %data_dir.display(), "starting PostgreSQL");
    let server = Server::start(Options::new(data_dir))?;
    // Clients keep their own user and database.
    let upstream = Upstream {
        host: Host::Tcp(Ipv4Addr::LOCALHOST.to_string()),
        port: server.port(),
        user: None,
        password: None,
        dbname: None,
        // It was started without.
        tls: UpstreamTls {
            sslmode: Some(SslMode::Disable),
            ..UpstreamTls::default()
        },
    };
    tracing::info!(version = %server.version(), port = server.port(), "PostgreSQL is ready");
    config
        .databases
        .insert(ANY_DATABASE.to_owned(), Database::at(upstream));
    Ok(server)
}
