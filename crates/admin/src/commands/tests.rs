//! Commands of operators, in front of a real PostgreSQL.

use super::{AdminCommand, Phase, Shutdown};
use crate::admin::Admin;
use crate::config_source::ConfigSource;
use paceline_config::{ANY_DATABASE, Config, Database};
use paceline_net::Stream;
use paceline_pool::pool::{Pool, PoolLoad};
use paceline_postgres::{Options, Server};
use paceline_proxy::client;
use paceline_proxy::connection_guard::ConnectionGuard;
use paceline_proxy::proxy::Proxy;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

/// A wait that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(30);

/// A PostgreSQL that concurrent tests share. It stops when the last of them ends.
struct Cluster {
    server: Server,
    _folder: TempDir,
}

impl Cluster {
    fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap();
        shared.upgrade().unwrap_or_else(|| {
            let cluster = Arc::new(Self::start());
            *shared = Arc::downgrade(&cluster);
            cluster
        })
    }

    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = folder.path().join("data");
        // On a thread of its own, because starting may need a runtime.
        let started = std::thread::spawn(|| Server::start(Options::new(data_dir)));
        Self {
            server: started.join().unwrap().unwrap(),
            _folder: folder,
        }
    }
}

/// A proxy that serves in this process.
struct Scene {
    admin: Arc<Admin>,
    proxy: Arc<Proxy>,
    address: SocketAddr,
    cluster: Arc<Cluster>,
}

/// A client, and the task of its connection, which returns why the connection ends.
struct ClientSession {
    client: Client,
    end: JoinHandle<Result<(), Error>>,
}

async fn scene(settings: &[&str]) -> Scene {
    let cluster = Cluster::shared();
    let url = format!("postgres://127.0.0.1:{}", cluster.server.port());
    let mut config = Config::for_upstream(&url).unwrap();
    for setting in settings {
        config.set(setting).unwrap();
    }
    let proxy = Arc::new(Proxy::new(config));
    let admin = Admin::new(Arc::clone(&proxy), ConfigSource::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = Arc::clone(&proxy);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let guard = ConnectionGuard::new(&serving);
            tokio::spawn(client::serve(
                Arc::clone(&serving),
                Stream::tcp(stream),
                guard,
            ));
        }
    });
    Scene {
        admin,
        proxy,
        address,
        cluster,
    }
}

async fn connect(port: u16, database: &str) -> Result<ClientSession, Error> {
    let url = format!("postgres://postgres@127.0.0.1:{port}/{database}");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    let end = tokio::spawn(connection);
    Ok(ClientSession { client, end })
}

impl Scene {
    /// A session with the server itself.
    async fn outsider(&self) -> ClientSession {
        let port = self.cluster.server.port();
        let session = connect(port, "postgres").await;
        session.unwrap()
    }

    async fn try_session(&self, database: &str) -> Result<ClientSession, Error> {
        connect(self.address.port(), database).await
    }

    async fn session(&self) -> ClientSession {
        self.try_session("postgres").await.unwrap()
    }

    async fn execute(&self, command: AdminCommand) {
        let done = tokio::time::timeout(LIMIT, self.admin.execute(command));
        done.await.expect("timeout").expect("command failed");
    }

    async fn rejected(&self, command: AdminCommand) -> String {
        let error = self.admin.execute(command).await.unwrap_err();
        assert_eq!((error.sqlstate, error.severity), ("08P01", "ERROR"));
        error.message
    }

    /// Executes the command in the background; returns when it has begun.
    async fn begin(&self, command: AdminCommand) -> JoinHandle<()> {
        let admin = Arc::clone(&self.admin);
        let begun = tokio::spawn(async move { admin.execute(command).await.unwrap() });
        tokio::task::yield_now().await;
        begun
    }

    fn pool(&self) -> Arc<Pool> {
        self.proxy.pools.pool("postgres", "postgres").unwrap()
    }

    fn load(&self) -> PoolLoad {
        self.pool().load().0
    }

    /// Waits for the analysis of a statement: before it, requests are not grouped.
    async fn until_analyzed(&self, session: &ClientSession, sql: &str) {
        let analyzed = async {
            loop {
                session.value(sql).await.unwrap();
                let groups = session.client.simple_query("SHOW GROUPS").await;
                if !format!("{:?}", groups.unwrap()).contains("has not been asked") {
                    return;
                }
            }
        };
        let analyzed = tokio::time::timeout(LIMIT, analyzed).await;
        analyzed.expect("no analysis");
    }

