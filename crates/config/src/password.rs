//! The source of the password for a login to a server. A file and a command are named here and read for each login, so that a
//! password may change while Paceline runs. Two configurations are equal if they name the same source.

use crate::secret::{self, Secret, SecretError};
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The permission to execute, for anybody.
const ANY_EXECUTE: u32 = 0o111;

/// The source of a password.
#[derive(Debug, Clone, PartialEq)]
pub enum PasswordSource {
    /// The configuration has the password itself.
    Written(Secret),
    /// The file contains the password, and nothing else.
    File(PathBuf),
    /// The command writes the password to its standard output, and nothing else.
    Command(PasswordCommand),
}

impl PasswordSource {
    /// The password in the file at `path`, which is read once to check it.
    pub(crate) fn checked_file(path: PathBuf) -> Result<Self, SecretError> {
        secret::read(&path).map(|_| Self::File(path))
    }

    /// The password in the configuration, or now in the file.
    ///
    /// # Errors
    /// The file contains no password, or the source is a command.
    pub fn read_without_command(&self) -> Result<Secret, SecretError> {
        match self {
            Self::Written(password) => Ok(password.clone()),
            Self::File(path) => secret::read(path),
            Self::Command(command) => Err(SecretError::NotRun(command.to_string())),
        }
    }
}

/// A program with its arguments. No shell reads them. `Debug` and `Display` show only the program: an argument may be a secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PasswordCommand {
    program: PathBuf,
    arguments: Vec<String>,
}

impl PasswordCommand {
    /// The command with these words. The program is not executed.
    ///
    /// # Errors
    /// The first word is not the absolute path of a program.
    pub fn checked(words: &[String]) -> Result<Self, SecretError> {
        let (program, arguments) = words.split_first().ok_or(SecretError::NoProgram)?;
        let path = Path::new(program);
        if !path.is_absolute() {
            return Err(SecretError::Relative(program.clone()));
        }
        let metadata = std::fs::metadata(path).map_err(|error| SecretError::Unreadable {
            file: program.clone(),
            reason: error.to_string(),
        })?;
        if !metadata.is_file() || metadata.permissions().mode() & ANY_EXECUTE == 0 {
            return Err(SecretError::NotExecutable(program.clone()));
        }
        Ok(Self {
            program: path.to_owned(),
            arguments: arguments.to_vec(),
        })
    }

    /// The absolute path of the program.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The arguments, without the name of the program.
    #[must_use]
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }
}

impl fmt::Debug for PasswordCommand {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl fmt::Display for PasswordCommand {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.program.display().fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> Result<PasswordCommand, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        PasswordCommand::checked(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_are_not_shown() {
        let command = command(&["/bin/sh", "-c", "s3cret"]).unwrap();
        assert_eq!(command.arguments(), ["-c", "s3cret"]);
        let source = PasswordSource::Command(command);
        assert_eq!(format!("{source:?}"), "Command(/bin/sh)");
        let written = PasswordSource::Written(Secret::new("s3cret".to_owned()));
        assert_eq!(format!("{written:?}"), "Written(***)");
    }

    #[test]
    fn the_program_must_exist() {
        for (words, message) in [
            (&[][..], "names no program"),
            (&["sh"], "\"sh\" is not an absolute path"),
            (&["/nowhere/sh"], "cannot read /nowhere/sh: "),
            (&["/bin"], "/bin is not a program"),
            (&["/etc/passwd"], "/etc/passwd is not a program"),
        ] {
            let error = command(words).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }
}
