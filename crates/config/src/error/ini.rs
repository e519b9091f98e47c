//! Errors in a `pgbouncer.ini`, beside values that do not fit their key. Every message names the remedy; none repeats a connection string,
//! which may contain a password.

use thiserror::Error;

/// The kinds of things that are wrong.
#[derive(Debug, Error, PartialEq)]
pub(crate) enum IniError {
    /// A line that is nothing.
    #[error(
        "this is not a section, comment or key = value; names with other characters than letters, digits and _ . - * must be in double quotes"
    )]
    NotAssigned,
    /// `[` without `]`.
    #[error("the name of the section does not end; write ]")]
    UnclosedSection,
    /// A key before the first section.
    #[error("\"{0}\" is not in a section; put it below [pgbouncer]")]
    NoSection(String),
    /// A section that PgBouncer does not have.
    #[error("unknown section [{0}]; there are [pgbouncer], [databases], [users] and [peers]")]
    UnknownSection(String),
    /// `[pgbouncer]` again after keys.
    #[error(
        "[pgbouncer] begins again: PgBouncer would go back to the defaults here; put all its keys below the first one"
    )]
    SecondSection,
    /// No `[pgbouncer]` at all.
    #[error(
        "there is no [pgbouncer] section; add the line [pgbouncer], even with nothing below it"
    )]
    NoMainSection,
    /// No database. Paceline would start a PostgreSQL of its own, which a user of PgBouncer does not expect.
    #[error("there is no database in [databases]; add one, or * = host=HOST for every name")]
    NoDatabase,
    /// Files that include one another.
    #[error("%include is nested more than {0} levels deep; does a file include itself?")]
    IncludeDepth(usize),
    /// A file that cannot be included.
    #[error(
        "cannot read {file}: {reason}; %include is relative to the folder that paceline is started in"
    )]
    Include {
        /// Its name as it was written.
        file: String,
        /// The error of the operating system.
        reason: String,
    },
    /// Not a connection string.
    #[error(
        "this is no list of key=value; put values with spaces in single quotes, write a single quote in them twice, and leave out keys that have no value"
    )]
    ConnectionString,
    /// A key that PgBouncer does not have either.
    #[error("unknown key \"{key}\" in [{section}]; {}", remedy(.nearest.as_deref()))]
    UnknownKey {
        /// The key.
        key: String,
        /// The section of the key.
        section: &'static str,
        /// The key that was most likely meant.
        nearest: Option<String>,
    },
    /// A name that means something else.
    #[error(
        "\"{0}\" cannot be the name of a database: clients find the admin console there; choose another one"
    )]
    Reserved(String),
    /// Not a number as PgBouncer reads it.
    #[error("{key}: {got} is not a whole number; write digits only")]
    Number {
        /// The key.
        key: String,
        /// The given value.
        got: String,
    },
    /// Something that Paceline cannot do and that an operator may rely on.
    #[error("{key}: {why}")]
    Refused {
        /// The key.
        key: String,
        /// The reason, and what to do.
        why: String,
    },
}

fn remedy(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("did you mean \"{nearest}\"?"),
        None => "PgBouncer 1.25 has no such key; remove it".to_owned(),
    }
}
