//! Notifies systemd of the state of the process (`sd_notify(3)`), and takes the sockets that systemd has opened
//! (`sd_listen_fds(3)`). Does nothing if systemd did not start the process.

use listenfd::ListenFd;
use rustix::time::{ClockId, clock_gettime};
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};

/// The name (`FileDescriptorName=`) of the socket for metrics.
const METRICS: &str = "metrics";

/// Notifies systemd that clients are served.
pub fn ready() {
    notify("READY=1");
}

/// Notifies systemd that the configuration is being reloaded. [`ready`] ends this state.
pub fn reloading() {
    let now = clock_gettime(ClockId::Monotonic);
    let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
}

/// Notifies systemd that the process is shutting down.
pub fn stopping() {
    notify("STOPPING=1");
}

fn notify(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, "could not notify systemd: {}", state.replace('\n', " "));
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

/// Half of the interval in which systemd requires a sign of life (`WatchdogSec=`); `None` if it requires none.
pub fn watchdog_interval() -> Option<Duration> {
    let variable = |name| std::env::var(name).ok();
    watchdog_of(
        variable("WATCHDOG_USEC"),
        variable("WATCHDOG_PID"),
        std::process::id(),
    )
}

fn watchdog_of(micros: Option<String>, pid: Option<String>, this: u32) -> Option<Duration> {
    let is_for_this = pid.is_none_or(|pid| pid.parse() == Ok(this));
    let micros: u64 = micros?.parse().ok()?;
    (is_for_this && micros > 1).then(|| Duration::from_micros(micros / 2))
}

/// Sends signs of life, on the threads that serve clients: if these hang, systemd gets none and restarts the process.
pub async fn feed_watchdog(interval: Duration) {
    let mut every = tokio::time::interval(interval);
    loop {
        every.tick().await;
        notify("WATCHDOG=1");
    }
}

/// Sockets that systemd has opened.
#[derive(Debug, Default)]
pub struct SystemdSockets {
    /// TCP sockets for clients.
    pub tcp: Vec<TcpListener>,
    /// Unix sockets for clients.
    pub unix: Vec<UnixListener>,
    /// The socket for metrics.
    pub metrics: Option<TcpListener>,
}

/// Takes the sockets that systemd has opened for this process.
///
/// # Errors
/// A socket is neither TCP nor a Unix stream socket, or cannot be used.
pub fn take_sockets() -> io::Result<SystemdSockets> {
    let mut sockets = ListenFd::from_env();
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut taken = SystemdSockets::default();
    for number in 0..sockets.len() {
        let name = names.next().unwrap_or_default();
        if let Ok(Some(listener)) = sockets.take_unix_listener(number) {
            listener.set_nonblocking(true)?;
            taken.unix.push(UnixListener::from_std(listener)?);
        } else if let Some(listener) = sockets.take_tcp_listener(number)? {
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            match name {
                METRICS => taken.metrics = Some(listener),
                _ => taken.tcp.push(listener),
            }
        }
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_reach_systemd() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), "READY=1").unwrap();
        let mut received = [0; 64];
        let len = systemd.recv(&mut received).unwrap();
        assert_eq!(&received[..len], b"READY=1");
    }

    #[test]
    fn notifications_reach_an_abstract_socket() {
        let name = format!("paceline-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let systemd = UnixDatagram::bind_addr(&address).unwrap();
        send(OsStr::new(&format!("@{name}")), "STOPPING=1").unwrap();
        let mut received = [0; 64];
        let len = systemd.recv(&mut received).unwrap();
        assert_eq!(&received[..len], b"STOPPING=1");
    }

    #[test]
    fn the_watchdog_applies_to_its_process_only() {
        let of = |micros: &str, pid: Option<&str>| {
            watchdog_of(Some(micros.to_owned()), pid.map(str::to_owned), 7)
        };
        assert_eq!(of("4000000", Some("7")), Some(Duration::from_secs(2)));
        assert_eq!(of("4000000", None), Some(Duration::from_secs(2)));
        assert_eq!(of("4000000", Some("8")), None);
        assert_eq!(of("soon", Some("7")), None);
        assert_eq!(of("0", Some("7")), None);
        assert_eq!(watchdog_of(None, None, 7), None);
    }
}
