//! The system's log, by its local socket (RFC 3164 as `syslog(3)` writes it: no time and no host).

use super::priority::priority;
use paceline_config::Logging;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use tracing::Level;

/// Where the system's log listens.
const SOCKET: &str = "/dev/log";

/// A way to the system's log. Messages that it does not take at once are lost.
pub(super) struct Syslog {
    path: PathBuf,
    socket: Option<UnixDatagram>,
    facility: u8,
    /// Name and process.
    tag: String,
}

impl Syslog {
    pub(super) fn new(logging: &Logging) -> Self {
        Self::at(Path::new(SOCKET), logging)
    }

    pub(super) fn at(path: &Path, logging: &Logging) -> Self {
        Self {
            path: path.to_owned(),
            socket: None,
            facility: logging.syslog_facility.code(),
            tag: format!("{}[{}]", logging.syslog_ident, std::process::id()),
        }
    }

    pub(super) fn write(&mut self, level: Level, line: &str) {
        let code = u32::from(self.facility) * 8 + u32::from(priority(level));
        let message = format!("<{code}>{}: {}", self.tag, line.trim_start());
        if let Err(error) = self.send(message.as_bytes())
            && error.kind() != ErrorKind::WouldBlock
        {
            // The program that listened has been restarted: its socket is another one.
            self.socket = None;
            let _ = self.send(message.as_bytes());
        }
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let socket = match &self.socket {
            Some(socket) => socket,
            None => self.socket.insert(connect(&self.path)?),
        };
        socket.send(message).map(drop)
    }
}

fn connect(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
