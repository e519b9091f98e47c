//! A TCP or Unix socket. All sockets of a thread share one read buffer, because there may be thousands of them.

use crate::target::Host;
use bytes::BytesMut;
use std::cell::RefCell;
use std::fmt::Debug;
use std::io;
use std::pin::Pin;
use std::task::{Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Maximum number of bytes per read.
const READ_BYTES: usize = 64 * 1024;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

trait Socket: AsyncRead + AsyncWrite + Debug + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Debug + Send + Unpin> Socket for T {}

#[derive(Debug)]
pub(super) struct Stream(Box<dyn Socket>);

impl Stream {
    pub(super) async fn connect(host: &Host, port: u16) -> io::Result<Self> {
        Ok(Self(match host {
            Host::Tcp(host) => {
                let stream = TcpStream::connect((host.as_str(), port)).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Host::Unix(folder) => {
                let path = folder.join(format!(".s.PGSQL.{port}"));
                Box::new(UnixStream::connect(path).await?)
            }
        }))
    }

    /// Writes all of `buf` and empties it.
    pub(super) async fn write_all(&mut self, buf: &mut BytesMut) -> io::Result<()> {
        self.0.write_all_buf(buf).await
    }

    /// Waits for bytes and passes them to `take`. At the end of the stream the error is [`io::ErrorKind::UnexpectedEof`].
    /// tokio treats a socket as empty if a read did not fill the buffer: another attempt would cost a system call per answer.
    pub(super) async fn read<T>(&mut self, mut take: impl FnMut(&[u8]) -> T) -> io::Result<T> {
        std::future::poll_fn(|context| {
            SCRATCH.with_borrow_mut(|scratch| {
                let mut buf = ReadBuf::new(scratch);
                ready!(Pin::new(&mut self.0).poll_read(context, &mut buf))?;
                Poll::Ready(match buf.filled() {
                    [] => Err(io::ErrorKind::UnexpectedEof.into()),
                    bytes => Ok(take(bytes)),
                })
            })
        })
        .await
    }
}
