//! A server that speaks PostgreSQL's protocol and does no work. It answers every statement with `UPDATE 1`.

use crate::target::Target;
use bytes::{Buf, BytesMut};
use paceline_wire::backend::{self, Status};
use paceline_wire::frontend::tag;
use paceline_wire::{Frames, WireError, frame, startup};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// Maximum number of bytes per read. It is small because a client waits for each answer before it sends the next
/// statement.
const READ_BYTES: usize = 8 * 1024;
/// Size of the listen queue; all clients of a run connect at the same time.
const BACKLOG: u32 = 4_096;

/// A server on a separate thread, which ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Echo {
    address: SocketAddr,
    /// Dropping the sender ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    /// Starts the server on a free port of loopback.
    pub(super) fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = {
            let _entered = runtime.enter();
            let socket = tokio::net::TcpSocket::new_v4()?;
            socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
            socket.listen(BACKLOG)?
        };
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    () = accept(listener) => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(Self {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub(super) fn target(&self) -> Target {
        Target::on_loopback("echo", self.address.port(), "lab", "lab")
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread has no result; a panic in it is ignored.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener) {
    // Accepting fails if the process has no file descriptors left; the clients report that.
    while let Ok((stream, _)) = listener.accept().await {
        tokio::task::spawn_local(async move {
            // An error means that the client has disconnected or does not speak the protocol.
            let _ = serve(stream).await;
        });
    }
}

async fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut input, mut out) = (BytesMut::new(), BytesMut::new());
    let mut is_logged_in = false;
    loop {
        if is_logged_in {
            let Some(rest) = answer(&input, &mut out).map_err(io::Error::other)? else {
                return Ok(());
            };
            input.advance(input.len() - rest);
        } else if let Some((_, len)) = startup::read(&input).map_err(io::Error::other)? {
            // Accepts a login without authentication.
            is_logged_in = true;
            input.advance(len);
            backend::write_authentication_ok(&mut out);
            Status::Idle.write(&mut out);
        }
        stream.write_all_buf(&mut out).await?;
        input.reserve(READ_BYTES);
        if stream.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
    }
}

/// Answers the complete messages in `input` and returns the number of remaining bytes; `None` if the client terminates.
fn answer(input: &[u8], out: &mut BytesMut) -> Result<Option<usize>, WireError> {
    let mut frames = Frames::new(input);
    while let Some(frame) = frames.next_frame()? {
        match frame.tag {
            tag::QUERY => {
                backend::write_command_complete(out, "UPDATE 1");
                Status::Idle.write(out);
            }
            tag::PARSE => frame::write_empty(out, backend::tag::PARSE_COMPLETE),
            tag::BIND => frame::write_empty(out, backend::tag::BIND_COMPLETE),
            tag::DESCRIBE => frame::write_empty(out, backend::tag::NO_DATA),
            tag::EXECUTE => backend::write_command_complete(out, "UPDATE 1"),
            tag::SYNC => Status::Idle.write(out),
            tag::TERMINATE => return Ok(None),
            _ => {}
        }
    }
    Ok(Some(frames.rest().len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::{Protocol, Statement, Value};

    #[test]
    fn every_protocol_is_answered_and_an_incomplete_message_waits() {
        let cases = [
            (Protocol::Simple, "CZ"),
            (Protocol::Extended, "12nCZ"),
            (Protocol::Prepared, "12nCZ"),
        ];
        for (protocol, expected) in cases {
            let (mut sent, mut out) = (BytesMut::new(), BytesMut::new());
            let statement = Statement::new(0, "SELECT $1", protocol);
            statement.write(&[Value::Int(7)], false, &mut sent);
            sent.extend_from_slice(b"Q\0\0");
            assert_eq!(answer(&sent, &mut out).unwrap(), Some(3));
            let tags: String = Frames::new(&out)
                .map(|frame| char::from(frame.tag))
                .collect();
            assert_eq!(tags, expected);
        }
    }

    #[test]
    fn the_server_ends_when_it_is_dropped() {
        let echo = Echo::start().unwrap();
        let address = echo.address;
        assert!(std::net::TcpStream::connect(address).is_ok());
        drop(echo);
        assert!(std::net::TcpStream::connect(address).is_err());
    }
}
