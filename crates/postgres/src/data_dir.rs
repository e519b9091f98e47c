//! The data folder: the names of its files, access to it, and the lock that admits one start at a time. It never creates
//! files under other names than those listed here, and never removes any.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::error::Error;

const CLUSTER: &str = "pgdata";
const NEW_CLUSTER: &str = "pgdata.new";
const LOG: &str = "postgresql.log";
const OLD_LOG: &str = "postgresql.log.old";
const SOCKET: &str = "socket";
const LOCK: &str = "start.lock";

/// The data folder and the files in it, by their canonical paths.
#[derive(Debug)]
pub(crate) struct DataDir {
    pub(crate) root: PathBuf,
    pub(crate) cluster: PathBuf,
    /// A new cluster is created here and then renamed.
    pub(crate) new_cluster: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) old_log: PathBuf,
    pub(crate) socket: PathBuf,
}

impl DataDir {
    /// Opens the folder; creates it if it is missing and refuses it if it is itself a cluster.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(|source| open_error(path, source))?;
        let root = fs::canonicalize(path).map_err(Error::io("look at", path))?;
        if root.join("PG_VERSION").exists() {
            return Err(Error::ForeignCluster(root));
        }
        Ok(Self {
            cluster: root.join(CLUSTER),
            new_cluster: root.join(NEW_CLUSTER),
            log: root.join(LOG),
            old_log: root.join(OLD_LOG),
            socket: root.join(SOCKET),
            root,
        })
    }

    /// Locks the folder: other starts wait until the returned file is closed. Fails if the folder is not writable.
    pub(crate) fn lock(&self) -> Result<File, Error> {
        let path = self.root.join(LOCK);
        let file = File::create(&path).map_err(|source| open_error(&self.root, source))?;
        file.lock().map_err(Error::io("lock", &path))?;
        Ok(file)
    }

    /// Ensures that the account of the server can enter the folder. If only the folder itself blocks the account, and the
    /// folder holds no other files, the account becomes its owner.
    pub(crate) fn grant_access(&self, account: &Account) -> Result<(), Error> {
        match account.check_reaches(&self.root) {
            Err(Error::Unreachable { blocked_at, .. })
                if blocked_at == self.root && self.holds_nothing_else()? =>
            {
                account.own(&self.root)?;
                account.check_reaches(&self.root)
            }
            other => other,
        }
    }

    fn holds_nothing_else(&self) -> Result<bool, Error> {
        let own = [CLUSTER, NEW_CLUSTER, LOG, OLD_LOG, SOCKET, LOCK].map(OsStr::new);
        for entry in fs::read_dir(&self.root).map_err(Error::io("list", &self.root))? {
            let name = entry.map_err(Error::io("list", &self.root))?.file_name();
            if !own.contains(&name.as_os_str()) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The error for a data folder that cannot be created or written to.
fn open_error(path: &Path, reason: io::Error) -> Error {
    let folder = path.to_path_buf();
    match reason.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Error::NotWritable {
            folder,
            user: Account::own_name(),
            reason,
        },
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => Error::NotAFolder(folder),
        _ => Error::Io {
            action: "create",
            path: folder,
            reason,
        },
    }
}
