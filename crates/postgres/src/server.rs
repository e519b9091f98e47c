//! A running server: a direct child of this process from start to stop. It never waits without a limit. Dropping the handle
//! stops the server.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use crate::account::Account;
use crate::data_dir::DataDir;
use crate::error::Error;
use crate::installation::Installation;
use crate::options::Options;
use crate::pidfile::PidFile;
use crate::postmaster::Postmaster;
use crate::selection::select;
use crate::version::Version;
use crate::{cluster, log, port, processes, replica, socket};

/// Limit for a start, including recovery after a crash.
const START_TIME_LIMIT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum number of ports to try if other programs take free ports first.
const PORT_ATTEMPTS_MAX: usize = 5;
/// Default of this crate; PostgreSQL's default is 100. A setting in [`Options`] overrides it.
const MAX_CONNECTIONS: u16 = 200;

/// Settings on which durability, the restriction to loopback and the log depend.
const OWN_SETTINGS: [&str; 4] = [
    "listen_addresses=127.0.0.1",
    "logging_collector=off",
    "fsync=on",
    "full_page_writes=on",
];

/// A running PostgreSQL. Dropping it stops the server cleanly (fast shutdown), and keeps its data.
#[derive(Debug)]
pub struct Server {
    folder: DataDir,
    settings: Vec<(String, String)>,
    installation: Installation,
    account: Account,
    socket_dir: PathBuf,
    port: u16,
    pid: u32,
    /// `None` after the server was stopped or killed.
    postmaster: Option<Postmaster>,
}

impl Server {
    /// Finds or fetches binaries, initialises the data folder if it is new, starts the server and returns when it accepts
    /// connections. That includes crash recovery, which may take minutes; the limit is 300 s.
    ///
    /// # Errors
    /// Every variant of [`Error`] except those of stopping. On an error no server is left running.
    pub fn start(options: Options) -> Result<Self, Error> {
        Self::start_with(options, cluster::init)
    }

    /// Copies the data of this server into a new data folder, starts a streaming replica there with the same binaries, and
    /// returns when it accepts connections. A cluster that is already in the folder is started as it is. The copy is made by
    /// `pg_basebackup` or, if the binaries do not include it, by the replication protocol.
    ///
    /// # Errors
    /// Those of [`Server::start`]; [`Error::NoBaseBackup`] and [`Error::CopyFailed`].
    pub fn replica(&self, mut options: Options) -> Result<Self, Error> {
        options.bin_dir = Some(self.installation.bin_dir.clone());
        Self::start_with(options, |folder, installation, account| {
            replica::copy(self.port, folder, installation, account)
        })
    }

    /// Starts a server. `create` creates the cluster if the data folder is new.
    fn start_with(
        options: Options,
        create: impl FnOnce(&DataDir, &Installation, &Account) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        options.check_settings()?;
        let folder = DataDir::open(&options.data_dir)?;
        let _lock = folder.lock()?;
        let pgdata = &folder.cluster;
        let account = Account::for_cluster(pgdata)?;
        folder.grant_access(&account)?;
        cluster::check_owner(pgdata, &account)?;
        cluster::check_unused(pgdata)?;
        options.port.map_or(Ok(()), port::check_free)?;
        let major = cluster::major(pgdata)?;
        let installation = select(options.bin_dir.as_deref(), major, pgdata, &account)?;
        let socket_dir = socket::prepare(&folder, &account)?;
        if major.is_none() {
            create(&folder, &installation, &account)?;
        }
        let mut server = Self {
            folder,
            settings: options.settings,
            installation,
            account,
            socket_dir,
            port: 0,
            pid: 0,
            postmaster: None,
        };
        match options.port {
            Some(port) => server.launch_on(port)?,
            None => server.launch_anywhere()?,
        }
        Ok(server)
    }

    /// The TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of the Unix socket `.s.PGSQL.PORT`.
    pub fn socket_dir(&self) -> &Path {
        &self.socket_dir
    }

    /// The superuser, who needs no password.
    pub fn superuser(&self) -> &str {
        cluster::SUPERUSER
    }

    /// The server's version.
    pub fn version(&self) -> &Version {
        &self.installation.version
    }

    /// The postmaster's process id; after [`Server::kill`], the last one.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The URL of a database, for the superuser: `postgres://postgres@127.0.0.1:PORT/database`.
    pub fn url(&self, database: &str) -> String {
        let mut url = format!("postgres://{}@127.0.0.1:{}/", self.superuser(), self.port);
        for byte in database.bytes() {
            match byte {
                b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'~' => {
                    url.push(char::from(byte))
                }
                other => url.push_str(&format!("%{other:02X}")),
            }
        }
        url
    }

