//! The data folder: what lies where in it, who may use it, one start at a time. It never creates anything beside the
//! names listed here, and never removes any.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::error::Error;

const CLUSTER: &str = "pgdata";
const CLUSTER_IN_THE_MAKING: &str = "pgdata.new";
const LOG: &str = "postgresql.log";
const OLD_LOG: &str = "postgresql.log.old";
const SOCKET: &str = "socket";
const LOCK: &str = "start.lock";

/// The data folder, by its real path.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Creates the folder if need be, and refuses one that is itself a cluster.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(|source| refusal(path, source))?;
        let root = fs::canonicalize(path).map_err(Error::io("look at", path))?;
        if root.join("PG_VERSION").exists() {
            return Err(Error::ForeignCluster { folder: root });
        }
        Ok(Self { root })
    }

    /// Keeps other starts in this folder waiting until the file is closed. Also shows whether the folder is writable.
    pub(crate) fn lock(&self) -> Result<File, Error> {
        let path = self.root.join(LOCK);
        let file = File::create(&path).map_err(|source| refusal(&self.root, source))?;
        file.lock().map_err(Error::io("lock", &path))?;
        Ok(file)
    }

    /// Sees to it that the server's account can get here: hands it the folder if that alone keeps it out and the folder
    /// is used for nothing else.
    pub(crate) fn admit(&self, account: &Account) -> Result<(), Error> {
        match account.check_reaches(&self.root) {
            Err(Error::Unreachable { barrier, .. })
                if barrier == self.root && self.holds_nothing_else()? =>
            {
                account.own(&self.root)?;
                account.check_reaches(&self.root)
            }
            other => other,
        }
    }

    fn holds_nothing_else(&self) -> Result<bool, Error> {
        let ours = [CLUSTER, CLUSTER_IN_THE_MAKING, LOG, OLD_LOG, SOCKET, LOCK].map(OsStr::new);
        for entry in fs::read_dir(&self.root).map_err(Error::io("list", &self.root))? {
            let name = entry.map_err(Error::io("list", &self.root))?.file_name();
            if !ours.contains(&name.as_os_str()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn cluster(&self) -> PathBuf {
        self.root.join(CLUSTER)
    }

    pub(crate) fn cluster_in_the_making(&self) -> PathBuf {
        self.root.join(CLUSTER_IN_THE_MAKING)
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.root.join(LOG)
    }

    pub(crate) fn old_log(&self) -> PathBuf {
        self.root.join(OLD_LOG)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.root.join(SOCKET)
    }
}

fn refusal(path: &Path, reason: io::Error) -> Error {
    let folder = path.to_path_buf();
    match reason.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Error::NotWritable {
            folder,
            user: Account::own_name(),
            reason,
        },
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            Error::NotAFolder { path: folder }
        }
        _ => Error::Io {
            action: "create",
            path: folder,
            reason,
        },
    }
}
