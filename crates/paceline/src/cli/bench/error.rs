//! Errors of the arguments of `paceline bench`.

use paceline_bench::ScriptError;
use thiserror::Error;

/// An error of the arguments of `paceline bench`, or of a script that they name.
#[derive(Debug, Error)]
pub(crate) enum BenchError {
    /// The password of the URL cannot be read.
    #[error("password_file of the URL: {0}")]
    Password(paceline_config::SecretError),
    /// The lab has no such scenario or variant.
    #[error("there is no {what} {name:?}; there is {known}")]
    Unknown {
        /// `scenario` or `variant`.
        what: &'static str,
        /// The name.
        name: String,
        /// The existing names.
        known: String,
    },
    /// The scenario does not accept this number of rows.
    #[error("--rows {rows}: {scenario} takes {least} to {most}")]
    Rows {
        /// The value of `--rows`.
        rows: u64,
        /// The scenario.
        scenario: &'static str,
        /// Its minimum.
        least: u64,
        /// Its maximum.
        most: u64,
    },
    /// The scenario has fixed sizes.
    #[error("--rows: {0} has no rows to choose; its variants define their number")]
    NoRows(&'static str),
    /// The scenario has none of the variants that `--variant` names.
    #[error("{scenario} has none of the variants that --variant names; it has {known}")]
    NoVariant {
        /// The scenario.
        scenario: &'static str,
        /// Its variants.
        known: String,
    },
    /// Two targets have the same name.
    #[error("--against names {0:?} twice; each target needs a name of its own")]
    SameName(String),
    /// A target has no name.
    #[error(
        "--against wants a name for its tables and an address: direct=postgres://USER:PASSWORD@HOST:PORT/DATABASE"
    )]
    Unnamed,
    /// A target has no user.
    #[error("--against: the URL names no user; write NAME=postgres://USER@HOST:PORT/DATABASE")]
    NoUser,
    /// A target requires TLS.
    #[error("--against: the lab does not support TLS; leave sslmode out, or write sslmode=prefer")]
    NoTls,
    /// A script that cannot be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(String, std::io::Error),
    /// A script has an error.
    #[error(transparent)]
    Script(#[from] ScriptError),
}

impl BenchError {
    pub(super) fn unknown(what: &'static str, name: &str, known: &[&str]) -> Self {
        Self::Unknown {
            what,
            // A target without --against is read as a scenario, and may contain a password.
            name: without_password(name),
            known: known.join(", "),
        }
    }
}

/// A URL without the password in it, anything else as it is.
pub(super) fn without_password(argument: &str) -> String {
    let Some((scheme, rest)) = argument.split_once("://") else {
        return argument.to_owned();
    };
    let rest = match rest.split_once("password=") {
        Some((before, password)) => {
            let after = password.split_once('&').map_or("", |(_, after)| after);
            format!("{before}{after}")
        }
        None => rest.to_owned(),
    };
    // The last @ ends the password, which may contain others.
    let Some((login, place)) = rest.rsplit_once('@') else {
        return format!("{scheme}://{rest}");
    };
    let user = login.split(':').next().unwrap_or_default();
    format!("{scheme}://{user}@{place}")
}