    /// The processor time of the server's processes since its start, including those that have ended, in hundredths of a
    /// second. `None` after [`Server::kill`], and on systems without `/proc`.
    pub fn cpu_time(&self) -> Option<Duration> {
        self.postmaster.as_ref()?;
        processes::cpu_time(self.pid)
    }

    /// Ends the server as a power failure would: sends SIGKILL to the postmaster and to all of its children. Returns when
    /// none of them exists any more. For fault tests; [`Server::restart`] starts the server again.
    ///
    /// # Errors
    /// [`Error::StillRunning`] if a process still exists after 10 s.
    pub fn kill(&mut self) -> Result<(), Error> {
        let Some(postmaster) = &mut self.postmaster else {
            return Ok(());
        };
        postmaster.kill(&self.folder.cluster)?;
        self.postmaster = None;
        Ok(())
    }

    /// Starts the server again with the same port and folder, after [`Server::kill`] or a crash. If the server runs, stops it
    /// cleanly first.
    ///
    /// # Errors
    /// Those of [`Server::start`] and [`Server::stop`].
    pub fn restart(&mut self) -> Result<(), Error> {
        self.shut_down()?;
        let _lock = self.folder.lock()?;
        cluster::check_unused(&self.folder.cluster)?;
        port::check_free(self.port)?;
        self.launch_on(self.port)
    }

    /// Stops the server cleanly by a fast shutdown, which rolls back open transactions and closes connections.
    ///
    /// # Errors
    /// [`Error::StopTimedOut`] if the shutdown takes more than 60 s; the server is killed then.
    pub fn stop(mut self) -> Result<(), Error> {
        self.shut_down()
    }

    fn launch_anywhere(&mut self) -> Result<(), Error> {
        for _ in 1..PORT_ATTEMPTS_MAX {
            let launched = self.launch_on(port::any_free()?);
            if !matches!(launched, Err(Error::PortTaken { .. })) {
                return launched;
            }
        }
        self.launch_on(port::any_free()?)
    }

    fn launch_on(&mut self, port: u16) -> Result<(), Error> {
        match self.launch(port) {
            Err(Error::StartFailed { .. }) if !port::is_free(port) => {
                Err(Error::PortTaken { port })
            }
            other => other,
        }
    }

    fn launch(&mut self, port: u16) -> Result<(), Error> {
        let (file, log_begin) = log::open(&self.folder)?;
        let copy = file
            .try_clone()
            .map_err(Error::io("open", &self.folder.log))?;
        let mut command = cluster::command(&self.installation.program("postgres"), &self.account);
        command.arg("-D").arg(&self.folder.cluster);
        command.stdout(copy).stderr(file);
        for setting in self.all_settings(port) {
            command.arg("-c").arg(setting);
        }
        let postmaster = Postmaster::spawn(command)?;
        self.pid = postmaster.pid();
        self.port = port;
        self.postmaster = Some(postmaster);
        self.wait_until_ready(log_begin)
    }

    fn all_settings(&self, port: u16) -> Vec<String> {
        let mut settings = vec![format!("max_connections={MAX_CONNECTIONS}")];
        let given = self.settings.iter();
        settings.extend(given.map(|(name, value)| format!("{name}={value}")));
        let socket = socket::setting(&self.socket_dir);
        settings.push(format!("port={port}"));
        settings.push(format!("unix_socket_directories={socket}"));
        settings.extend(OWN_SETTINGS.map(str::to_owned));
        settings
    }

    fn wait_until_ready(&mut self, log_begin: u64) -> Result<(), Error> {
        let log = self.folder.log.clone();
        let ready = PidFile {
            pid: self.pid,
            ready: true,
        };
        let deadline = Instant::now() + START_TIME_LIMIT;
        while Instant::now() < deadline {
            if PidFile::read(&self.folder.cluster).as_ref() == Some(&ready) {
                return Ok(());
            }
            if let Some(status) = self.exit_status()? {
                self.postmaster = None;
                return Err(Error::StartFailed {
                    status,
                    tail: log::tail(&log, log_begin),
                    log,
                });
            }
            thread::sleep(POLL_INTERVAL);
        }
        self.kill()?;
        let tail = log::tail(&log, log_begin);
        Err(Error::StartTimedOut {
            seconds: START_TIME_LIMIT.as_secs(),
            log,
            tail,
        })
    }

    fn exit_status(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.postmaster
            .as_mut()
            .map_or(Ok(None), Postmaster::exit_status)
    }

    fn shut_down(&mut self) -> Result<(), Error> {
        match self.postmaster.take() {
            Some(mut postmaster) => postmaster.stop(&self.folder.cluster),
            None => Ok(()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A drop cannot return an error; callers that need it call `stop`.
        let _ = self.shut_down();
        if socket::is_temporary(&self.socket_dir, &self.folder) {
            // Succeeds only if the folder is empty, which it is after a clean stop.
            let _ = std::fs::remove_dir(&self.socket_dir);
        }
    }
}