    async fn until(&self, what: &str, is_so: impl Fn(PoolLoad) -> bool) {
        let reached = async {
            while !is_so(self.load()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let reached = tokio::time::timeout(LIMIT, reached).await;
        assert!(reached.is_ok(), "not {what}: {:?}", self.load());
    }
}

impl ClientSession {
    async fn value(&self, sql: &str) -> Result<String, Error> {
        let messages = self.client.simple_query(sql).await?;
        let row = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        });
        Ok(row.unwrap_or_default())
    }

    /// The process id of the server connection that serves the session now.
    async fn backend(&self) -> String {
        self.value("SELECT pg_backend_pid()").await.unwrap()
    }

    /// The error that ends the connection.
    async fn last_error(self) -> String {
        let end = tokio::time::timeout(LIMIT, self.end).await;
        let error = end.expect("timeout").unwrap().unwrap_err();
        error_text(&error)
    }
}

fn error_text(error: &Error) -> String {
    let error = error.as_db_error().expect("no error of the server");
    format!("{} {}", error.code().code(), error.message())
}

fn postgres() -> Option<String> {
    Some("postgres".to_owned())
}

#[tokio::test]
async fn kill_closes_all_connections_of_a_database() {
    let scene = scene(&["default_pool_size=1"]).await;
    let elsewhere = scene.try_session("template1").await.unwrap();
    let (idle, at_work, waiting) = (
        scene.session().await,
        scene.session().await,
        scene.session().await,
    );
    at_work.value("BEGIN; SELECT 1").await.unwrap();
    let waits = tokio::spawn(async move { waiting.value("SELECT 1").await });
    scene
        .until("waiting", |load| load.clients_waiting == 1)
        .await;
    scene.execute(AdminCommand::Kill(postgres())).await;
    let removed = "08P01 database removed";
    assert_eq!(error_text(&waits.await.unwrap().unwrap_err()), removed);
    assert_eq!(idle.last_error().await, removed);
    assert_eq!(at_work.last_error().await, removed);
    scene
        .until("empty", |load| {
            load.clients_active == 0 && load.servers_active == 0
        })
        .await;
    elsewhere.value("SELECT 1").await.unwrap();
    // Later clients wait.
    let later = scene.session().await;
    let waits = tokio::spawn(async move { later.backend().await });
    scene
        .until("waiting", |load| load.clients_waiting == 1)
        .await;
    scene.execute(AdminCommand::Resume(postgres())).await;
    waits.await.unwrap();
    scene.session().await.backend().await;
}

/// Grouped reads run again if their server connection is lost, unless their database was killed.
#[tokio::test]
async fn kill_ends_grouped_reads() {
    const READ: &str = "SELECT n FROM killed WHERE id = 1";
    let scene = scene(&["default_pool_size=2"]).await;
    let (holder, at_work) = (scene.session().await, scene.session().await);
    let table = "CREATE TABLE IF NOT EXISTS killed (id int PRIMARY KEY, n int)";
    holder.value(table).await.unwrap();
    scene.until_analyzed(&holder, READ).await;
    // An outsider holds the lock: a client of the pool would be killed, and the reads would finish.
    let outsider = scene.outsider().await;
    outsider.value("BEGIN; LOCK TABLE killed").await.unwrap();
    holder.value("BEGIN; SELECT 1").await.unwrap();
    at_work.value("BEGIN; SELECT 1").await.unwrap();
    let mut waits = Vec::new();
    for _ in 0..8 {
        let session = scene.session().await;
        waits.push(tokio::spawn(async move { session.value(READ).await }));
    }
    scene
        .until("waiting", |load| load.clients_waiting == 8)
        .await;
    at_work.value("COMMIT").await.unwrap();
    scene
        .until("all sent", |load| load.clients_waiting == 0)
        .await;
    scene.execute(AdminCommand::Kill(None)).await;
    for wait in waits {
        let end = tokio::time::timeout(LIMIT, wait).await.expect("timeout");
        let removed = "08P01 database removed";
        assert_eq!(error_text(&end.unwrap().unwrap_err()), removed);
    }
    assert_eq!(holder.last_error().await, "08P01 database removed");
    scene.execute(AdminCommand::Resume(None)).await;
    assert_eq!(scene.session().await.value("SELECT 7").await.unwrap(), "7");
}

