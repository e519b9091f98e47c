//! Listening, accepting, and coming to an end.

mod listen;
mod pidfile;
mod signals;
pub(crate) mod systemd;

pub(crate) use pidfile::running_process;
pub(crate) use signals::Signals;

use crate::client;
use crate::control::{ConfigSnapshot, Origin, Phase};
use crate::metrics;
use crate::net_settings::tcp_settings;
use crate::pool;
use crate::proxy::Proxy;
use listen::Listeners;
use paceline_config::Config;
use paceline_net::Stream;
use paceline_net::listen::{Sharing, close_tcp, close_unix};
use pidfile::PidFile;
use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// After accepting has failed (too few file descriptors), the next attempt comes after this long.
const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(100);

/// How long clients have to go that are told so at the end of `shutdown_timeout`, and operators when the process ends; who does
/// nothing hears it.
const FAREWELL: Duration = Duration::from_millis(100);

/// Serves clients until a signal or an order ends it. `started` is when the process began; `when_listening` is called when clients
/// may connect.
pub(crate) async fn serve(
    config: Config,
    origin: Origin,
    signals: Signals,
    started: SystemTime,
    when_listening: impl FnOnce(),
) -> anyhow::Result<()> {
    let mut proxy = Proxy::new(config);
    proxy.started = started;
    proxy.origin = origin;
    let proxy = Arc::new(proxy);
    let config = Arc::clone(&proxy.config());
    proxy.apply(ConfigSnapshot::read(Arc::clone(&config))?);
    let settings = &config.paceline;
    let mut listeners = Listeners::open(&config)?;
    let pidfile = &settings.operation.pidfile;
    let replace = settings.listening.so_reuseport;
    let pidfile = pidfile.as_ref().map(|path| PidFile::write(path, replace));
    let _pidfile = pidfile.transpose()?;
    if let Some(listener) = listeners.metrics.take() {
        let address = listener.local_addr()?;
        tokio::spawn(metrics::serve(Arc::clone(&proxy), listener));
        crate::log::say(&format!("metrics at http://{address}/metrics"));
    }
    tokio::spawn(pool::sweep(Arc::clone(&proxy)));
    tokio::spawn(keep_awake(Arc::clone(&proxy)));
    tokio::spawn(signals.obey(Arc::clone(&proxy)));
    let watchdog = systemd::watchdog_interval().map(systemd::feed_watchdog);
    let _watchdog = watchdog.map(tokio::spawn);
    // Scripts wait for this line: it is part of the command-line contract.
    for address in listeners.addresses()? {
        crate::log::say(&format!("listening on {address}"));
    }
    systemd::ready();
    when_listening();
    let mut phase = proxy.phase.subscribe();
    let accepting = listeners.accept(&proxy);
    reached(&mut phase, Phase::WaitingForClients).await;
    tracing::info!("shutting down");
    systemd::stopping();
    tokio::select! {
        () = drain(&proxy, accepting) => {}
        () = reached(&mut phase, Phase::Ending) => tracing::info!("ending at once"),
    }
    // Operators were there to the end.
    proxy.begin(Phase::Ending);
    let _ = tokio::time::timeout(FAREWELL, none(|| proxy.operators.count() > 0)).await;
    Ok(())
}

/// Keeps the event loop awake while messages come fast.
async fn keep_awake(proxy: Arc<Proxy>) {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    // With one core, who sends the next message needs it. Of several threads, one that polls would wake the others in vain.
    if cores == 1 || proxy.config().paceline.operation.worker_threads > 1 {
        return proxy.busy_poll.disable();
    }
    let limit = || proxy.config().paceline.operation.busy_poll;
    proxy.busy_poll.run(limit).await;
}

/// Returns when the process is in this phase or a later one.
pub(crate) async fn reached(now: &mut watch::Receiver<Phase>, phase: Phase) {
    // The proxy has the sender: it is there as long as anybody waits.
    let _ = now.wait_for(|now| *now >= phase).await;
}

impl Listeners {
    /// Takes in whoever comes, until the process comes to its end; the tasks are over when nobody can come any more.
    fn accept(&mut self, proxy: &Arc<Proxy>) -> JoinSet<()> {
        let mut accepting = JoinSet::new();
        for listener in self.tcp.drain(..) {
            accepting.spawn(accept_tcp(Arc::clone(proxy), listener, self.sharing));
        }
        for listener in self.unix.drain(..) {
            accepting.spawn(accept_unix(Arc::clone(proxy), listener, self.sharing));
        }
        accepting
    }
}

async fn accept_tcp(proxy: Arc<Proxy>, listener: TcpListener, sharing: Sharing) {
    let mut phase = proxy.phase.subscribe();
    loop {
        tokio::select! {
            biased;
            () = reached(&mut phase, Phase::WaitingForClients) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => welcome(&proxy, accepted_tcp(&proxy, stream)),
                Err(error) => accept_failed(&error).await,
            }
        }
    }
    let rest = close_tcp(listener, sharing).await;
    rest.into_iter()
        .for_each(|stream| welcome(&proxy, accepted_tcp(&proxy, stream)));
}

fn accepted_tcp(proxy: &Proxy, stream: TcpStream) -> Stream {
    let stream = Stream::tcp(stream);
    stream.set_tcp_options(&tcp_settings(&proxy.config().paceline.tcp));
    stream
}

async fn accept_unix(proxy: Arc<Proxy>, listener: UnixListener, sharing: Sharing) {
    let mut phase = proxy.phase.subscribe();
    loop {
        tokio::select! {
            biased;
            () = reached(&mut phase, Phase::WaitingForClients) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => welcome(&proxy, Stream::unix(stream)),
                Err(error) => accept_failed(&error).await,
            }
        }
    }
    let rest = close_unix(listener, sharing);
    rest.into_iter()
        .for_each(|stream| welcome(&proxy, Stream::unix(stream)));
}

/// A connection is counted from here to its end, whatever becomes of it.
pub(crate) struct Visit(Arc<Proxy>);

impl Visit {
    /// Somebody has connected.
    pub(crate) fn begin(proxy: &Arc<Proxy>) -> Self {
        proxy.visitors.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(proxy))
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.visitors.fetch_sub(1, Ordering::Relaxed);
    }
}

fn welcome(proxy: &Arc<Proxy>, stream: Stream) {
    proxy.accepted.fetch_add(1, Ordering::Relaxed);
    // A client that connected before the listening sockets were closed is served if the process still waits for clients.
    if *proxy.phase.borrow() > Phase::WaitingForClients {
        return;
    }
    tokio::spawn(client::serve(
        Arc::clone(proxy),
        stream,
        Visit::begin(proxy),
    ));
}

/// Notes it, and lets some time pass.
pub(crate) async fn accept_failed(error: &io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(ACCEPT_RETRY_AFTER).await;
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
    proxy.pools().iter().for_each(|pool| pool.dismiss());
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
        Phase::Serving | Phase::WaitingForClients => &proxy.visitors,
        Phase::WaitingForServers | Phase::Ending => &proxy.clients,
    };
    present.load(Ordering::Relaxed) > 0
}
