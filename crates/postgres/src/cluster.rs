//! A cluster before its server runs: its major version, whether a server uses it, and `initdb` for a new one. It never
//! changes an existing cluster, except that it removes a `postmaster.pid` whose process is provably dead or unrelated.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::account::Account;
use crate::data_dir::DataDir;
use crate::error::Error;
use crate::installation::Installation;
use crate::pidfile::{self, PidFile};
use crate::version::Version;
use crate::{log, processes};

/// The superuser that `initdb` creates.
pub(crate) const SUPERUSER: &str = "postgres";
/// Limit for the children of a killed postmaster to exit.
const ORPHANS_TIME_LIMIT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The major version that initialised the cluster; `None` if there is no cluster yet.
pub(crate) fn major(pgdata: &Path) -> Result<Option<u32>, Error> {
    let not_a_cluster = || Error::NotACluster(pgdata.to_path_buf());
    let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match fs::read_to_string(pgdata.join("PG_VERSION")) {
        Ok(contents) => {
            let major = Version::parse_cluster(&contents);
            return major.map(Some).ok_or_else(not_a_cluster);
        }
        Err(error) if missing(&error) => {}
        Err(error) => return Err(Error::io("read PG_VERSION in", pgdata)(error)),
    }
    match fs::read_dir(pgdata).map(Iterator::count) {
        Ok(0) => Ok(None),
        Ok(_) => Err(not_a_cluster()),
        Err(error) if missing(&error) => Ok(None),
        Err(error) => Err(Error::io("list", pgdata)(error)),
    }
}

/// Checks that the cluster, if there is one, belongs to the account of the server. If root owns it, root changes its owner
/// to the account.
pub(crate) fn check_owner(pgdata: &Path, account: &Account) -> Result<(), Error> {
    let Ok(metadata) = fs::metadata(pgdata) else {
        return Ok(());
    };
    match metadata.uid() {
        owner if owner == account.uid => Ok(()),
        0 if account.switches_user() => account.own_tree(pgdata),
        owner => Err(Error::WrongOwner {
            folder: pgdata.to_path_buf(),
            owner,
            user: account.name.clone(),
        }),
    }
}

/// Checks that no server uses the cluster. What remains of a killed server is tolerated: its `postmaster.pid` may be
/// stale, and its children exit by themselves.
pub(crate) fn check_unused(pgdata: &Path) -> Result<(), Error> {
    let in_use = |pid| {
        Err(Error::InUse {
            folder: pgdata.to_path_buf(),
            pid,
        })
    };
    let recorded = PidFile::read(pgdata).map(|file| file.pid);
    if let Some(pid) = recorded.filter(|pid| processes::may_serve(*pid, pgdata)) {
        return in_use(pid);
    }
    let deadline = Instant::now() + ORPHANS_TIME_LIMIT;
    while let Some(pid) = processes::servers_in(pgdata).first() {
        if Instant::now() > deadline {
            return in_use(*pid);
        }
        thread::sleep(POLL_INTERVAL);
    }
    if recorded.is_some_and(processes::exists) {
        // A zombie, or an unrelated process that has the number now. PostgreSQL cannot distinguish them and would refuse to start.
        let path = pgdata.join(pidfile::NAME);
        fs::remove_file(&path).map_err(Error::io("remove the stale", &path))?;
    }
    Ok(())
}

/// Creates a new cluster by `initdb`.
pub(crate) fn init(
    folder: &DataDir,
    installation: &Installation,
    account: &Account,
) -> Result<(), Error> {
    create(folder, account, |new| {
        run_initdb(installation, account, new)
    })
}

/// Creates a new cluster under a temporary name and then renames it, so that an interruption leaves nothing that looks like a
/// cluster. `fill` writes its files into an empty folder.
pub(crate) fn create(
    folder: &DataDir,
    account: &Account,
    fill: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<(), Error> {
    let (new, pgdata, root) = (&folder.new_cluster, &folder.cluster, &folder.root);
    if new.exists() {
        fs::remove_dir_all(new).map_err(Error::io("remove", new))?;
    }
    account.create_private_dir(new)?;
    fill(new)?;
    fs::rename(new, pgdata).map_err(Error::io("move the new cluster to", pgdata))?;
    File::open(root)
        .and_then(|root| root.sync_all())
        .map_err(Error::io("flush", root))
}

fn run_initdb(installation: &Installation, account: &Account, pgdata: &Path) -> Result<(), Error> {
    let program = installation.program("initdb");
    let mut command = command(&program, account);
    command.arg("--pgdata").arg(pgdata);
    command.args(["--username", SUPERUSER, "--auth=trust", "--encoding=UTF8"]);
    command.args(["--locale=C", "--data-checksums"]);
    let output = command.output().map_err(Error::io("run", &program))?;
    if output.status.success() {
        return Ok(());
    }
    let printed = [output.stdout, output.stderr].concat();
    let output = log::last_lines(&String::from_utf8_lossy(&printed));
    Err(Error::InitFailed {
        folder: pgdata.to_path_buf(),
        output,
    })
}

/// A command for one of the server's programs, run by the account of the server, in a folder that every user may enter
/// and without libpq's environment variables. It has its own process group: a Ctrl-C in the terminal is for this process,
/// which stops the server when it ends.
pub(crate) fn command(program: &PathBuf, account: &Account) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"PG") {
            command.env_remove(name);
        }
    }
    command.env("LC_ALL", "C").current_dir("/");
    command.stdin(Stdio::null()).process_group(0);
    account.run(&mut command);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_distinguishes_nothing_a_cluster_and_other_files() {
        let root = tempfile::tempdir().unwrap();
        let pgdata = root.path().join("pgdata");
        assert_eq!(major(&pgdata).unwrap(), None);
        fs::create_dir(&pgdata).unwrap();
        assert_eq!(major(&pgdata).unwrap(), None);
        fs::write(pgdata.join("PG_VERSION"), "17\n").unwrap();
        assert_eq!(major(&pgdata).unwrap(), Some(17));
        fs::write(pgdata.join("PG_VERSION"), "?").unwrap();
        assert!(matches!(major(&pgdata), Err(Error::NotACluster { .. })));
        fs::rename(pgdata.join("PG_VERSION"), pgdata.join("holiday.jpg")).unwrap();
        assert!(matches!(major(&pgdata), Err(Error::NotACluster { .. })));
    }

    #[test]
    fn a_pid_file_that_names_an_unrelated_process_is_stale() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(pidfile::NAME);
        fs::write(&path, format!("{}\n", std::process::id())).unwrap();
        check_unused(root.path()).unwrap();
        assert!(!path.exists());
    }
}
