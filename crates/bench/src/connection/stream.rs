//! A TCP or Unix socket. All sockets of a thread share one read buffer, because there may be thousands of them.

use crate::target::{Host, Target};
use bytes::{Buf, BytesMut};
use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Maximum number of bytes per read.
const READ_BYTES: usize = 64 * 1024;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(super) async fn connect(target: &Target) -> io::Result<Self> {
        match &target.host {
            Host::Tcp(host) => {
                let stream = TcpStream::connect((host.as_str(), target.port)).await?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
            Host::Unix(folder) => {
                let path = folder.join(format!(".s.PGSQL.{}", target.port));
                Ok(Self::Unix(UnixStream::connect(path).await?))
            }
        }
    }

    /// Writes all of `buf` and empties it.
    pub(super) async fn write_all(&self, buf: &mut BytesMut) -> io::Result<()> {
        while buf.has_remaining() {
            let written = match self {
                Self::Tcp(stream) => stream.try_write(buf),
                Self::Unix(stream) => stream.try_write(buf),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => buf.advance(len),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match self {
                    Self::Tcp(stream) => stream.writable().await?,
                    Self::Unix(stream) => stream.writable().await?,
                },
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for bytes and passes them to `take`. At the end of the stream the error is [`io::ErrorKind::UnexpectedEof`].
    pub(super) async fn read<T>(&mut self, mut take: impl FnMut(&[u8]) -> T) -> io::Result<T> {
        std::future::poll_fn(|context| {
            SCRATCH.with_borrow_mut(|scratch| {
                let mut buf = ReadBuf::new(scratch);
                ready!(self.poll_read(context, &mut buf))?;
                Poll::Ready(match buf.filled() {
                    [] => Err(io::ErrorKind::UnexpectedEof.into()),
                    bytes => Ok(take(bytes)),
                })
            })
        })
        .await
    }

    /// Uses tokio's read, which treats a socket as empty if a read did not fill the buffer. Another attempt would cost one
    /// system call per answer.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buf),
        }
    }
}
