//! Sockets on which clients and monitoring come in: opened, or taken from systemd, and closed without losing anybody.

use super::systemd;
use anyhow::Context;
use paceline_config::{Config, Listening};
use socket2::{SockFilter, SockRef};
use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

/// How long connections that have begun may take to be made, once no others begin.
const HANDSHAKE_MAX: Duration = Duration::from_millis(200);

/// Who else listens at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Company {
    /// Nobody.
    None,
    /// Other processes, each with a socket of its own (`so_reuseport`).
    Others,
    /// systemd has the same socket, and keeps it for the next process.
    Systemd,
}

/// All of them.
pub(super) struct Doors {
    /// For clients.
    pub(super) tcp: Vec<TcpListener>,
    /// For clients.
    pub(super) unix: Vec<UnixListener>,
    /// For monitoring.
    pub(super) metrics: Option<TcpListener>,
    /// Who else listens where clients come in.
    pub(super) company: Company,
    socket_file: Option<SocketFile>,
}

impl Doors {
    /// Those that systemd has opened; where it has opened none, what the configuration says.
    pub(super) fn open(config: &Config) -> anyhow::Result<Self> {
        let settings = &config.paceline.listening;
        let passed = systemd::passed().context("cannot take the sockets of systemd")?;
        let mut doors = Self {
            tcp: passed.tcp,
            unix: passed.unix,
            metrics: passed.metrics,
            company: Company::Systemd,
            socket_file: None,
        };
        for listener in &doors.tcp {
            config.check_address("a socket of systemd", listener.local_addr()?)?;
        }
        if doors.tcp.is_empty() && doors.unix.is_empty() {
            doors.open_for_clients(settings)?;
        }
        if let (None, Some(address)) = (&doors.metrics, settings.metrics_listen) {
            doors.metrics = Some(listen(address, settings, "metrics_listen")?);
        }
        Ok(doors)
    }

    fn open_for_clients(&mut self, settings: &Listening) -> anyhow::Result<()> {
        self.company = match settings.so_reuseport {
            true => Company::Others,
            false => Company::None,
        };
        let tcp = listen(settings.listen, settings, "--listen")?;
        let port = tcp.local_addr()?.port();
        self.tcp.push(tcp);
        if let Some(folder) = &settings.unix_socket_dir {
            let path = folder.join(format!(".s.PGSQL.{port}"));
            let (listener, file) = listen_unix(path, settings)?;
            self.unix.push(listener);
            self.socket_file = Some(file);
        }
        Ok(())
    }

    /// Where clients come in; over a Unix socket only if there is no other way.
    pub(super) fn addresses(&self) -> io::Result<Vec<String>> {
        let tcp = self.tcp.iter().map(TcpListener::local_addr);
        let mut addresses = tcp
            .map(|address| Ok(address?.to_string()))
            .collect::<io::Result<Vec<_>>>()?;
        if addresses.is_empty() {
            let unix = self.unix.iter().filter_map(|unix| unix.local_addr().ok());
            let paths =
                unix.filter_map(|address| Some(address.as_pathname()?.display().to_string()));
            addresses.extend(paths);
        }
        Ok(addresses)
    }
}

/// `setting` is what would change the address.
fn listen(address: SocketAddr, settings: &Listening, setting: &str) -> anyhow::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(settings.so_reuseport)?;
    let backlog = u32::try_from(settings.listen_backlog).unwrap_or(u32::MAX);
    let bound = socket.bind(address).and_then(|()| socket.listen(backlog));
    let remedy = match &bound {
        Err(error) if settings.so_reuseport && error.kind() == io::ErrorKind::AddrInUse => {
            "the process that listens there runs without so_reuseport, or as another user; stop it"
        }
        _ => "stop what listens there",
    };
    bound.with_context(|| {
        format!("cannot listen on {address}: {remedy}, or choose another {setting}")
    })
}

/// The socket file goes when this does, unless a newer process has put its own in its place.
struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).ok() != Some(self.identity) {
            return;
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "socket file could not be removed");
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = std::fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

fn listen_unix(path: PathBuf, settings: &Listening) -> anyhow::Result<(UnixListener, SocketFile)> {
    let opened = if is_live(&path) && !settings.so_reuseport {
        Err(io::ErrorKind::AddrInUse.into())
    } else {
        put_in_place(&path, settings)
    };
    let (listener, identity) = opened
        .with_context(|| format!("cannot listen on {}: check unix_socket_dir", path.display()))?;
    Ok((listener, SocketFile { path, identity }))
}

/// A socket file that nobody listens on is what a killed process has left.
fn is_live(path: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(path).is_ok()
}

/// The socket appears with its permissions, in one step: whoever connects meanwhile reaches the old one or the new one.
fn put_in_place(path: &Path, settings: &Listening) -> io::Result<(UnixListener, (u64, u64))> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let draft = PathBuf::from(draft);
    let listener = bind_unix(&draft, settings.listen_backlog)?;
    let placed =
        std::fs::set_permissions(&draft, Permissions::from_mode(settings.unix_socket_mode))
            .and_then(|()| identity(&draft))
            .and_then(|identity| std::fs::rename(&draft, path).map(|()| identity));
    match placed {
        Ok(identity) => Ok((listener, identity)),
        Err(error) => {
            std::fs::remove_file(&draft)?;
            Err(error)
        }
    }
}

