//! Listening sockets: opening them, and closing them without losing a connection.

use socket2::{SockFilter, SockRef};
use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

/// Time for TCP handshakes that have begun, before the socket is closed.
const HANDSHAKE_MAX: Duration = Duration::from_millis(200);

/// Delay after a connection could not be accepted.
const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(100);

/// Logs that a connection could not be accepted, and waits a moment: the process may have no file descriptor left.
pub async fn accept_failed(error: &io::Error) {
    tracing::warn!(%error, "could not accept a connection");
    tokio::time::sleep(ACCEPT_RETRY_AFTER).await;
}

/// The other processes that listen at the same address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// None.
    None,
    /// Other processes, each with a socket of its own (`SO_REUSEPORT`).
    ReusePort,
    /// systemd holds the same socket and passes it to the next process.
    Systemd,
}

/// Opens a TCP socket that listens. With `reuse_port`, other processes of the same user may listen at the address, too.
///
/// # Errors
/// The system's, such as `AddrInUse`.
pub fn listen_tcp(
    address: SocketAddr,
    backlog: usize,
    reuse_port: bool,
) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(reuse_port)?;
    socket.bind(address)?;
    socket.listen(u32::try_from(backlog).unwrap_or(u32::MAX))
}

/// The file of a Unix socket. Dropping it removes the file, unless another process has replaced it.
#[derive(Debug)]
pub struct SocketFile {
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

/// Opens a Unix socket that listens, with these permissions. A file of a process that has ended is replaced; a file on which another
/// process listens is replaced only if `replace` is set.
///
/// # Errors
/// The system's; `AddrInUse` if another process listens.
pub fn listen_unix(
    path: PathBuf,
    backlog: usize,
    mode: u32,
    replace: bool,
) -> io::Result<(UnixListener, SocketFile)> {
    if !replace && std::os::unix::net::UnixStream::connect(&path).is_ok() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    let (listener, identity) = bind_and_rename(&path, backlog, mode)?;
    Ok((listener, SocketFile { path, identity }))
}

/// Sets the permissions before the socket appears at its path, so that every client reaches either the old socket or the new one.
fn bind_and_rename(
    path: &Path,
    backlog: usize,
    mode: u32,
) -> io::Result<(UnixListener, (u64, u64))> {
    let mut new_file = path.as_os_str().to_owned();
    new_file.push(format!(".{}", std::process::id()));
    let new_file = PathBuf::from(new_file);
    let listener = bind_unix(&new_file, backlog)?;
    let renamed = std::fs::set_permissions(&new_file, Permissions::from_mode(mode))
        .and_then(|()| identity(&new_file))
        .and_then(|identity| std::fs::rename(&new_file, path).map(|()| identity));
    match renamed {
        Ok(identity) => Ok((listener, identity)),
        Err(error) => {
            std::fs::remove_file(&new_file)?;
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

/// Stops listening, and returns the connections that were established but not accepted. With [`Sharing::Systemd`] they stay in the
/// socket for the next process. With [`Sharing::ReusePort`] no connection is lost to the other processes: handshakes that have begun
/// are completed, and later connection attempts are dropped, so that the client's system repeats them and reaches another process.
pub async fn close_tcp(listener: TcpListener, sharing: Sharing) -> Vec<TcpStream> {
    if sharing == Sharing::Systemd {
        return Vec::new();
    }
    if sharing == Sharing::ReusePort && drop_connection_attempts(&listener).is_ok() {
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

/// As [`close_tcp`]. Later connection attempts reach the socket of the process that has replaced the file, or none.
pub fn close_unix(listener: UnixListener, sharing: Sharing) -> Vec<UnixStream> {
    if sharing == Sharing::Systemd {
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

/// Makes the system drop packets that begin a connection: those with SYN and without ACK. Closing alone would reset connections whose
/// handshake is not complete, or that were established after the last `accept`.
fn drop_connection_attempts(listener: &TcpListener) -> io::Result<()> {
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

    fn at(port: u16) -> TcpListener {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        listen_tcp(address, 128, true).unwrap()
    }

    #[tokio::test]
    async fn established_connections_are_returned_on_close() {
        for sharing in [Sharing::None, Sharing::ReusePort] {
            let listener = at(0);
            let address = listener.local_addr().unwrap();
            let clients = [0; 3].map(|_| Client::connect(address).unwrap());
            let rest = close_tcp(listener, sharing).await;
            let of_rest = rest.iter().map(|stream| stream.peer_addr().unwrap());
            let of_clients = clients.iter().map(|client| client.local_addr().unwrap());
            assert_eq!(of_rest.collect::<Vec<_>>(), of_clients.collect::<Vec<_>>());
            assert!(Client::connect(address).is_err());
        }
    }

    #[tokio::test]
    async fn connections_stay_in_a_socket_that_systemd_holds() {
        let kept = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        kept.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(kept.try_clone().unwrap()).unwrap();
        let client = Client::connect(kept.local_addr().unwrap()).unwrap();
        assert_eq!(close_tcp(listener, Sharing::Systemd).await.len(), 0);
        let (_, peer) = kept.accept().unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
        // No packet filter is left on the socket.
        Client::connect(kept.local_addr().unwrap()).unwrap();
        kept.accept().unwrap();
    }

    /// Two sockets at one address: a client that tries the one that is being closed reaches the other a second later.
    #[tokio::test]
    async fn dropped_attempts_reach_the_other_process() {
        let closing = at(0);
        let address = closing.local_addr().unwrap();
        let other = at(address.port());
        drop_connection_attempts(&closing).unwrap();
        let clients: Vec<_> = (0..16)
            .map(|_| thread::spawn(move || Client::connect(address).map(drop)))
            .collect();
        // The other socket accepts some at once; the first one must accept none.
        other.accept().await.unwrap();
        assert_eq!(close_tcp(closing, Sharing::ReusePort).await.len(), 0);
        for _ in 1..16 {
            other.accept().await.unwrap();
        }
        for client in clients {
            client.join().unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn a_socket_file_is_replaced_only_if_no_process_listens_or_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listen = |replace| listen_unix(path.clone(), 128, 0o600, replace);
        let (first, first_file) = listen(false).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(listen(false).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let (second, second_file) = listen(true).unwrap();
        drop(first_file);
        assert!(path.exists(), "the file belongs to the second socket");
        drop((first, second));
        let (_third, third_file) = listen(false).unwrap();
        drop(second_file);
        assert!(path.exists(), "the file belongs to the third socket");
        drop(third_file);
        assert!(!path.exists());
    }
}
