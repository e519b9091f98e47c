//! Listening, accepting, and coming to an end.

use crate::client;
use crate::config::Settings;
use crate::metrics;
use crate::proxy::Proxy;
use crate::stream::Stream;
use anyhow::Context;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 4_096;

/// After accepting has failed (too few file descriptors), the next attempt comes after this long.
const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(100);

/// How often idle server connections are looked at.
const IDLE_CHECK_EVERY: Duration = Duration::from_secs(1);

/// Serves clients until a signal ends it (INT or TERM). `started` is when the process began.
pub(crate) async fn serve(
    config: crate::config::Config,
    signals: Signals,
    started: SystemTime,
) -> anyhow::Result<()> {
    let (close, closing) = watch::channel(false);
    let mut proxy = Proxy::new(config, closing);
    proxy.started = started;
    let proxy = Arc::new(proxy);
    let config = Arc::clone(&proxy.config());
    let settings = &config.paceline;
    let tcp = listen(settings.listening.listen, "--listen")?;
    let address = tcp.local_addr()?;
    let unix = listen_unix(settings, address.port())?;
    let metrics = settings.listening.metrics_listen;
    let metrics = metrics.map(|address| listen(address, "metrics_listen"));
    if let Some(listener) = metrics.transpose()? {
        let address = listener.local_addr()?;
        tokio::spawn(metrics::serve(Arc::clone(&proxy), listener));
        crate::log::say(&format!("metrics at http://{address}/metrics"));
    }
    tokio::spawn(accept_tcp(Arc::clone(&proxy), tcp));
    let socket = unix.map(|(listener, socket)| {
        tokio::spawn(accept_unix(Arc::clone(&proxy), listener));
        socket
    });
    tokio::spawn(close_idle(Arc::clone(&proxy)));
    // Scripts wait for this line: it is part of the command-line contract.
    crate::log::say(&format!("listening on {address}"));
    signals.wait().await;
    tracing::info!("shutting down");
    close.send_replace(true);
    drain(&proxy).await;
    drop(socket);
    Ok(())
}

/// The signals that end the process.
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// From now on they are noticed.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn wait(mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// `setting` is what would change the address.
fn listen(address: SocketAddr, setting: &str) -> anyhow::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    let bound = socket.bind(address).and_then(|()| socket.listen(BACKLOG));
    bound.with_context(|| {
        format!("cannot listen on {address}: stop what listens there, or choose another {setting}")
    })
}

/// The socket file goes when this does.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "socket file could not be removed");
        }
    }
}

fn listen_unix(
    settings: &Settings,
    port: u16,
) -> anyhow::Result<Option<(UnixListener, SocketFile)>> {
    let Some(folder) = &settings.listening.unix_socket_dir else {
        return Ok(None);
    };
    let path = folder.join(format!(".s.PGSQL.{port}"));
    // A socket file that nobody listens on is what a killed process has left.
    let dead = std::os::unix::net::UnixStream::connect(&path)
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if dead {
        std::fs::remove_file(&path)?;
    }
    let listener = UnixListener::bind(&path)
        .with_context(|| format!("cannot listen on {}: check unix_socket_dir", path.display()))?;
    Ok(Some((listener, SocketFile(path))))
}

async fn accept_tcp(proxy: Arc<Proxy>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => welcome(&proxy, Stream::tcp(stream)),
            Err(error) => accept_failed(&error).await,
        }
    }
}

async fn accept_unix(proxy: Arc<Proxy>, listener: UnixListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => welcome(&proxy, Stream::Unix(stream)),
            Err(error) => accept_failed(&error).await,
        }
    }
}

fn welcome(proxy: &Arc<Proxy>, stream: Stream) {
    proxy.accepted.fetch_add(1, Ordering::Relaxed);
    if !*proxy.closing.borrow() {
        tokio::spawn(client::serve(Arc::clone(proxy), stream));
    }
}

/// Notes it, and lets some time pass.
pub(crate) async fn accept_failed(error: &io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(ACCEPT_RETRY_AFTER).await;
}

async fn close_idle(proxy: Arc<Proxy>) {
    let mut every = tokio::time::interval(IDLE_CHECK_EVERY);
    loop {
        every.tick().await;
        proxy.clock.tick();
        proxy.turn_period();
        proxy.pools().iter().for_each(|pool| pool.close_idle());
    }
}

/// Waits for units and transactions in progress, up to `shutdown_timeout`.
async fn drain(proxy: &Proxy) {
    const LOOK_EVERY: Duration = Duration::from_millis(10);
    let limit = proxy.config().paceline.operation.shutdown_timeout;
    let drained = async {
        while proxy.clients.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    if tokio::time::timeout(limit, drained).await.is_err() {
        let left = proxy.clients.load(Ordering::Relaxed);
        tracing::warn!(
            clients = left,
            "shutdown_timeout: closing clients in the middle of their work"
        );
    }
}
