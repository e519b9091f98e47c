//! The data of a streaming replica: a copy of a running server, made by `pg_basebackup` or, without that program, by the
//! replication protocol. It never changes the server that it copies.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::account::{Account, for_each_entry};
use crate::data_dir::DataDir;
use crate::error::Error;
use crate::installation::Installation;
use crate::{base_backup, cluster, log};

/// The program that copies a server.
const PROGRAM: &str = "pg_basebackup";
/// An empty file that makes a server a replica.
const STANDBY_SIGNAL: &str = "standby.signal";
/// The settings of `ALTER SYSTEM`.
const AUTO_CONF: &str = "postgresql.auto.conf";

#[derive(Debug, PartialEq, Eq)]
enum CopyMethod {
    /// By `pg_basebackup` at this path.
    Program(PathBuf),
    /// By [`base_backup`].
    Protocol,
}

impl CopyMethod {
    /// The method for the binaries of this installation, some of which, like the fetched ones, have no client programs.
    fn of(installation: &Installation) -> Result<Self, Error> {
        let program = installation.program(PROGRAM);
        if program.is_file() {
            return Ok(Self::Program(program));
        }
        if installation.version.major >= base_backup::MAJOR_MIN {
            return Ok(Self::Protocol);
        }
        Err(Error::NoBaseBackup {
            server: installation.version.clone(),
            protocol_major: base_backup::MAJOR_MIN,
        })
    }
}

/// Copies the server at this port of 127.0.0.1 into the folder for the cluster.
pub(crate) fn copy(
    primary_port: u16,
    folder: &DataDir,
    installation: &Installation,
    account: &Account,
) -> Result<(), Error> {
    let method = CopyMethod::of(installation)?;
    cluster::create(folder, account, |new| match method {
        CopyMethod::Program(program) => run_program(&program, primary_port, new, account),
        CopyMethod::Protocol => copy_by_protocol(primary_port, new, account),
    })
}

fn run_program(
    program: &PathBuf,
    primary_port: u16,
    pgdata: &Path,
    account: &Account,
) -> Result<(), Error> {
    let mut command = cluster::command(program, account);
    command.arg("--pgdata").arg(pgdata);
    command.args([
        "--write-recovery-conf",
        "--checkpoint=fast",
        "--no-password",
    ]);
    command.args(["--host=127.0.0.1", "--username", cluster::SUPERUSER]);
    command.arg(format!("--port={primary_port}"));
    let output = command.output().map_err(Error::io("run", program))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::CopyFailed {
        folder: pgdata.to_path_buf(),
        output: log::last_lines(&String::from_utf8_lossy(&output.stderr)),
    })
}

/// Does what `pg_basebackup --write-recovery-conf` does.
fn copy_by_protocol(primary_port: u16, pgdata: &Path, account: &Account) -> Result<(), Error> {
    let copied = base_backup::copy(primary_port, cluster::SUPERUSER, pgdata);
    copied.map_err(|error| Error::CopyFailed {
        folder: pgdata.to_path_buf(),
        output: error.to_string(),
    })?;
    let signal = pgdata.join(STANDBY_SIGNAL);
    File::create(&signal).map_err(Error::io("create", &signal))?;
    let settings = pgdata.join(AUTO_CONF);
    append_primary(&settings, primary_port).map_err(Error::io("write", &settings))?;
    account.own_tree(pgdata)?;
    flush(pgdata)
}

/// Of several entries with the same name, the last one applies.
fn append_primary(settings: &Path, port: u16) -> io::Result<()> {
    let user = cluster::SUPERUSER;
    let mut file = File::options().append(true).create(true).open(settings)?;
    writeln!(
        file,
        "primary_conninfo = 'host=127.0.0.1 port={port} user={user}'"
    )
}

/// Writes a folder and everything in it to disk.
fn flush(path: &Path) -> Result<(), Error> {
    let metadata = fs::symlink_metadata(path).map_err(Error::io("look at", path))?;
    if metadata.is_dir() {
        for_each_entry(path, flush)?;
    }
    let flushed = File::open(path).and_then(|file| file.sync_all());
    flushed.map_err(Error::io("flush", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Version;

    #[test]
    fn the_program_is_preferred_and_old_servers_need_it() {
        let root = tempfile::tempdir().unwrap();
        let installation = |text: &str| Installation {
            bin_dir: root.path().join(text),
            version: Version::parse(text).unwrap(),
        };
        let method = |text| CopyMethod::of(&installation(text));
        assert_eq!(method("15.0").unwrap(), CopyMethod::Protocol);
        let error = method("14.9").unwrap_err().to_string();
        assert!(
            error.contains("older than PostgreSQL 15")
                && error.contains("install the package postgresql-client-14"),
            "{error}"
        );
        for text in ["14.9", "15.0"] {
            let folder = root.path().join(text);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join(PROGRAM), "").unwrap();
            assert_eq!(
                method(text).unwrap(),
                CopyMethod::Program(folder.join(PROGRAM))
            );
        }
    }

    #[test]
    fn the_last_primary_applies() {
        let root = tempfile::tempdir().unwrap();
        let settings = root.path().join(AUTO_CONF);
        fs::write(&settings, "primary_conninfo = 'port=1'\n").unwrap();
        append_primary(&settings, 5432).unwrap();
        let text = fs::read_to_string(&settings).unwrap();
        let last = text.lines().last().unwrap();
        assert_eq!(
            last,
            "primary_conninfo = 'host=127.0.0.1 port=5432 user=postgres'"
        );
    }
}
