//! The arguments and the help of the command line, for clap.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use super::advise::AdviseArguments;
#[cfg(feature = "bench")]
use super::bench::BenchArguments;
use super::top::TopArguments;

const ABOUT: &str = "A front end for PostgreSQL: thousands of clients on a few server connections, \
                     and requests that must wait for the database are grouped";

/// The command line. Without a subcommand, the command is `serve`.
#[derive(Debug, Parser)]
#[command(
    name = "paceline",
    version,
    about = ABOUT,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Option<CommandArguments>,
    #[command(flatten)]
    pub(super) serve: ServeArguments,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(super) enum CommandArguments {
    /// Run the front end (this is what paceline does without a command)
    Serve(ServeArguments),
    /// Convert a pgbouncer.ini to a paceline.toml and print it; exits with 1 if the file has errors
    Import {
        /// The pgbouncer.ini
        #[arg(value_name = "FILE")]
        file: PathBuf,

        /// Write each password to a file of its own in this folder, and name the file in the TOML
        ///
        /// Only this user can read the files; existing files are not overwritten. Without this option,
        /// passwords are left out: Paceline never prints them.
        #[arg(verbatim_doc_comment, long, value_name = "DIR")]
        password_dir: Option<PathBuf>,
    },
    /// Print the JSON schema of the configuration file, for editors
    Schema,
    /// Check a configuration file, start nothing; exits with 1 if the file has errors
    Check {
        /// The configuration file: a paceline.toml or a pgbouncer.ini
        #[arg(value_name = "FILE")]
        file: PathBuf,

        /// Also connect to every host of each database, and print what it answers
        ///
        /// Of several hosts, each must let in the monitor: monitor_user, or the user of the URL. A host whose
        /// URL names no user is only connected to. Exits with 1 if a host does not answer.
        #[arg(verbatim_doc_comment, long)]
        connect: bool,
    },
    /// Explain how Paceline would treat a statement, run nothing; exits with 1 if it cannot
    Explain(ExplainArguments),
    /// Find out which overload patterns a database shows, and what to do; exits with 3 if there are any
    Advise(AdviseArguments),
    /// Show what a running Paceline does, in the terminal; press q to leave
    Top(TopArguments),
    /// Measure PostgreSQL alone and through Paceline, side by side; exits with 1 if a check fails
    #[cfg(feature = "bench")]
    Bench(Box<BenchArguments>),
    /// Print the settings, or the options of a command
    Help(HelpArguments),
    /// Print a script that completes command lines of paceline, for a shell
    Completions {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Write the man pages into a folder, for packages
    #[command(hide = true)]
    ManPages {
        /// The folder, which must exist
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Not available: this build has no lab
    #[cfg(not(feature = "bench"))]
    #[command(hide = true, disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
}

/// The arguments of `help`.
#[derive(Debug, Args)]
pub(super) struct HelpArguments {
    /// settings, or settings and a part of a name; or a command, as in: help explain
    #[arg(value_name = "TOPIC")]
    pub(super) topic: Vec<String>,
}

/// The arguments of `explain`.
#[derive(Debug, Args)]
pub(super) struct ExplainArguments {
    /// The statement, with values or with $1, $2, … in their places
    #[arg(value_name = "SQL")]
    pub(super) sql: String,

    /// PostgreSQL server whose catalog is read: postgres://USER:PASSWORD@HOST:PORT/DATABASE
    ///
    /// The server describes the statement and never runs it. Without this option, the server is that of
    /// --config; without both, only the text is analyzed. If the URL names no database, the database has
    /// the name of the user.
    #[arg(verbatim_doc_comment, long, value_name = "URL")]
    pub(super) upstream: Option<String>,

    /// The front end's configuration file: its servers, settings, switches and declared functions
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// The database that the client asks for, if the file names several
    #[arg(long, value_name = "NAME", requires = "config")]
    pub(super) database: Option<String>,

    /// The client's user; it also logs in to the server, unless the URL names another one
    #[arg(long, value_name = "NAME")]
    pub(super) user: Option<String>,

    /// A setting of the front end, as for serve; may be repeated, the last one counts
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,

    /// Also print the statements that Paceline sends for a group
    #[arg(long, short)]
    pub(super) verbose: bool,
}

/// The arguments of `serve`.
#[derive(Debug, Args)]
pub(super) struct ServeArguments {
    /// PostgreSQL server for every database: postgres://USER:PASSWORD@HOST:PORT/DATABASE
    ///
    /// If the URL names a user, Paceline logs in as that user for every client; otherwise, as the client's
    /// own user. Clients choose the database, so the database of the URL is not used.
    #[arg(
        verbatim_doc_comment,
        long,
        value_name = "URL",
        conflicts_with = "config"
    )]
    pub(super) upstream: Option<String>,

    /// Address and port for clients [default: 127.0.0.1:6432]
    ///
    /// Port 0 lets the system choose; the line "listening on ADDR:PORT" on standard error shows the
    /// port. Overrides "listen" of the configuration.
    #[arg(verbatim_doc_comment, long, value_name = "ADDR:PORT")]
    pub(super) listen: Option<String>,

    /// Configuration file: a paceline.toml (docs/configuration.md) or an unchanged pgbouncer.ini
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// Change one setting; may be repeated, the last one counts
    ///
    /// Takes any key of the table paceline. Times are seconds or have a unit (us, ms, s, min, h, d), except
    /// that a bare hotspot_update_max_wait_time is microseconds. Switches are on or off.
    #[arg(verbatim_doc_comment, long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,

    /// Folder for the data of the embedded PostgreSQL
    ///
    /// The embedded PostgreSQL starts if neither --upstream nor the configuration names a database,
    /// and keeps its data here between runs. Default: paceline in $XDG_DATA_HOME, otherwise in
    /// ~/.local/share; for root, whose PostgreSQL must run as another user, /var/lib/paceline if
    /// that user cannot reach these folders.
    #[cfg(feature = "embedded")]
    #[arg(
        verbatim_doc_comment,
        long,
        value_name = "DIR",
        conflicts_with = "upstream"
    )]
    pub(super) data_dir: Option<PathBuf>,

    /// What to log: error, warn, info, debug, trace or off [default: info]
    ///
    /// Or a filter by module, such as info,paceline=debug. This option has precedence over the
    /// environment variable PACELINE_LOG.
    #[arg(verbatim_doc_comment, long, value_name = "LEVEL")]
    pub(super) log_level: Option<String>,
}
