//! A socket, TCP or Unix. Thousands of them share one buffer per thread for what comes in.

use crate::target::{Host, Target};
use bytes::{Buf, BytesMut};
use std::cell::RefCell;
use std::io;
use tokio::net::{TcpStream, UnixStream};

/// Bytes read from a socket at a time.
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

    /// Waits for bytes and lets `take` see them. The end of the stream is [`io::ErrorKind::UnexpectedEof`].
    pub(super) async fn read<T>(&self, mut take: impl FnMut(&[u8]) -> T) -> io::Result<T> {
        loop {
            match self {
                Self::Tcp(stream) => stream.readable().await?,
                Self::Unix(stream) => stream.readable().await?,
            }
            let taken: io::Result<T> = SCRATCH.with_borrow_mut(|scratch| {
                let len = match self {
                    Self::Tcp(stream) => stream.try_read(scratch),
                    Self::Unix(stream) => stream.try_read(scratch),
                }?;
                match len {
                    0 => Err(io::ErrorKind::UnexpectedEof.into()),
                    _ => Ok(take(scratch.get(..len).unwrap_or_default())),
                }
            });
            match taken {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }
}
