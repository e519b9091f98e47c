//! Real PostgreSQL servers: one that all tests share, each with a database of its own, and private ones for tests that
//! kill or configure them. Durable, as in production; stopped when the tests end, however they end.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use paceline_postgres::{Options, Server};

use super::caretaker::{self, Adopted};
use super::programs::{output, program_for};
use super::raw::RawClient;
use super::wait::until;
use super::watchdog::{skipped, watch};

/// A PostgreSQL server; stopped on drop.
pub(crate) struct Cluster {
    running: Mutex<Running>,
    folder: PathBuf,
    port: u16,
    databases: AtomicUsize,
}

struct Running {
    server: Server,
    adopted: Option<Adopted>,
}

/// The server that all tests of this process share.
pub(crate) fn shared() -> Arc<Cluster> {
    static SHARED: OnceLock<Arc<Cluster>> = OnceLock::new();
    let shared = SHARED.get_or_init(Cluster::private).clone();
    watch();
    shared
}

impl Cluster {
    /// A server for one test.
    pub(crate) fn private() -> Arc<Cluster> {
        Self::start(fetched(), &[])
    }

    /// A server for one test, with settings of its own.
    pub(crate) fn with(settings: &[(&str, &str)]) -> Arc<Cluster> {
        Self::start(fetched(), settings)
    }

    fn start(bin_dir: Option<PathBuf>, settings: &[(&str, &str)]) -> Arc<Cluster> {
        Self::start_in(caretaker::folder("c"), bin_dir, settings)
    }

    /// Ends this server, and starts it again on the same port as a streaming replica of another one, whose data it copies.
    pub(crate) fn follow(&self, primary: &Cluster) {
        self.kill();
        std::fs::remove_dir_all(self.folder.join("pgdata")).unwrap();
        assert!(primary.copy_to(&self.folder), "this worked before");
        self.restart();
    }

    /// Copies the data of this server for a streaming replica. False: `pg_basebackup` of its version is not installed, and standard
    /// error says so.
    fn copy_to(&self, folder: &Path) -> bool {
        let major = self.client("postgres").number("SHOW server_version_num") / 10_000;
        let Some(mut backup) = program_for("pg_basebackup", major) else {
            return false;
        };
        let pgdata = folder.join("pgdata");
        backup.args([
            "-R",
            "-c",
            "fast",
            "-h",
            "127.0.0.1",
            "-U",
            "postgres",
            "-p",
        ]);
        output(backup.arg(self.port.to_string()).arg("-D").arg(&pgdata));
        // The server may run as another user than the tests.
        let of_primary = self.folder.join("pgdata");
        let mut owner = Command::new("chown");
        owner.arg("-R").arg("--reference").arg(of_primary);
        output(owner.arg(&pgdata));
        true
    }

    /// A streaming replica of this server. `None`: `pg_basebackup` of its version is not installed, and standard error says so.
    pub(crate) fn replica(&self) -> Option<Arc<Cluster>> {
        let folder = caretaker::folder("c");
        if !self.copy_to(&folder) {
            return None;
        }
        Some(Self::start_in(folder, fetched(), &[]))
    }

    fn start_in(
        folder: PathBuf,
        bin_dir: Option<PathBuf>,
        settings: &[(&str, &str)],
    ) -> Arc<Cluster> {
        let mut options = Options::new(folder.clone());
        options.bin_dir = bin_dir;
        let usual = [
            ("max_connections", "400"),
            ("shared_buffers", "64MB"),
            ("log_min_messages", "fatal"),
        ];
        for (name, value) in usual.iter().chain(settings) {
            let setting = ((*name).to_owned(), (*value).to_owned());
            options.settings.push(setting);
        }
        // On a thread of its own: starting may fetch binaries, which needs a runtime, and callers may be inside one.
        let server = thread::spawn(|| Server::start(options)).join().unwrap();
        let server = server.unwrap_or_else(|error| panic!("{error}"));
        Arc::new(Cluster {
            port: server.port(),
            running: Mutex::new(Running {
                adopted: Some(caretaker::adopt("QUIT", server.pid())),
                server,
            }),
            folder,
            databases: AtomicUsize::new(0),
        })
    }

