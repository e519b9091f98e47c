//! Accepts connections until the process shuts down.

mod listen;
mod pidfile;
mod signals;

pub(crate) use pidfile::running_process;
pub(crate) use signals::CommandSignals;

use listen::Listeners;
use paceline_admin::admin::Admin;
use paceline_admin::config_snapshot::ConfigSnapshot;
use paceline_admin::config_source::ConfigSource;
use paceline_admin::{console, log, metrics, systemd, web};
use paceline_config::Config;
use paceline_net::Stream;
use paceline_net::listen::{Sharing, accept_failed, close_tcp, close_unix};
use paceline_pool::net_settings::tcp_settings;
use paceline_proxy::client;
use paceline_proxy::connection_guard::ConnectionGuard;
use paceline_proxy::lifecycle::{Phase, reached};
use paceline_proxy::proxy::Proxy;
use pidfile::PidFileGuard;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// Time for idle clients to get their error message at the end of `shutdown_timeout`, and for console sessions when the process
/// ends.
const DISCONNECT_TIME: Duration = Duration::from_millis(100);

/// Serves clients until a signal or a command shuts the process down. `started` is the start time of the process. Calls
/// `when_listening` when clients can connect.
pub(crate) async fn serve(
    config: Config,
    source: ConfigSource,
    signals: CommandSignals,
    started: SystemTime,
    when_listening: impl FnOnce(),
) -> anyhow::Result<()> {
    let mut proxy = Proxy::new(config);
    proxy.started = started;
    proxy.worker_threads = Handle::current().metrics().num_workers();
    let proxy = Arc::new(proxy);
    let admin = Admin::new(Arc::clone(&proxy), source);
    let config = Arc::clone(&proxy.config());
    admin.apply(ConfigSnapshot::read(Arc::clone(&config))?);
    let settings = &config.paceline;
    let mut listeners = Listeners::open(&config)?;
    let pidfile = &settings.operation.pidfile;
    let replace = settings.listening.so_reuseport;
    let pidfile = pidfile
        .as_ref()
        .map(|path| PidFileGuard::write(path, replace));
    let _pidfile = pidfile.transpose()?;
    if let Some(listener) = listeners.metrics.take() {
        let address = listener.local_addr()?;
        tokio::spawn(metrics::serve(Arc::clone(&proxy), listener));
        log::print_line(&format!("metrics at http://{address}/metrics"));
    }
    if let Some(listener) = listeners.web_console.take() {
        let address = listener.local_addr()?;
        let is_encrypted = proxy.shared.keyring.acceptor().is_some();
        let scheme = if is_encrypted { "https" } else { "http" };
        if !is_encrypted && !address.ip().is_loopback() {
            tracing::warn!(
                "without client_tls_sslmode, the web console accepts logins from this machine only"
            );
        }
        tokio::spawn(web::serve(Arc::clone(&admin), listener));
        log::print_line(&format!("web console at {scheme}://{address}/"));
    }
    proxy.pools.start_monitors();
    tokio::spawn(Arc::clone(&proxy).follow_primaries());
    tokio::spawn(Arc::clone(&proxy.pools).maintain());
    tokio::spawn(busy_poll(Arc::clone(&proxy)));
    tokio::spawn(send_spans(Arc::clone(&proxy)));
    tokio::spawn(signals.execute_commands(Arc::clone(&admin)));
    let watchdog = systemd::watchdog_interval().map(systemd::feed_watchdog);
    let _watchdog = watchdog.map(tokio::spawn);
    // Scripts wait for this line: it is part of the command-line contract.
    for address in listeners.addresses()? {
        log::print_line(&format!("listening on {address}"));
    }
    systemd::ready();
    when_listening();
    let mut phase = proxy.phase.subscribe();
    let accepting = listeners.accept(&admin);
    reached(&mut phase, Phase::WaitingForClients).await;
    tracing::info!("shutting down");
    systemd::stopping();
    tokio::select! {
        () = drain(&proxy, accepting) => {}
        () = reached(&mut phase, Phase::Ending) => tracing::info!("ending at once"),
    }
    // Console sessions end last.
    admin.begin(Phase::Ending);
    let _ = tokio::time::timeout(
        DISCONNECT_TIME,
        until_none(|| proxy.console_keys.count() > 0),
    )
    .await;
    Ok(())
}

/// Sends the spans of traces.
async fn send_spans(proxy: Arc<Proxy>) {
    proxy.shared.traces.export().await;
}