#[tokio::test]
async fn reconnect_replaces_connections_when_they_are_free() {
    let scene = scene(&["default_pool_size=2"]).await;
    let (at_work, idle) = (scene.session().await, scene.session().await);
    at_work.value("BEGIN; SELECT 1").await.unwrap();
    let (kept, replaced) = (at_work.backend().await, idle.backend().await);
    scene.execute(AdminCommand::Reconnect(postgres())).await;
    let closing = scene.begin(AdminCommand::WaitClose(None)).await;
    let new = idle.backend().await;
    assert!(new != replaced && new != kept);
    assert_eq!(at_work.backend().await, kept);
    assert!(!closing.is_finished());
    at_work.value("COMMIT").await.unwrap();
    closing.await.unwrap();
    assert_ne!(at_work.backend().await, kept);
    scene.execute(AdminCommand::WaitClose(postgres())).await;
}

#[tokio::test]
async fn clients_do_not_notice_reconnect() {
    let scene = scene(&["default_pool_size=3", "hotspot_for_autocommit=true"]).await;
    let enough = Arc::new(AtomicBool::new(false));
    let mut clients = Vec::new();
    for _ in 0..6 {
        let (session, enough) = (scene.session().await, Arc::clone(&enough));
        clients.push(tokio::spawn(async move {
            while !enough.load(Ordering::Relaxed) {
                assert_eq!(session.value("SELECT 7").await.unwrap(), "7");
            }
        }));
    }
    for _ in 0..20 {
        scene.execute(AdminCommand::Reconnect(None)).await;
        scene.session().await.value("SELECT 8").await.unwrap();
        scene.execute(AdminCommand::WaitClose(None)).await;
    }
    enough.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
}

#[tokio::test]
async fn a_disabled_database_keeps_its_clients() {
    let scene = scene(&[]).await;
    let session = scene.session().await;
    scene
        .execute(AdminCommand::Disable("postgres".to_owned()))
        .await;
    let error = scene.try_session("postgres").await.err().unwrap();
    assert_eq!(
        error_text(&error),
        "08P01 database \"postgres\" is disabled"
    );
    assert_eq!(session.value("SELECT 7").await.unwrap(), "7");
    scene.try_session("template1").await.unwrap();
    scene
        .execute(AdminCommand::Enable("postgres".to_owned()))
        .await;
    scene.session().await;
}

#[tokio::test]
async fn a_suspended_pool_keeps_its_connections() {
    let scene = scene(&["default_pool_size=1"]).await;
    let (at_work, next) = (scene.session().await, scene.session().await);
    at_work.value("BEGIN; SELECT 1").await.unwrap();
    let backend = at_work.backend().await;
    let suspending = scene.begin(AdminCommand::Suspend).await;
    let waits = tokio::spawn(async move { next.backend().await });
    scene
        .until("waiting", |load| load.clients_waiting == 1)
        .await;
    assert!(!suspending.is_finished());
    at_work.value("COMMIT").await.unwrap();
    suspending.await.unwrap();
    assert_eq!(scene.load().clients_waiting, 1);
    assert_eq!(scene.load().servers_idle, 1);
    let message = scene.rejected(AdminCommand::Pause(None)).await;
    assert_eq!(message, "already suspended/paused");
    scene.execute(AdminCommand::Resume(None)).await;
    assert_eq!(waits.await.unwrap(), backend);
}

/// A paused pool opens no connection for waiting requests.
#[tokio::test]
async fn pausing_one_database_does_not_pause_others() {
    let scene = scene(&[]).await;
    let session = scene.session().await;
    session.backend().await;
    scene.execute(AdminCommand::Pause(postgres())).await;
    let waits = tokio::spawn(async move { session.backend().await });
    scene
        .until("waiting", |load| load.clients_waiting == 1)
        .await;
    let load = scene.load();
    let servers = [load.servers_active, load.servers_idle, load.servers_opening];
    assert_eq!(servers, [0, 0, 0]);
    scene.try_session("template1").await.unwrap();
    let message = scene.rejected(AdminCommand::Suspend).await;
    assert_eq!(message, "cannot suspend with paused databases");
    scene.execute(AdminCommand::Resume(postgres())).await;
    waits.await.unwrap();
}

