//! Errors of reading a password for a login. No message contains the content of a file or the output of a command.

use paceline_config::SecretError;
use std::time::Duration;

/// An error of reading a password.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PasswordError {
    /// The file contains none, or cannot be read.
    #[error("password_file: {0}")]
    File(#[from] SecretError),
    /// The file cannot be read in time.
    #[error("password_file: {file} was not read within {limit:?} (server_connect_timeout)")]
    SlowFile {
        /// The path of the file.
        file: String,
        /// The time that was waited.
        limit: Duration,
    },
    /// The program cannot be executed.
    #[error("password_command: cannot execute {program}: {reason}")]
    NotExecuted {
        /// The path of the program.
        program: String,
        /// The reason of the operating system.
        reason: String,
    },
    /// The program has reported an error.
    #[error("password_command: {program} has failed, {status}")]
    Failed {
        /// The path of the program.
        program: String,
        /// Its exit status.
        status: String,
    },
    /// The program has written something else.
    #[error(
        "password_command: {0} wrote no password: it must write the password alone, in one line, 65,536 bytes at most"
    )]
    NoPassword(String),
    /// The program has not ended in time.
    #[error("password_command: {program} has not ended within {limit:?} (server_connect_timeout)")]
    SlowCommand {
        /// The path of the program.
        program: String,
        /// The time that was waited.
        limit: Duration,
    },
    /// The thread or task that read the password has ended without a result.
    #[error("the password for the login was not read: {0}")]
    Interrupted(String),
}