    /// A server whose messages are in German. `None`: the machine cannot have one, and standard error says why.
    pub(crate) fn in_german() -> Option<Arc<Cluster>> {
        let Some(bin_dir) = with_locale() else {
            skipped("localedef cannot make de_DE.UTF-8 here");
            return None;
        };
        let cluster = Self::start(Some(bin_dir), &[("lc_messages", LOCALE)]);
        let said = cluster.client("postgres").simple("SELECT 1/0");
        if said.error().is_some_and(|e| e.text() == "division by zero") {
            skipped("this PostgreSQL was installed without its German messages");
            return None;
        }
        Some(cluster)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The folder of its Unix socket.
    pub(crate) fn socket_dir(&self) -> PathBuf {
        self.running.lock().unwrap().server.socket_dir().to_owned()
    }

    /// A new empty database.
    pub(crate) fn database(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("e2e{number}");
        self.client("postgres")
            .ok(&format!("CREATE DATABASE {name}"));
        name
    }

    /// A connection straight to the server, as the superuser.
    pub(crate) fn client(&self, database: &str) -> RawClient {
        RawClient::connect(self.port, &[("user", "postgres"), ("database", database)])
    }

    /// kill -9 of every process of the server.
    pub(crate) fn kill(&self) {
        let mut running = self.running.lock().unwrap();
        running.server.kill().unwrap();
        running.adopted = None;
    }

    /// Stops it cleanly: it ends its clients' sessions, and sends all of its log to its replicas.
    pub(crate) fn stop(&self) {
        let mut running = self.running.lock().unwrap();
        caretaker::signal("INT", running.server.pid());
        let folder = self.folder.join("pgdata").join("postmaster.pid");
        until("the server has stopped", || !folder.exists());
        running.server.kill().unwrap();
        running.adopted = None;
    }

    /// Sends a signal (a name without SIG) to every process of the server.
    pub(crate) fn signal_all(&self, signal: &str) {
        let postmaster = self.running.lock().unwrap().server.pid();
        let children = Command::new("ps")
            .args(["-o", "pid=", "--ppid", &postmaster.to_string()])
            .output()
            .unwrap();
        let children = String::from_utf8_lossy(&children.stdout).into_owned();
        caretaker::signal(signal, postmaster);
        for child in children.split_whitespace() {
            caretaker::signal(signal, child.parse().unwrap());
        }
    }

    /// Kills it, and starts it again as a standby that receives nothing.
    pub(crate) fn go_into_recovery(&self) {
        let data = self.client("postgres").value("SHOW data_directory");
        self.kill();
        std::fs::write(PathBuf::from(data).join("standby.signal"), "").unwrap();
        self.restart();
    }

    /// Starts it again on the same port.
    pub(crate) fn restart(&self) {
        let mut running = self.running.lock().unwrap();
        running.server.restart().unwrap();
        running.adopted = Some(caretaker::adopt("QUIT", running.server.pid()));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The data is not needed any more, so an immediate shutdown will do.
        if let Ok(running) = self.running.get_mut() {
            let _ = running.server.kill();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// With `PACELINE_E2E_POSTGRES=fetched` the newest release that can be fetched, else the installed one.
fn fetched() -> Option<PathBuf> {
    let asked = std::env::var("PACELINE_E2E_POSTGRES").is_ok_and(|which| which == "fetched");
    asked.then(|| {
        let cache = paceline_postgres::default_cache_dir().unwrap();
        paceline_postgres::fetch(&cache).unwrap().bin_dir
    })
}

const LOCALE: &str = "de_DE.UTF-8";

/// A folder with programs that are those of the server, but know [`LOCALE`].
fn with_locale() -> Option<PathBuf> {
    let folder = caretaker::folder("l");
    let made = Command::new("localedef")
        .args(["-f", "UTF-8", "-i", "de_DE"])
        .arg(folder.join(LOCALE))
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        return None;
    }
    let installed = || {
        Some(
            paceline_postgres::find_installations()
                .first()?
                .bin_dir
                .clone(),
        )
    };
    let real = fetched().or_else(installed)?;
    for program in ["postgres", "initdb"] {
        let path = folder.join(program);
        let (locales, real) = (folder.display(), real.join(program));
        let script = format!(
            "#!/bin/sh\nLOCPATH='{locales}' exec '{}' \"$@\"\n",
            real.display()
        );
        std::fs::write(&path, script).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, executable).unwrap();
    }
    Some(folder)
}
