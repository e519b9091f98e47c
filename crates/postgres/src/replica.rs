//! The data of a streaming replica: a copy of a running server, made by `pg_basebackup`. It never changes the server that it
//! copies.

use crate::account::Account;
use crate::cluster;
use crate::data_dir::DataDir;
use crate::error::Error;
use crate::installation::{Installation, find_installations};
use crate::log;

/// The program that copies a server.
const PROGRAM: &str = "pg_basebackup";

impl Installation {
    /// Finds the newest installation on this machine that has `pg_basebackup`, without which there are no replicas. A release that
    /// [`fetch`](crate::fetch) gets does not have it.
    ///
    /// # Errors
    /// [`Error::NoBaseBackup`] if there is none.
    pub fn with_base_backup() -> Result<Self, Error> {
        first_with_base_backup(find_installations())
    }
}

fn first_with_base_backup(found: Vec<Installation>) -> Result<Installation, Error> {
    let mut found = found.into_iter();
    let first = found.find(|one| one.program(PROGRAM).is_file());
    first.ok_or(Error::NoBaseBackup)
}

/// Copies the server at this port of 127.0.0.1 into the folder for the cluster.
pub(crate) fn copy(
    primary_port: u16,
    folder: &DataDir,
    installation: &Installation,
    account: &Account,
) -> Result<(), Error> {
    let program = installation.program(PROGRAM);
    if !program.is_file() {
        return Err(Error::NoBaseBackup);
    }
    account.create_private_dir(&folder.cluster)?;
    let mut command = cluster::command(&program, account);
    command.arg("--pgdata").arg(&folder.cluster);
    command.args([
        "--write-recovery-conf",
        "--checkpoint=fast",
        "--no-password",
    ]);
    command.args(["--host=127.0.0.1", "--username", cluster::SUPERUSER]);
    command.arg(format!("--port={primary_port}"));
    let output = command.output().map_err(Error::io("run", &program))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::CopyFailed {
        folder: folder.cluster.clone(),
        output: log::last_lines(&String::from_utf8_lossy(&output.stderr)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Version;
    use std::fs;

    #[test]
    fn an_installation_without_the_program_is_skipped() {
        let root = tempfile::tempdir().unwrap();
        let installation = |text: &str| Installation {
            bin_dir: root.path().join(text),
            version: Version::parse(text).unwrap(),
        };
        let found = vec![installation("18.1"), installation("17.4")];
        let error = first_with_base_backup(found.clone()).unwrap_err();
        assert!(
            error.to_string().contains("install the package postgresql"),
            "{error}"
        );
        let complete = root.path().join("17.4");
        fs::create_dir(&complete).unwrap();
        fs::write(complete.join(PROGRAM), "").unwrap();
        assert_eq!(first_with_base_backup(found).unwrap().bin_dir, complete);
    }
}