#[tokio::test]
async fn an_abandoned_pause_is_undone() {
    let scene = scene(&["default_pool_size=1"]).await;
    for command in [
        AdminCommand::Pause(None),
        AdminCommand::Pause(postgres()),
        AdminCommand::Suspend,
    ] {
        let (at_work, next) = (scene.session().await, scene.session().await);
        at_work.value("BEGIN; SELECT 1").await.unwrap();
        let pausing = scene.begin(command).await;
        let waits = tokio::spawn(async move { next.backend().await });
        scene
            .until("waiting", |load| load.clients_waiting == 1)
            .await;
        pausing.abort();
        assert!(pausing.await.is_err());
        at_work.value("COMMIT").await.unwrap();
        waits.await.unwrap();
        let message = scene.rejected(AdminCommand::Resume(None)).await;
        assert_eq!(message, "pooler is not paused/suspended");
    }
}

#[tokio::test]
async fn commands_need_an_existing_database() {
    let mut config = Config::for_upstream("postgres://127.0.0.1:1").unwrap();
    let any = config.databases.remove(ANY_DATABASE).unwrap();
    config
        .databases
        .insert("app".to_owned(), Database::at(any.primary));
    let admin = admin(config);
    let commands = |name: &str| {
        let (some, name) = (Some(name.to_owned()), name.to_owned());
        [
            ("pause", AdminCommand::Pause(some.clone())),
            ("disable", AdminCommand::Disable(name.clone())),
            ("enable", AdminCommand::Enable(name)),
            ("reconnect", AdminCommand::Reconnect(some.clone())),
            ("kill", AdminCommand::Kill(some.clone())),
            ("wait in", AdminCommand::WaitClose(some)),
        ]
    };
    for (verb, command) in commands("pgbouncer") {
        let message = admin.execute(command).await.unwrap_err().message;
        assert_eq!(message, format!("cannot {verb} admin db: pgbouncer"));
    }
    for (_, command) in commands("other") {
        let message = admin.execute(command).await.unwrap_err().message;
        assert_eq!(message, "no such database: other");
    }
    for (_, command) in commands("app") {
        admin.execute(command).await.unwrap();
    }
}

/// If the configuration has a database `paceline`, only `pgbouncer` is the console.
#[tokio::test]
async fn commands_apply_to_a_configured_database_paceline() {
    let file = "[databases.paceline]\nprimary = \"postgres://db\"";
    let admin = admin(Config::from_toml(file, "").unwrap());
    let reconnect = |name: &str| admin.execute(AdminCommand::Reconnect(Some(name.to_owned())));
    reconnect("paceline").await.unwrap();
    let error = reconnect("pgbouncer").await.unwrap_err();
    assert_eq!(error.message, "cannot reconnect admin db: pgbouncer");
}

#[tokio::test]
async fn a_failed_reload_returns_an_error() {
    let admin = admin(Config::default());
    let error = admin.execute(AdminCommand::Reload).await.unwrap_err();
    assert_eq!(error.sqlstate, "F0000");
    assert_eq!(
        error.message,
        "RELOAD failed, see logs for additional details"
    );
    assert!(error.detail.unwrap().contains("no database is left"));
}

/// The operator gets no answer: the connection ends with the process.
#[tokio::test]
async fn an_immediate_shutdown_does_not_return() {
    let admin = admin(Config::default());
    let mut phase = admin.proxy.phase.subscribe();
    tokio::select! {
        _ = admin.execute(AdminCommand::Shutdown(Shutdown::Immediate)) => panic!("returned"),
        reached = phase.wait_for(|phase| *phase == Phase::Ending) => drop(reached.unwrap()),
    }
    // A later, slower shutdown changes nothing.
    admin
        .execute(AdminCommand::Shutdown(Shutdown::WaitForClients))
        .await
        .unwrap();
    assert_eq!(*admin.proxy.phase.borrow(), Phase::Ending);
}

fn admin(config: Config) -> Arc<Admin> {
    Admin::new(Arc::new(Proxy::new(config)), ConfigSource::default())
}
