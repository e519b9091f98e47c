//! Passwords, and files that hold one, as orchestrators provide them. The file holds the password and perhaps the end of its line; so does
//! the output of a command.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use thiserror::Error;

/// Maximum number of bytes of a file or an output: more than any password that PostgreSQL takes.
pub const PASSWORD_LENGTH_MAX: u64 = 65_536;

/// The permission to read, for users other than the owner and the group.
const OTHERS_READ: u32 = 0o004;

/// A password: `Debug` shows `***`, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text` out of logs.
    pub fn new(text: String) -> Secret {
        Secret(text)
    }

    /// The password in the content of a file, or in the output of a command: all of it but the end of the line. `None` if there is no
    /// password, if there are several lines, or if it is too long.
    #[must_use]
    pub fn in_line(text: &str) -> Option<Secret> {
        let line = text.strip_suffix('\n').unwrap_or(text);
        let password = line.strip_suffix('\r').unwrap_or(line);
        let fits = u64::try_from(text.len()).is_ok_and(|length| length <= PASSWORD_LENGTH_MAX);
        let is_password = fits && !password.is_empty() && !password.contains(['\n', '\0']);
        is_password.then(|| Secret::new(password.to_owned()))
    }

    /// The text itself, for the login only.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}

/// The reason why a file contains no password, or a command cannot give one.
#[derive(Debug, Clone, Error, PartialEq)]
pub enum SecretError {
    /// It cannot be read.
    #[error("cannot read {file}: {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// The error of the operating system.
        reason: String,
    },
    /// A path that would depend on where paceline was started.
    #[error("\"{0}\" is not an absolute path; write one that starts with /")]
    Relative(String),
    /// It holds something else.
    #[error(
        "{0} holds no password: write it alone into one line of the file, without quotes, 65,536 bytes at most"
    )]
    NoPassword(String),
    /// A pipe, which can be read only once, or a folder.
    #[error("{0} is not a file that can be read again for each login")]
    NotAFile(String),
    /// A command of no words.
    #[error("the list names no program; write [\"/PROGRAM\", \"ARGUMENT\"]")]
    NoProgram,
    /// The first word of the command is not a program.
    #[error("{0} is not a program that can be executed")]
    NotExecutable(String),
    /// The command is not run.
    #[error("{0} is not run for this")]
    NotRun(String),
}

/// Reads the password in the file at `path`. The end of the line is not part of it. The call may block.
///
/// # Errors
/// The file cannot be read, or contains no password.
pub fn read(path: &Path) -> Result<Secret, SecretError> {
    let file = path.display().to_string();
    if !path.is_absolute() {
        return Err(SecretError::Relative(file));
    }
    // To open a pipe may block for ever.
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(SecretError::NotAFile(file));
    }
    let mut text = String::new();
    let read = File::open(path)
        .and_then(|open| open.take(PASSWORD_LENGTH_MAX + 1).read_to_string(&mut text));
    if let Err(error) = read {
        let reason = error.to_string();
        return Err(SecretError::Unreadable { file, reason });
    }
    Secret::in_line(&text).ok_or(SecretError::NoPassword(file))
}

/// A warning if every user of this machine can read the file at `path`.
pub(super) fn exposed(path: &Path) -> Option<String> {
    let readable = |metadata: Metadata| metadata.mode() & OTHERS_READ != 0;
    let exposed = std::fs::metadata(path).is_ok_and(readable);
    let file = path.display();
    exposed.then(|| format!("every user of this machine can read {file}; chmod o= {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn written(content: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        file
    }

    #[test]
    fn the_end_of_the_line_is_cut() {
        for (content, password) in [
            ("s3cret", "s3cret"),
            ("s3cret\n", "s3cret"),
            ("s3cret\r\n", "s3cret"),
            (" a b ", " a b "),
        ] {
            let file = written(content.as_bytes());
            assert_eq!(read(file.path()).unwrap().reveal(), password);
        }
    }

    #[test]
    fn an_invalid_password_is_refused_and_not_printed() {
        let long = vec![b'x'; 65_537];
        for content in [&b""[..], b"\n", b"one\ntwo\n", b"ze\0ro", &long] {
            let file = written(content);
            let error = read(file.path()).unwrap_err();
            assert_eq!(
                error,
                SecretError::NoPassword(file.path().display().to_string())
            );
        }
        let file = written(b"\xff\xfe");
        assert!(read(file.path()).unwrap_err().to_string().contains("UTF-8"));
        let folder = read(Path::new("/bin")).unwrap_err().to_string();
        assert!(folder.starts_with("/bin is not a file"), "{folder}");
        let error = read(Path::new("/nowhere/password"))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("cannot read /nowhere/password: "));
        assert!(
            read(Path::new("password"))
                .unwrap_err()
                .to_string()
                .contains("absolute")
        );
    }

    #[test]
    fn a_file_that_everybody_can_read_is_remarked() {
        let file = written(b"s3cret");
        let chmod = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(file.path(), permissions).unwrap();
        };
        chmod(0o640);
        assert_eq!(exposed(file.path()), None);
        chmod(0o644);
        assert!(exposed(file.path()).unwrap().contains("can read"));
        assert_eq!(exposed(Path::new("/nowhere")), None);
    }
}
