//! A connection for replication commands (PostgreSQL documentation, "Streaming Replication Protocol") to a server on loopback
//! that asks for no password. It blocks, and never waits longer than a limit for the next bytes.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use paceline_wire::frame::{self, HEADER_LEN};
use paceline_wire::startup::Startup;
use paceline_wire::{backend, frontend};

/// Limit for the server to send more; it may write a checkpoint first.
const SILENCE_MAX: Duration = Duration::from_secs(300);
const READ_BYTES: usize = 64 * 1024;

/// A connection after a successful login.
pub(crate) struct ReplicationConnection {
    stream: TcpStream,
    /// Received bytes that are no complete message yet.
    input: BytesMut,
}

impl ReplicationConnection {
    /// Connects to the server at this port of 127.0.0.1.
    pub(crate) fn open(port: u16, user: &str) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, SILENCE_MAX)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        let mut connection = Self {
            stream,
            input: BytesMut::new(),
        };
        let parameters = [("user", user), ("replication", "true")];
        let startup = Startup {
            minor: 0,
            parameters: parameters
                .map(|(n, v)| (n.to_owned(), v.to_owned()))
                .to_vec(),
        };
        connection.send(|out| startup.write(out))?;
        connection.await_ready()?;
        Ok(connection)
    }

    /// Sends a command.
    pub(crate) fn command(&mut self, command: &str) -> io::Result<()> {
        self.send(|out| frontend::write_query(out, command))
    }

    /// Waits for the next message; returns its tag and its body. An error of the server is an error.
    pub(crate) fn receive(&mut self) -> io::Result<(u8, Bytes)> {
        loop {
            let message = frame::split_message(&mut self.input).map_err(io::Error::other)?;
            match message {
                Some((backend::tag::ERROR_RESPONSE, message)) => {
                    let body = message.slice(HEADER_LEN..);
                    let text = backend::error_field(&body, b'M').unwrap_or_default();
                    return Err(io::Error::other(text.to_owned()));
                }
                Some((tag, message)) => return Ok((tag, message.slice(HEADER_LEN..))),
                None => self.read()?,
            }
        }
    }

    /// Waits until the server is ready for the next command.
    pub(crate) fn await_ready(&mut self) -> io::Result<()> {
        loop {
            let (tag, body) = self.receive()?;
            match tag {
                backend::tag::READY_FOR_QUERY => return Ok(()),
                // AuthenticationOk is 0.
                backend::tag::AUTHENTICATION if body.iter().any(|byte| *byte != 0) => {
                    return Err(io::Error::other("the server asks for a password"));
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, write: impl FnOnce(&mut BytesMut)) -> io::Result<()> {
        let mut out = BytesMut::new();
        write(&mut out);
        self.stream.write_all(&out)
    }

    fn read(&mut self) -> io::Result<()> {
        let start = self.input.len();
        self.input.resize(start + READ_BYTES, 0);
        let free = self.input.get_mut(start..).unwrap_or_default();
        let read = self.stream.read(free);
        let count = *read.as_ref().unwrap_or(&0);
        self.input.truncate(start + count);
        match read? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}
