//! The error type of this crate: every variant names a failure, and its text says how to correct it. It never hides the
//! message of the operating system or of PostgreSQL.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::version::Version;

/// The reason why an embedded PostgreSQL could not be found, fetched, started or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system reported an error that no other variant explains.
    #[error("could not {action} {}: {reason}", path.display())]
    Io {
        /// The operation that failed, as in "could not …".
        action: &'static str,
        /// The file or program concerned.
        path: PathBuf,
        /// The error of the operating system.
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
        /// The user that tried to write.
        user: String,
        /// The error of the operating system.
        reason: io::Error,
    },

    /// The data folder's path, or a part of it, is a file.
    #[error("{folder} cannot be the data folder: it, or a part of its path, is not a folder; choose another path", folder = .0.display())]
    NotAFolder(PathBuf),

    /// A running server uses the folder.
    #[error(
        "data folder {} is in use by the PostgreSQL server with process id {pid}; \
         stop that server first (kill -INT {pid}) or choose another folder",
        folder.display()
    )]
    InUse {
        /// The folder that holds the cluster.
        folder: PathBuf,
        /// The process id of that server.
        pid: u32,
    },

    /// Another major version initialised the cluster, and no server of that version was found.
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
        /// The newest server found.
        server: Version,
        /// The folder of that server.
        bin_dir: PathBuf,
    },

    /// The folder for the cluster holds other files.
    #[error("{folder} is not empty and holds no PostgreSQL cluster; move its contents away or choose another folder", folder = .0.display())]
    NotACluster(PathBuf),

    /// The given folder is itself a cluster that this crate did not create.
    #[error("{folder} is itself a PostgreSQL data directory; name a folder of its own for the embedded server", folder = .0.display())]
    ForeignCluster(PathBuf),

    /// A folder belongs to another user; PostgreSQL would refuse it.
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

    /// This process is root, and the user that PostgreSQL runs as cannot reach a path.
    #[error(
        "PostgreSQL does not run as root, and user {user}, which it would run as, cannot reach {}: {} has no search \
         permission for that user; choose a folder outside of it (for example below /var/lib) or run `chmod o+x {}`",
        path.display(), blocked_at.display(), blocked_at.display()
    )]
    Unreachable {
        /// The path to reach.
        path: PathBuf,
        /// The file or folder on the way that the user may not enter or execute.
        blocked_at: PathBuf,
        /// The user that the server would run as.
        user: String,
    },

    /// This process is root, and there is no other user to run the server as.
    #[error(
        "PostgreSQL does not run as root, and there is neither a user postgres nor nobody; create one or run as another user"
    )]
    NoAccount,

    /// Another program uses the requested port.
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
        /// The maximum length of a folder name.
        bytes_max: usize,
    },

    /// A setting that only this crate may set.
    #[error(
        "setting {0} cannot be given: the embedded server sets it itself, to stay durable and local"
    )]
    ReservedSetting(String),

    /// A folder without usable server binaries.
    #[error("{} holds no usable PostgreSQL server ({reason}); name the folder that holds postgres and initdb", bin_dir.display())]
    NotAnInstallation {
        /// The folder.
        bin_dir: PathBuf,
        /// The reason why the folder is not usable.
        reason: String,
    },

    /// The environment has no home directory, so there is no default folder.
    #[error("there is no folder to keep {0} in; set HOME or name a folder")]
    NoHome(&'static str),

    /// A release could not be fetched.
    #[error(
        "could not fetch PostgreSQL: {0}; install PostgreSQL on this machine or check the network and its proxy"
    )]
    Fetch(String),

    /// `initdb` failed.
    #[error("initdb could not initialise {}:\n{output}", folder.display())]
    InitFailed {
        /// The folder for the cluster.
        folder: PathBuf,
        /// The last lines that initdb printed.
        output: String,
    },

    /// No `pg_basebackup`, and a server whose replication protocol this crate does not implement.
    #[error(
        "{} is older than PostgreSQL {protocol_major}, and its folder has no program pg_basebackup, which makes replicas; install \
         the package postgresql-client-{}, or a newer PostgreSQL",
        server.text, server.major
    )]
    NoBaseBackup {
        /// The version of the server.
        server: Version,
        /// The oldest major version that this crate copies without the program.
        protocol_major: u32,
    },

    /// A server could not be copied.
    #[error("could not copy the server to {}:\n{output}", folder.display())]
    CopyFailed {
        /// The folder for the copy.
        folder: PathBuf,
        /// The last lines that pg_basebackup printed, or what is wrong with the server's answer.
        output: String,
    },

    /// The server ended before it accepted connections.
    #[error("PostgreSQL ended while starting ({status}); the end of its log {}:\n{tail}", log.display())]
    StartFailed {
        /// The exit status of the postmaster.
        status: ExitStatus,
        /// The log of the server.
        log: PathBuf,
        /// The last lines that this run wrote to the log.
        tail: String,
    },

    /// The server did not accept connections in time; it was stopped.
    #[error("PostgreSQL did not accept connections within {seconds} s; the end of its log {}:\n{tail}", log.display())]
    StartTimedOut {
        /// The limit.
        seconds: u64,
        /// The log of the server.
        log: PathBuf,
        /// The last lines that this run wrote to the log.
        tail: String,
    },

    /// The server did not stop in time and was killed. The next start recovers from the write-ahead log; no acknowledged
    /// transaction is lost.
    #[error(
        "PostgreSQL (process id {pid}) did not shut down within {seconds} s and was killed; the next start recovers its data"
    )]
    StopTimedOut {
        /// The postmaster.
        pid: u32,
        /// The limit.
        seconds: u64,
    },

    /// A process still exists some time after SIGKILL.
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
    /// Builds the argument of `map_err` for an operation on a path.
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
