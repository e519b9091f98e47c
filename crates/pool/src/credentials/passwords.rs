//! Reads passwords from their sources, away from the threads that serve sockets. A file is read each time. The output of a command is
//! kept until a server refuses it; logins that need it at the same time share one run.

use super::command;
use super::password_error::PasswordError;
use paceline_config::{PasswordCommand, PasswordSource, Secret, SecretError, read_password};
use paceline_net::optional_timeout;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

#[cfg(test)]
mod tests;

/// Maximum time of a command if `server_connect_timeout` is 0.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// The last run of each command. Only commands of the configuration run, and a new configuration forgets the runs, so that there are
/// not more of them than the configuration has.
#[derive(Default)]
pub(crate) struct Passwords(Mutex<Commands>);

#[derive(Default)]
struct Commands {
    runs: HashMap<PasswordCommand, Run>,
    limit: Duration,
}

impl Passwords {
    /// Applies `server_connect_timeout` to commands, and forgets their outputs. Commands that run continue.
    pub(crate) fn reset(&self, limit: Duration) {
        let runs = HashMap::new();
        *self.lock() = Commands { runs, limit };
    }

    /// The password now, other than `refused` if the source has another one. Waits at most `limit`; zero means no limit.
    ///
    /// # Errors
    /// There is no password, or not in time.
    pub(super) async fn read(
        &self,
        source: &PasswordSource,
        refused: Option<&Secret>,
        limit: Duration,
    ) -> Result<Secret, PasswordError> {
        match source {
            PasswordSource::Written(password) => Ok(password.clone()),
            PasswordSource::File(path) => in_file(path, limit).await,
            PasswordSource::Command(command) => {
                let run = self.run(command, refused);
                let outcome = optional_timeout(limit, run.outcome()).await;
                outcome.unwrap_or_else(|| {
                    let program = command.to_string();
                    Err(PasswordError::SlowCommand { program, limit })
                })
            }
        }
    }

    /// The run whose output is known or awaited, unless that is `refused` or an error; else a new one.
    fn run(&self, command: &PasswordCommand, refused: Option<&Secret>) -> Run {
        let mut commands = self.lock();
        if let Some(run) = commands.runs.get(command)
            && run.may_serve(refused)
        {
            return run.clone();
        }
        let limit = match commands.limit {
            Duration::ZERO => COMMAND_LIMIT,
            limit => limit,
        };
        let run = Run::start(command.clone(), limit);
        commands.runs.insert(command.clone(), run.clone());
        run
    }

    fn lock(&self) -> MutexGuard<'_, Commands> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn in_file(path: &Path, limit: Duration) -> Result<Secret, PasswordError> {
    let file = path.to_owned();
    let reading = tokio::task::spawn_blocking(move || read_password(&file));
    match optional_timeout(limit, reading).await {
        Some(read) => read
            .map_err(|error| PasswordError::Interrupted(error.to_string()))?
            .map_err(|error: SecretError| error.into()),
        None => Err(PasswordError::SlowFile {
            file: path.display().to_string(),
            limit,
        }),
    }
}

/// A run of a command, which continues if no login waits for it any more.
#[derive(Clone)]
struct Run(watch::Receiver<Option<Outcome>>);

type Outcome = Result<Secret, PasswordError>;

impl Run {
    fn start(command: PasswordCommand, limit: Duration) -> Self {
        let (ended, run) = watch::channel(None);
        tokio::spawn(async move {
            let outcome = command::run(&command, limit).await;
            // If there is no receiver, the configuration was replaced, and no login waits.
            let _ = ended.send(Some(outcome));
        });
        Self(run)
    }

    /// Whether a login may use its output, now or when it has ended.
    fn may_serve(&self, refused: Option<&Secret>) -> bool {
        match &*self.0.borrow() {
            Some(Ok(password)) => Some(password) != refused,
            Some(Err(_)) => false,
            None => self.0.has_changed().is_ok(),
        }
    }

    async fn outcome(mut self) -> Outcome {
        let ended = self.0.wait_for(Option::is_some).await;
        let outcome = ended.ok().and_then(|outcome| outcome.clone());
        outcome.unwrap_or_else(|| {
            let why = "the command was abandoned";
            Err(PasswordError::Interrupted(why.to_owned()))
        })
    }
}