/// Polls for messages, if that pays on this machine.
async fn busy_poll(proxy: Arc<Proxy>) {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    // With one core, the sender of the next message needs it. With several threads, tokio wakes a sleeping one whenever a thread
    // that has looked for work finds some: each poll would, and the woken thread would wait for the sockets in place of the polling one.
    if cores == 1 || proxy.worker_threads > 1 {
        return proxy.shared.busy_poll.turn_off();
    }
    let limit = || proxy.config().paceline.operation.busy_poll;
    proxy.shared.busy_poll.run(limit).await;
}

impl Listeners {
    /// Accepts connections until the process shuts down. The tasks end when the sockets are closed.
    fn accept(&mut self, admin: &Arc<Admin>) -> JoinSet<()> {
        let mut accepting = JoinSet::new();
        for listener in self.tcp.drain(..) {
            accepting.spawn(accept_tcp(Arc::clone(admin), listener, self.sharing));
        }
        for listener in self.unix.drain(..) {
            accepting.spawn(accept_unix(Arc::clone(admin), listener, self.sharing));
        }
        accepting
    }
}

async fn accept_tcp(admin: Arc<Admin>, listener: TcpListener, sharing: Sharing) {
    let mut phase = admin.proxy.phase.subscribe();
    loop {
        tokio::select! {
            biased;
            () = reached(&mut phase, Phase::WaitingForClients) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => start_client(&admin, accepted_tcp(&admin.proxy, stream)),
                Err(error) => accept_failed(&error).await,
            }
        }
    }
    let rest = close_tcp(listener, sharing).await;
    rest.into_iter()
        .for_each(|stream| start_client(&admin, accepted_tcp(&admin.proxy, stream)));
}

fn accepted_tcp(proxy: &Proxy, stream: TcpStream) -> Stream {
    let stream = Stream::tcp(stream);
    stream.set_tcp_options(&tcp_settings(&proxy.config().paceline.tcp));
    stream
}

async fn accept_unix(admin: Arc<Admin>, listener: UnixListener, sharing: Sharing) {
    let mut phase = admin.proxy.phase.subscribe();
    loop {
        tokio::select! {
            biased;
            () = reached(&mut phase, Phase::WaitingForClients) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => start_client(&admin, Stream::unix(stream)),
                Err(error) => accept_failed(&error).await,
            }
        }
    }
    let rest = close_unix(listener, sharing);
    rest.into_iter()
        .for_each(|stream| start_client(&admin, Stream::unix(stream)));
}

fn start_client(admin: &Arc<Admin>, stream: Stream) {
    let proxy = &admin.proxy;
    proxy.accepted.fetch_add(1, Ordering::Relaxed);
    // A client that connected before the listening sockets were closed is served if the shutdown waits for clients.
    if *proxy.phase.borrow() > Phase::WaitingForClients {
        return;
    }
    let guard = ConnectionGuard::new(proxy);
    let admin = Arc::clone(admin);
    tokio::spawn(async move {
        let login = client::serve(Arc::clone(&admin.proxy), stream, guard).await;
        if let Some(login) = login {
            console::run(&admin, login).await;
        }
    });
}

/// Waits until the listening sockets are closed and all clients have disconnected. After `shutdown_timeout`, disconnects idle
/// clients and no longer waits for the others.
async fn drain(proxy: &Proxy, accepting: JoinSet<()>) {
    let limit = proxy.config().paceline.operation.shutdown_timeout;
    let drained = async {
        accepting.join_all().await;
        until_disconnected(proxy).await;
    };
    if tokio::time::timeout(limit, drained).await.is_ok() {
        return;
    }
    proxy
        .pools
        .all()
        .iter()
        .for_each(|pool| pool.disconnect_idle());
    if tokio::time::timeout(DISCONNECT_TIME, until_disconnected(proxy))
        .await
        .is_err()
    {
        let clients = proxy.clients.load(Ordering::Relaxed);
        tracing::warn!(
            clients,
            "shutdown_timeout: closing connections of busy clients"
        );
    }
}

async fn until_disconnected(proxy: &Proxy) {
    until_none(|| has_clients(proxy)).await;
}

/// Returns when `are_left` is false.
async fn until_none(are_left: impl Fn() -> bool) {
    const CHECK_INTERVAL: Duration = Duration::from_millis(10);
    while are_left() {
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Are clients connected? Clients that have not logged in count only if the shutdown waits for clients: otherwise they cannot log
/// in any more. Server connections need no check: a client that has disconnected uses none.
fn has_clients(proxy: &Proxy) -> bool {
    let counter = match *proxy.phase.borrow() {
        Phase::Serving | Phase::WaitingForClients => &proxy.connections,
        Phase::WaitingForServers | Phase::Ending => &proxy.clients,
    };
    counter.load(Ordering::Relaxed) > 0
}
