//! One run of a `password_command`. No shell reads the words. The program has the environment and the standard error of this process, no
//! standard input, and a process group of its own. As with the command substitution of a shell, the run ends when the program and all
//! programs to which it has given its standard output have closed that. Programs that it leaves behind without it keep running.

use super::password_error::PasswordError;
use paceline_config::{PASSWORD_LENGTH_MAX, PasswordCommand, Secret};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdout, Command};

/// The password that the command writes within `limit`. If the run has not ended then, its process group is killed.
pub(super) async fn run(
    command: &PasswordCommand,
    limit: Duration,
) -> Result<Secret, PasswordError> {
    let program = command.to_string();
    let ended = tokio::time::timeout(limit, output(command)).await;
    let not_executed = |error: io::Error| PasswordError::NotExecuted {
        program: program.clone(),
        reason: error.to_string(),
    };
    let output = match ended {
        Ok(output) => output.map_err(not_executed)?,
        Err(_) => return Err(PasswordError::SlowCommand { program, limit }),
    };
    match output {
        (Some(status), _) if !status.success() => Err(PasswordError::Failed {
            program,
            status: status.to_string(),
        }),
        (_, text) => {
            let text = String::from_utf8(text).unwrap_or_default();
            Secret::in_line(&text).ok_or(PasswordError::NoPassword(program))
        }
    }
}

/// The standard output up to its limit, and how the program has ended; `None` if it has not, as it writes too much.
async fn output(command: &PasswordCommand) -> io::Result<(Option<ExitStatus>, Vec<u8>)> {
    let (mut running, stdout) = Running::start(command)?;
    let mut text = Vec::new();
    stdout
        .take(PASSWORD_LENGTH_MAX + 1)
        .read_to_end(&mut text)
        .await?;
    if u64::try_from(text.len()).is_ok_and(|length| length > PASSWORD_LENGTH_MAX) {
        return Ok((None, text));
    }
    let status = running.0.wait().await?;
    Ok((Some(status), text))
}

/// A program that is killed, with its process group, if this is dropped before it has ended.
struct Running(Child);

impl Running {
    fn start(command: &PasswordCommand) -> io::Result<(Self, ChildStdout)> {
        let mut child = Command::new(command.program())
            .args(command.arguments())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let stdout = child.stdout.take();
        let running = Self(child);
        let stdout = stdout.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok((running, stdout))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // There is an id until the program has ended and its status was read: so the id is still its own.
        let id = self.0.id().and_then(|id| i32::try_from(id).ok());
        if let Some(group) = id.and_then(Pid::from_raw) {
            // It fails only if the group has ended meanwhile.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
