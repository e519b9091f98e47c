//! The system's log, through its local socket. Messages have the format of `syslog(3)`: RFC 3164 without time and host.

use super::priority::priority;
use paceline_config::Logging;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use tracing::Level;

/// The socket of the system's log.
const SOCKET: &str = "/dev/log";

/// A connection to the system's log. Messages that the log does not accept at once are lost.
pub(super) struct Syslog {
    path: PathBuf,
    socket: Option<UnixDatagram>,
    facility: u8,
    /// `syslog_ident` and the process id.
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
            // The logging daemon may have been restarted: connect again.
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
