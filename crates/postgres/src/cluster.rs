//! A cluster before its server runs: what made it, whether somebody works in it, how a new one comes about. It never
//! changes an existing cluster, except that it removes a `postmaster.pid` that demonstrably names the dead or a stranger.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::account::Account;
use crate::error::Error;
use crate::folder::Folder;
use crate::installation::Installation;
use crate::pidfile::{self, PidFile};
use crate::version::Version;
use crate::{log, processes};

/// The superuser that `initdb` creates.
pub(crate) const SUPERUSER: &str = "postgres";
/// How long the children of a killed postmaster may take to notice and go.
const ORPHANS_TIME_LIMIT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The major version that initialised the cluster; `None` when there is no cluster yet.
pub(crate) fn major(pgdata: &Path) -> Result<Option<u32>, Error> {
    let not_a_cluster = || Error::NotACluster {
        folder: pgdata.to_path_buf(),
    };
    match fs::read_to_string(pgdata.join("PG_VERSION")) {
        Ok(contents) => Version::parse_cluster(&contents)
            .map(Some)
            .ok_or_else(not_a_cluster),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match fs::read_dir(pgdata).map(Iterator::count) {
                Ok(0) => Ok(None),
                Ok(_) => Err(not_a_cluster()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(Error::io("list", pgdata)(error)),
            }
        }
        Err(error) => Err(Error::io("read PG_VERSION in", pgdata)(error)),
    }
}

/// That the cluster, if there is one, belongs to the server's account. Root hands over what belongs to root.
pub(crate) fn check_owner(pgdata: &Path, account: &Account) -> Result<(), Error> {
    let Ok(metadata) = fs::metadata(pgdata) else {
        return Ok(());
    };
    match metadata.uid() {
        owner if owner == account.uid => Ok(()),
        0 if account.steps_down() => account.own_tree(pgdata),
        owner => Err(Error::WrongOwner {
            folder: pgdata.to_path_buf(),
            owner,
            user: account.name.clone(),
        }),
    }
}

/// That nobody works in the cluster. Leftovers of a killed server do not count: its `postmaster.pid` may be stale, its
/// children go by themselves.
pub(crate) fn check_unused(pgdata: &Path) -> Result<(), Error> {
    let in_use = |pid| {
        Err(Error::InUse {
            folder: pgdata.to_path_buf(),
            pid,
        })
    };
    let noted = PidFile::read(pgdata).map(|file| file.pid);
    if let Some(pid) = noted.filter(|pid| processes::may_serve(*pid, pgdata)) {
        return in_use(pid);
    }
    let deadline = Instant::now() + ORPHANS_TIME_LIMIT;
    while let Some(pid) = processes::servers_in(pgdata).first() {
        if Instant::now() > deadline {
            return in_use(*pid);
        }
        thread::sleep(POLL_INTERVAL);
    }
    if noted.is_some_and(processes::exists) {
        // A zombie, or by now a stranger's number: PostgreSQL could not tell, and would refuse to start.
        let path = pgdata.join(pidfile::NAME);
        fs::remove_file(&path).map_err(Error::io("remove the stale", &path))?;
    }
    Ok(())
}

/// Makes a new cluster: beside its place, then moved there, so that an interrupted `initdb` leaves nothing that looks
/// like a cluster.
pub(crate) fn init(
    folder: &Folder,
    installation: &Installation,
    account: &Account,
) -> Result<(), Error> {
    let (made, place) = (folder.cluster_in_the_making(), folder.cluster());
    if made.exists() {
        fs::remove_dir_all(&made).map_err(Error::io("remove", &made))?;
    }
    account.create_private_dir(&made)?;
    run_initdb(installation, account, &made)?;
    fs::rename(&made, &place).map_err(Error::io("move the new cluster to", &place))?;
    let root = folder.root();
    File::open(root)
        .and_then(|root| root.sync_all())
        .map_err(Error::io("flush", root))
}

fn run_initdb(installation: &Installation, account: &Account, pgdata: &Path) -> Result<(), Error> {
    let program = installation.program("initdb");
    let mut command = command(&program, account);
    command
        .arg("--pgdata")
        .arg(pgdata)
        .arg("--username")
        .arg(SUPERUSER);
    command.args([
        "--auth=trust",
        "--encoding=UTF8",
        "--locale=C",
        "--data-checksums",
    ]);
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

/// One of the server's programs, run by its account, in a process group of its own (a Ctrl-C in the terminal is for the
/// front end, which stops the server when it is done), in a folder that anybody may enter, without libpq's environment.
pub(crate) fn command(program: &PathBuf, account: &Account) -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(program);
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG"))
    {
        command.env_remove(name);
    }
    command
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::null())
        .process_group(0);
    account.run(&mut command);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_what_is_in_the_place() {
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
    fn a_process_id_that_is_a_strangers_is_stale() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(pidfile::NAME);
        fs::write(&path, format!("{}\n", std::process::id())).unwrap();
        check_unused(root.path()).unwrap();
        assert!(!path.exists());
    }
}
