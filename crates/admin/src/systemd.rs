//! systemd: it is told how the process fares (`sd_notify(3)`), and may have opened the sockets (`sd_listen_fds(3)`). Without
//! it nothing happens here.

use listenfd::ListenFd;
use rustix::time::{ClockId, clock_gettime};
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};

/// The name (`FileDescriptorName=`) of the socket for monitoring.
const METRICS: &str = "metrics";

/// Clients are served.
pub fn ready() {
    notify("READY=1");
}

/// The configuration is read again; [`ready`] comes afterwards.
pub fn reloading() {
    let now = clock_gettime(ClockId::Monotonic);
    let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
}

/// The process comes to its end.
pub fn stopping() {
    notify("STOPPING=1");
}

fn notify(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, "systemd could not be told {}", state.replace('\n', " "));
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

/// How often systemd wants to hear that this process lives (`WatchdogSec=`); half of it, to be in time.
pub fn watchdog_interval() -> Option<Duration> {
    let said = |name| std::env::var(name).ok();
    watchdog_of(
        said("WATCHDOG_USEC"),
        said("WATCHDOG_PID"),
        std::process::id(),
    )
}

fn watchdog_of(micros: Option<String>, pid: Option<String>, this: u32) -> Option<Duration> {
    let meant = pid.is_none_or(|pid| pid.parse() == Ok(this));
    let micros: u64 = micros?.parse().ok()?;
    (meant && micros > 1).then(|| Duration::from_micros(micros / 2))
}

/// Says so as long as the process lives: on the threads that serve clients, so that it falls silent when they hang.
pub async fn feed_watchdog(interval: Duration) {
    let mut every = tokio::time::interval(interval);
    loop {
        every.tick().await;
        notify("WATCHDOG=1");
    }
}

/// Sockets that systemd has opened.
#[derive(Debug, Default)]
pub struct Passed {
    /// Sockets for clients by TCP.
    pub tcp: Vec<TcpListener>,
    /// Unix sockets for clients.
    pub unix: Vec<UnixListener>,
    /// The socket for monitoring.
    pub metrics: Option<TcpListener>,
}

/// Takes them; there are none unless systemd says so.
///
/// # Errors
/// One of them is neither TCP nor a Unix stream socket, or cannot be used.
pub fn passed() -> io::Result<Passed> {
    let mut sockets = ListenFd::from_env();
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut passed = Passed::default();
    for number in 0..sockets.len() {
        let name = names.next().unwrap_or_default();
        if let Ok(Some(listener)) = sockets.take_unix_listener(number) {
            listener.set_nonblocking(true)?;
            passed.unix.push(UnixListener::from_std(listener)?);
        } else if let Some(listener) = sockets.take_tcp_listener(number)? {
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            match name {
                METRICS => passed.metrics = Some(listener),
                _ => passed.tcp.push(listener),
            }
        }
    }
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_hears_what_it_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), "READY=1").unwrap();
        let mut heard = [0; 64];
        let len = systemd.recv(&mut heard).unwrap();
        assert_eq!(&heard[..len], b"READY=1");
    }

    #[test]
    fn an_abstract_name_is_one() {
        let name = format!("paceline-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let systemd = UnixDatagram::bind_addr(&address).unwrap();
        send(OsStr::new(&format!("@{name}")), "STOPPING=1").unwrap();
        let mut heard = [0; 64];
        let len = systemd.recv(&mut heard).unwrap();
        assert_eq!(&heard[..len], b"STOPPING=1");
    }

    #[test]
    fn the_watchdog_is_fed_if_it_is_for_this_process() {
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
