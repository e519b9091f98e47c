//! The one error of this crate: every variant names a failure, and its text says what to do about it.
//! It never hides the operating system's or PostgreSQL's own words.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::version::Version;

/// Why an embedded PostgreSQL could not be found, fetched, started or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused something that none of the other variants explains.
    #[error("could not {action} {}: {reason}", path.display())]
    Io {
        /// What was being done, as in "could not …".
        action: &'static str,
        /// The file or program it was done to.
        path: PathBuf,
        /// The operating system's answer.
        reason: io::Error,
    },

    /// The data folder cannot be created or written to.
    #[error(
        "data folder {} is not writable for user {user} ({reason}); choose another folder or change its permissions",
        folder.display()
    )]
    NotWritable {
        /// The data folder.
        folder: PathBuf,
        /// Who tried to write.
        user: String,
        /// The operating system's answer.
        reason: io::Error,
    },

    /// The data folder's path, or a part of it, is a file.
    #[error("{} cannot be the data folder: it, or a part of its path, is not a folder; choose another path", path.display())]
    NotAFolder {
        /// The path given as data folder.
        path: PathBuf,
    },

    /// A live server works in the folder.
    #[error(
        "data folder {} is in use by the PostgreSQL server with process id {pid}; \
         stop that server first (kill -INT {pid}) or choose another folder",
        folder.display()
    )]
    InUse {
        /// The folder that holds the cluster.
        folder: PathBuf,
        /// The process that holds it.
        pid: u32,
    },

    /// The cluster was initialised by another major version, and no server of that version was found.
    #[error(
        "{} was initialised by PostgreSQL {cluster}, but the server in {} is version {}; install PostgreSQL {cluster}, \
         convert the data with pg_upgrade, or choose another folder",
        folder.display(), bin_dir.display(), server.major
    )]
    OtherMajor {
        /// The folder that holds the cluster.
        folder: PathBuf,
        /// The major version that initialised it.
        cluster: u32,
        /// The newest server at hand.
        server: Version,
        /// Where that server is.
        bin_dir: PathBuf,
    },

    /// The place for the cluster holds something else.
    #[error("{} is not empty and holds no PostgreSQL cluster; move its contents away or choose another folder", folder.display())]
    NotACluster {
        /// The folder that should hold the cluster.
        folder: PathBuf,
    },

    /// The folder given is itself a cluster, made by someone else.
    #[error("{} is itself a PostgreSQL data directory; name a folder of its own for the embedded server", folder.display())]
    ForeignCluster {
        /// The path given as data folder.
        folder: PathBuf,
    },

    /// A folder belongs to another user, so PostgreSQL would refuse it.
    #[error(
        "{} belongs to user id {owner}, not to {user}; run as its owner, change the owner, or choose another folder",
        folder.display()
    )]
    WrongOwner {
        /// The folder.
        folder: PathBuf,
        /// The user id that owns it.
        owner: u32,
        /// The user that the server would run as.
        user: String,
    },

    /// Run by root: the user that PostgreSQL runs as cannot get at a path.
    #[error(
        "PostgreSQL does not run as root, and user {user}, which it would run as, cannot reach {}: {} has no search \
         permission for that user; choose a place outside of it (for example below /var/lib) or run `chmod o+x {}`",
        path.display(), barrier.display(), barrier.display()
    )]
    Unreachable {
        /// What should have been reached.
        path: PathBuf,
        /// The file or folder on the way that stops the user.
        barrier: PathBuf,
        /// The user that the server would run as.
        user: String,
    },

    /// Run by root, and there is no other user to run the server as.
    #[error(
        "PostgreSQL does not run as root, and there is neither a user postgres nor nobody; create one or run as another user"
    )]
    NoAccount,

    /// The port asked for is taken.
    #[error(
        "port {port} on 127.0.0.1 is taken by another program; choose another port or stop that program"
    )]
    PortTaken {
        /// The port.
        port: u16,
    },

    /// No socket folder is short enough.
    #[error(
        "the Unix socket's folder {} is too long: {} bytes are the limit; choose a shorter one", folder.display(), bytes_max
    )]
    SocketPathTooLong {
        /// The folder.
        folder: PathBuf,
        /// The longest folder name that would do.
        bytes_max: usize,
    },

    /// A setting that this crate answers for.
    #[error(
        "setting {name} cannot be given: the embedded server sets it by itself, to stay durable and local"
    )]
    ReservedSetting {
        /// The setting's name.
        name: String,
    },

    /// A folder without usable server binaries.
    #[error("{} holds no usable PostgreSQL server ({reason}); name the folder that holds postgres and initdb", bin_dir.display())]
    NotAnInstallation {
        /// The folder.
        bin_dir: PathBuf,
        /// What is wrong with it.
        reason: String,
    },

    /// The environment names no home, so there is no default folder.
    #[error("there is no folder to keep {what} in; set HOME or name a folder")]
    NoHome {
        /// What should have been kept.
        what: &'static str,
    },

    /// A release could not be fetched.
    #[error(
        "could not fetch PostgreSQL: {reason}; install PostgreSQL on this machine or check the network and its proxy"
    )]
    Fetch {
        /// What the download, its checksum or its unpacking ended with.
        reason: String,
    },

    /// `initdb` failed.
    #[error("initdb could not initialise {}:\n{output}", folder.display())]
    InitFailed {
        /// The folder that was to hold the cluster.
        folder: PathBuf,
        /// The end of what initdb printed.
        output: String,
    },

    /// The server ended before it accepted connections.
    #[error("PostgreSQL ended while starting ({status}); the end of its log {}:\n{tail}", log.display())]
    StartFailed {
        /// How it ended.
        status: ExitStatus,
        /// Its log.
        log: PathBuf,
        /// The last lines of this run in the log.
        tail: String,
    },

    /// The server did not accept connections in time, and was stopped.
    #[error("PostgreSQL did not accept connections within {seconds} s; the end of its log {}:\n{tail}", log.display())]
    StartTimedOut {
        /// The limit.
        seconds: u64,
        /// Its log.
        log: PathBuf,
        /// The last lines of this run in the log.
        tail: String,
    },

    /// The server had to be forced to stop; its next start recovers from the log, nothing acknowledged is lost.
    #[error(
        "PostgreSQL (process id {pid}) did not shut down within {seconds} s and was killed; the next start recovers its data"
    )]
    StopTimedOut {
        /// The postmaster.
        pid: u32,
        /// The limit.
        seconds: u64,
    },

    /// A process outlived SIGKILL.
    #[error(
        "process {pid} of PostgreSQL is still there {seconds} s after SIGKILL; look at its state with ps"
    )]
    StillRunning {
        /// The process.
        pid: u32,
        /// The limit.
        seconds: u64,
    },
}

impl Error {
    /// For `map_err`: what was being done to which path.
    pub(crate) fn io(
        action: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |reason| Self::Io {
            action,
            path,
            reason,
        }
    }
}
