//! Why the lab cannot carry out an order.

use paceline_bench::ScriptError;
use thiserror::Error;

/// What is wrong with the command line of `paceline bench`, or with a script that it names.
#[derive(Debug, Error)]
pub(crate) enum BenchError {
    /// No such scenario or variant of the lab.
    #[error("there is no {what} {name:?}; there is {known}")]
    Unknown {
        /// What was named.
        what: &'static str,
        /// How.
        name: String,
        /// What there is.
        known: String,
    },
    /// A size that a scenario of the lab cannot have.
    #[error("--rows {rows}: {scenario} takes {least} to {most}")]
    Rows {
        /// What was asked for.
        rows: u64,
        /// Of which scenario.
        scenario: &'static str,
        /// The fewest that it takes.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A size for a scenario that has none to choose.
    #[error("--rows: {0} has none to choose, its variants say how many there are")]
    NoRows(&'static str),
    /// None of the variants that were named is one of this scenario.
    #[error("{scenario} has none of the variants that --variant names; it has {known}")]
    NoVariant {
        /// The scenario.
        scenario: &'static str,
        /// What it has.
        known: String,
    },
    /// Two targets of the lab with the same name.
    #[error("--against names {0:?} twice; each target needs a name of its own")]
    SameName(String),
    /// A target of the lab without a name.
    #[error(
        "--against wants a name for its tables and an address: direct=postgres://USER:PASSWORD@HOST:PORT/DATABASE"
    )]
    Unnamed,
    /// A target of the lab without a user.
    #[error("--against: the URL names no user; write NAME=postgres://USER@HOST:PORT/DATABASE")]
    NoUser,
    /// A target that asks for what the lab cannot.
    #[error("--against: the lab speaks no TLS; leave sslmode out, or write sslmode=prefer")]
    NoTls,
    /// A script that cannot be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(String, std::io::Error),
    /// A script that is not understood.
    #[error(transparent)]
    Script(#[from] ScriptError),
}

impl BenchError {
    pub(super) fn unknown(what: &'static str, name: &str, known: &[&str]) -> Self {
        Self::Unknown {
            what,
            // A target without its --against is taken for a scenario.
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
    // A bare @ in a password counts to it.
    let Some((login, place)) = rest.rsplit_once('@') else {
        return format!("{scheme}://{rest}");
    };
    let user = login.split(':').next().unwrap_or_default();
    format!("{scheme}://{user}@{place}")
}
