//! `paceline import`: a `pgbouncer.ini` as the text of a `paceline.toml` with the same meaning. It prints no password: it omits
//! each, or writes it into a file of its own that only this user can read.

use super::error::ConfigError;
use super::ini::{self, Passwords};
use super::remark::Remark;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The result of `paceline import`.
#[derive(Debug)]
pub struct Imported {
    /// The text of a `paceline.toml`.
    pub toml: String,
    /// Remarks for the operator.
    pub remarks: Vec<Remark>,
}

/// The reason why an import fails.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The file is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It is not PgBouncer's.
    #[error("{0} is not a pgbouncer.ini; paceline reads it as it is")]
    NoIni(String),
    /// A file for a password cannot be written.
    #[error("cannot write {file}: {reason}")]
    Password {
        /// The file.
        file: String,
        /// The error of the operating system.
        reason: io::Error,
    },
}

/// Reads the `pgbouncer.ini` at `path`. If there is a folder for `passwords`, writes each password into a new file there.
///
/// # Errors
/// Any [`ImportError`]. No file is overwritten.
pub fn import(path: &Path, passwords: Option<&Path>) -> Result<Imported, ImportError> {
    let file = path.display().to_string();
    let text = crate::load::read_to_string(path)?;
    if !ini::is_ini(path, &text) {
        return Err(ImportError::NoIni(file));
    }
    let ini = ini::read(&text, &file)?;
    // Errors in values name the lines of the old file.
    let (config, mut remarks) = ini.config()?;
    remarks.retain(|remark| remark.holds(&config));
    let files = passwords.map(|folder| write_passwords(folder, ini.passwords()));
    let toml = match &files.transpose()? {
        Some(files) => ini.toml(Passwords::Files(files)),
        None => {
            remarks.extend(ini.passwords().map(|(database, _)| withheld(database)));
            ini.toml(Passwords::Withheld)
        }
    };
    let toml = format!(
        "# From {file}, by paceline import. What it did not say is as in PgBouncer.\n{toml}"
    );
    Ok(Imported { toml, remarks })
}

fn withheld(database: &str) -> Remark {
    let text = "its password is not shown; write password_file = \"/PATH\", or import with --password-dir DIR";
    Remark::new(format!("database {database}"), text)
}

/// Writes each password into a file of its own in `folder`. Returns the names of the files.
fn write_passwords<'a>(
    folder: &Path,
    passwords: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<String>, ImportError> {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let failed = |path: &Path| {
        let file = path.display().to_string();
        move |reason| ImportError::Password { file, reason }
    };
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(&folder).map_err(failed(&folder))?;
    let mut files = Vec::new();
    for (number, (database, password)) in (1..).zip(passwords) {
        let path = folder.join(file_name(database, number));
        write_password(&path, password).map_err(failed(&path))?;
        files.push(path.display().to_string());
    }
    Ok(files)
}

/// A file name without `/` that no other database has.
fn file_name(database: &str, number: usize) -> PathBuf {
    let harmless = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = database.chars().take(63).map(harmless).collect();
    PathBuf::from(format!("{number}-{name}.password"))
}

fn write_password(path: &Path, password: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    writeln!(options.open(path)?, "{password}")
}

#[cfg(test)]
mod tests;
