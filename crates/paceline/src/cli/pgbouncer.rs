//! PgBouncer's command line, if the program is called `pgbouncer`: packages that replace PgBouncer install a symbolic link of that
//! name.

use super::command::{Command, Daemon, Serve, Service};
use super::error::CliError;
use super::process_environment::ProcessEnvironment;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser};
use paceline_admin::config_inputs::ConfigInputs;
use paceline_admin::console;
use paceline_config::Format;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The file name of the program.
const NAME: &str = "pgbouncer";

/// PgBouncer waits for clients without a limit. This is the maximum of `shutdown_timeout`.
const SHUTDOWN_TIMEOUT: &str = "8760h";

/// Run instead of PgBouncer, with its configuration file
#[derive(Debug, Parser)]
#[command(
    name = NAME,
    display_name = "PgBouncer",
    version = console::VERSION,
    infer_long_args = true,
    disable_version_flag = true,
    override_usage = "pgbouncer [OPTION]... CONFIG_FILE"
)]
struct PgBouncerArguments {
    /// Run in background (as a daemon)
    #[arg(short, long)]
    daemon: bool,

    /// Run quietly: log nothing to standard error
    #[arg(short, long)]
    quiet: bool,

    /// Do an online restart: listen beside the process that the pidfile names, which then ends when its clients have disconnected
    ///
    /// Both processes must run with so_reuseport = 1, and as the same user.
    #[arg(short = 'R', long)]
    reboot: bool,

    /// Assume identity of USERNAME
    #[arg(short, long, value_name = "USERNAME")]
    user: Option<String>,

    /// Increase verbosity
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,

    /// Show version, then exit
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,

    /// This is the background process
    #[arg(long = Daemon::CHILD, hide = true)]
    is_child: bool,

    /// The pgbouncer.ini
    #[arg(value_name = "CONFIG_FILE")]
    config: PathBuf,
}

/// Was the program called as `pgbouncer`?
pub(super) fn is_called_by_name(program: Option<&OsString>) -> bool {
    let name = program.and_then(|program| Path::new(program).file_name());
    name == Some(OsStr::new(NAME))
}

/// Resolves PgBouncer's command line.
pub(super) fn resolve(
    arguments: impl IntoIterator<Item = OsString>,
    process: &ProcessEnvironment,
) -> Result<Command, CliError> {
    let matches = PgBouncerArguments::command().try_get_matches_from(arguments);
    let arguments = matches.and_then(|matches| PgBouncerArguments::from_arg_matches(&matches));
    let arguments = arguments.map_err(CliError::PgBouncerUsage)?;
    let mut inputs = ConfigInputs {
        file: Some(arguments.config),
        format: Format::Ini,
        environment: process.variables.clone(),
        ..ConfigInputs::default()
    };
    let mut unless_set = |key: &str, value: &str| {
        let value = value.to_owned();
        inputs.environment.entry(key.to_owned()).or_insert(value);
    };
    unless_set("PACELINE_SHUTDOWN_TIMEOUT", SHUTDOWN_TIMEOUT);
    if arguments.verbose > 0 {
        unless_set(
            "PACELINE_VERBOSE",
            if arguments.verbose > 1 { "2" } else { "1" },
        );
    }
    if let Some(user) = arguments.user {
        inputs.set.push(format!("user={user}"));
    }
    if arguments.reboot {
        inputs.set.push("so_reuseport=on".to_owned());
    }
    let (config, remarks) = inputs.read_with_remarks()?;
    if config.databases.is_empty() {
        return Err(CliError::NoDatabases(inputs.name()));
    }
    let daemon = match (arguments.daemon, arguments.is_child) {
        (_, true) => Daemon::Child,
        (true, false) => Daemon::Start,
        (false, false) => Daemon::No,
    };
    Ok(Command::Serve(Box::new(Serve {
        config,
        inputs,
        remarks,
        #[cfg(feature = "embedded")]
        embedded: None,
        log_filter: process.variable("LOG").map(str::to_owned),
        service: Service {
            is_pgbouncer: true,
            quiet: arguments.quiet || daemon == Daemon::Child,
            takes_over: arguments.reboot,
            daemon,
        },
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(program: &str, line: &[&str]) -> Result<Command, CliError> {
        let arguments = [program].into_iter().chain(line.iter().copied());
        Command::resolve(
            arguments.map(OsString::from),
            &ProcessEnvironment::default(),
        )
    }

    fn served(line: &[&str]) -> Serve {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pgbouncer.ini");
        std::fs::write(
            &file,
            "[pgbouncer]\nauth_type=trust\n[databases]\na = host=b\n",
        )
        .unwrap();
        let line = [line, &[file.to_str().unwrap()]].concat();
        match called("/usr/sbin/pgbouncer", &line) {
            Ok(Command::Serve(serve)) => *serve,
            other => panic!("{line:?}: {other:?}"),
        }
    }

    #[test]
    fn options_are_pgbouncers() {
        let plain = served(&[]);
        assert!(plain.service.is_pgbouncer && !plain.service.quiet && !plain.service.takes_over);
        assert_eq!(plain.service.daemon, Daemon::No);
        assert_eq!(
            plain.config.paceline.operation.shutdown_timeout.as_secs(),
            8760 * 3600
        );
        assert_eq!(plain.config.paceline.pooling.max_client_conn, 100);
        let all = served(&["-dqvv", "-R", "-u", "nobody"]);
        assert!(all.service.quiet && all.service.takes_over);
        assert_eq!(all.service.daemon, Daemon::Start);
        let settings = &all.config.paceline;
        assert_eq!(
            (settings.logging.verbose, settings.operation.user.as_str()),
            (2, "nobody")
        );
        assert!(settings.listening.so_reuseport);
        let long = served(&[
            "--verbose",
            "--user=nobody",
            "--daem",
            "--reboot",
            "--quiet",
        ]);
        assert_eq!(long.config.paceline.logging.verbose, 1);
        assert_eq!(long.service.daemon, Daemon::Start);
        assert_eq!(
            served(&["-d", "--in-background"]).service.daemon,
            Daemon::Child
        );
    }

    #[test]
    fn wrong_arguments_show_the_usage() {
        for line in [
            &[][..],
            &["-x", "a.ini"],
            &["a.ini", "b.ini"],
            &["-V"],
            &["-h"],
        ] {
            let error = called("pgbouncer", line).unwrap_err();
            assert!(
                matches!(error, CliError::PgBouncerUsage(_)),
                "{line:?}: {error}"
            );
        }
        // Under its own name, the program has its own command line.
        assert!(matches!(
            called("/x/paceline", &["-d"]),
            Err(CliError::Usage(_))
        ));
    }
}
