//! Listening, accepting, and coming to an end.

mod listen;
mod pidfile;
mod signals;

pub(crate) use pidfile::running_process;
pub(crate) use signals::Signals;

use listen::Listeners;
use paceline_admin::admin::Admin;
use paceline_admin::config_snapshot::ConfigSnapshot;
use paceline_admin::config_source::ConfigSource;
use paceline_admin::{console, log, metrics, systemd};
use paceline_config::Config;
use paceline_net::Stream;
use paceline_net::listen::{Sharing, accept_failed, close_tcp, close_unix};
use paceline_pool::net_settings::tcp_settings;
use paceline_proxy::client;
use paceline_proxy::connection_guard::ConnectionGuard;
use paceline_proxy::lifecycle::{Phase, reached};
use paceline_proxy::proxy::Proxy;
use pidfile::PidFile;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::task::JoinSet;

/// How long clients have to go that are told so at the end of `shutdown_timeout`, and operators when the process ends; who does
/// nothing hears it.
const FAREWELL: Duration = Duration::from_millis(100);

/// Serves clients until a signal or an order ends it. `started` is when the process began; `when_listening` is called when clients
/// may connect.
pub(crate) async fn serve(
    config: Config,
    source: ConfigSource,
    signals: Signals,
    started: SystemTime,
    when_listening: impl FnOnce(),
) -> anyhow::Result<()> {
    let mut proxy = Proxy::new(config);
    proxy.started = started;
    let proxy = Arc::new(proxy);
    let admin = Admin::new(Arc::clone(&proxy), source);
    let config = Arc::clone(&proxy.config());
    admin.apply(ConfigSnapshot::read(Arc::clone(&config))?);
    let settings = &config.paceline;
    let mut listeners = Listeners::open(&config)?;
    let pidfile = &settings.operation.pidfile;
    let replace = settings.listening.so_reuseport;
    let pidfile = pidfile.as_ref().map(|path| PidFile::write(path, replace));
    let _pidfile = pidfile.transpose()?;
    if let Some(listener) = listeners.metrics.take() {
        let address = listener.local_addr()?;
        tokio::spawn(metrics::serve(Arc::clone(&proxy), listener));
        log::say(&format!("metrics at http://{address}/metrics"));
    }
    tokio::spawn(Arc::clone(&proxy.pools).maintain());
    tokio::spawn(keep_awake(Arc::clone(&proxy)));
    tokio::spawn(signals.obey(Arc::clone(&admin)));
    let watchdog = systemd::watchdog_interval().map(systemd::feed_watchdog);
    let _watchdog = watchdog.map(tokio::spawn);
    // Scripts wait for this line: it is part of the command-line contract.
    for address in listeners.addresses()? {
        log::say(&format!("listening on {address}"));
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
    // Operators were there to the end.
    admin.begin(Phase::Ending);
    let _ = tokio::time::timeout(FAREWELL, none(|| proxy.console_keys.count() > 0)).await;
    Ok(())
}

/// Keeps the event loop awake while messages come fast.
async fn keep_awake(proxy: Arc<Proxy>) {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    // With one core, who sends the next message needs it. Of several threads, one that polls would wake the others in vain.
    if cores == 1 || proxy.config().paceline.operation.worker_threads > 1 {
        return proxy.shared.busy_poll.disable();
    }
    let limit = || proxy.config().paceline.operation.busy_poll;
    proxy.shared.busy_poll.run(limit).await;
}

impl Listeners {
    /// Takes in whoever comes, until the process comes to its end; the tasks are over when nobody can come any more.
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
                Ok((stream, _)) => welcome(&admin, accepted_tcp(&admin.proxy, stream)),
                Err(error) => accept_failed(&error).await,
            }
        }
    }
    let rest = close_tcp(listener, sharing).await;
    rest.into_iter()
        .for_each(|stream| welcome(&admin, accepted_tcp(&admin.proxy, stream)));
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
                Ok((stream, _)) => welcome(&admin, Stream::unix(stream)),
                Err(error) => accept_failed(&error).await,
            }
        }
    }
    let rest = close_unix(listener, sharing);
    rest.into_iter()
        .for_each(|stream| welcome(&admin, Stream::unix(stream)));
}

fn welcome(admin: &Arc<Admin>, stream: Stream) {
    let proxy = &admin.proxy;
    proxy.accepted.fetch_add(1, Ordering::Relaxed);
    // A client that connected before the listening sockets were closed is served if the process still waits for clients.
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

/// Waits until nobody can come any more and those who are there have left: by themselves, or because they are told to go
/// when they do nothing. All of it up to `shutdown_timeout`.
async fn drain(proxy: &Proxy, accepting: JoinSet<()>) {
    let limit = proxy.config().paceline.operation.shutdown_timeout;
    let drained = async {
        accepting.join_all().await;
        left(proxy).await;
    };
    if tokio::time::timeout(limit, drained).await.is_ok() {
        return;
    }
    proxy
        .pools
        .all()
        .iter()
        .for_each(|pool| pool.disconnect_idle());
    if tokio::time::timeout(FAREWELL, left(proxy)).await.is_err() {
        let left = proxy.clients.load(Ordering::Relaxed);
        tracing::warn!(
            clients = left,
            "shutdown_timeout: closing clients in the middle of their work"
        );
    }
}

async fn left(proxy: &Proxy) {
    none(|| is_occupied(proxy)).await;
}

/// Returns when nobody is there any more.
async fn none(is_anybody: impl Fn() -> bool) {
    const LOOK_EVERY: Duration = Duration::from_millis(10);
    while is_anybody() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Clients have left with their last answer, so servers are free when clients are gone. Who has not logged in yet may do so
/// only if clients are waited for.
fn is_occupied(proxy: &Proxy) -> bool {
    let present = match *proxy.phase.borrow() {
        Phase::Serving | Phase::WaitingForClients => &proxy.connections,
        Phase::WaitingForServers | Phase::Ending => &proxy.clients,
    };
    present.load(Ordering::Relaxed) > 0
}