fn bind_unix(path: &Path, backlog: usize) -> io::Result<UnixListener> {
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
    socket.bind(&socket2::SockAddr::unix(path)?)?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    socket.set_nonblocking(true)?;
    UnixListener::from_std(socket.into())
}

/// Stops listening; returns connections that were made and not accepted yet: those in a socket of systemd's stay for the
/// next process. If others listen at the same address, no connection is lost to them: what has begun here is made here, and what begins now is turned away without a word, so that
/// the client's system tries again a second later and reaches them.
pub(super) async fn close_tcp(listener: TcpListener, company: Company) -> Vec<TcpStream> {
    if company == Company::Systemd {
        return Vec::new();
    }
    if company == Company::Others && turn_newcomers_away(&listener).is_ok() {
        tokio::time::sleep(HANDSHAKE_MAX).await;
    }
    let Ok(listener) = listener.into_std() else {
        return Vec::new();
    };
    let mut rest = Vec::new();
    while let Ok((stream, _)) = listener.accept() {
        let stream = stream.set_nonblocking(true).map(|()| stream);
        rest.extend(stream.and_then(TcpStream::from_std));
    }
    rest
}

/// As [`close_tcp`]. Newcomers find the socket of a newer process, or none.
pub(super) fn close_unix(listener: UnixListener, company: Company) -> Vec<UnixStream> {
    if company == Company::Systemd {
        return Vec::new();
    }
    let Ok(listener) = listener.into_std() else {
        return Vec::new();
    };
    let mut rest = Vec::new();
    while let Ok((stream, _)) = listener.accept() {
        let stream = stream.set_nonblocking(true).map(|()| stream);
        rest.extend(stream.and_then(UnixStream::from_std));
    }
    rest
}

/// Lets the system drop packets that would begin a connection: those with SYN and without ACK. (Closing alone would reset
/// connections that are half made, or made after the last was accepted.)
fn turn_newcomers_away(listener: &TcpListener) -> io::Result<()> {
    const FLAGS_OFFSET: u32 = 13;
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    // Instructions of the classic packet filter (linux/filter.h).
    const LOAD_BYTE: u16 = 0x30;
    const AND: u16 = 0x54;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    SockRef::from(listener).attach_filter(&[
        SockFilter::new(LOAD_BYTE, 0, 0, FLAGS_OFFSET),
        SockFilter::new(AND, 0, 0, SYN | ACK),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, SYN),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream as Client;
    use std::thread;

    fn shared() -> Listening {
        Listening {
            so_reuseport: true,
            ..Listening::default()
        }
    }

    fn at(port: u16) -> TcpListener {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        listen(address, &shared(), "listen").unwrap()
    }

    #[tokio::test]
    async fn who_has_come_is_let_in_when_the_door_closes() {
        for company in [Company::None, Company::Others] {
            let listener = at(0);
            let address = listener.local_addr().unwrap();
            let clients = [0; 3].map(|_| Client::connect(address).unwrap());
            let rest = close_tcp(listener, company).await;
            let of_rest = rest.iter().map(|stream| stream.peer_addr().unwrap());
            let of_clients = clients.iter().map(|client| client.local_addr().unwrap());
            assert_eq!(of_rest.collect::<Vec<_>>(), of_clients.collect::<Vec<_>>());
            assert!(Client::connect(address).is_err());
        }
    }

    #[tokio::test]
    async fn who_has_come_waits_for_the_next_where_systemd_keeps_the_door() {
        let kept = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        kept.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(kept.try_clone().unwrap()).unwrap();
        let client = Client::connect(kept.local_addr().unwrap()).unwrap();
        assert_eq!(close_tcp(listener, Company::Systemd).await.len(), 0);
        let (_, peer) = kept.accept().unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
        // Nothing is left that would turn others away.
        Client::connect(kept.local_addr().unwrap()).unwrap();
        kept.accept().unwrap();
    }

    /// Two doors at one address; whoever knocks at the one that is being closed comes in by the other, a second later.
    #[tokio::test]
    async fn who_comes_meanwhile_comes_in_by_the_other_door() {
        let closing = at(0);
        let address = closing.local_addr().unwrap();
        let other = at(address.port());
        turn_newcomers_away(&closing).unwrap();
        let clients: Vec<_> = (0..16)
            .map(|_| thread::spawn(move || Client::connect(address).map(drop)))
            .collect();
        // Some have the other one at once: these have come while the first was there.
        other.accept().await.unwrap();
        assert_eq!(close_tcp(closing, Company::Others).await.len(), 0);
        for _ in 1..16 {
            other.accept().await.unwrap();
        }
        for client in clients {
            client.join().unwrap().unwrap();
        }
    }
}
