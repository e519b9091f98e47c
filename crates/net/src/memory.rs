//! Connections in memory, for tests that run Paceline in one thread: the test decides when bytes arrive, how many a write accepts, and
//! when a connection is lost. A listener is known to its own thread only.

pub use crate::memory_pipe::MemoryPeer;

use crate::memory_pipe::pipe;
use crate::stream::Stream;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use tokio::sync::{mpsc, oneshot};

thread_local! {
    static LISTENERS: RefCell<HashMap<PathBuf, mpsc::UnboundedSender<Connecting>>> = RefCell::default();
}

/// Makes a connection. A write accepts bytes until `write_max` of them have not been received.
pub fn pair(write_max: usize) -> (Stream, MemoryPeer) {
    let (socket, peer) = pipe(write_max);
    (Stream::memory(socket), peer)
}

/// A connection that Paceline is opening. Dropping it refuses the connection.
#[derive(Debug)]
pub struct Connecting(oneshot::Sender<Stream>);

impl Connecting {
    /// Accepts the connection; see [`pair`].
    pub fn accept(self, write_max: usize) -> MemoryPeer {
        let (stream, peer) = pair(write_max);
        // If Paceline does not wait any more, the peer finds the connection closed.
        let _ = self.0.send(stream);
        peer
    }
}

/// Gets the connections that are opened to a path, in place of a Unix socket.
#[derive(Debug)]
pub struct MemoryListener {
    path: PathBuf,
    connecting: mpsc::UnboundedReceiver<Connecting>,
}

/// Listens at this path for the connections of this thread.
pub fn listen(path: PathBuf) -> MemoryListener {
    let (sender, connecting) = mpsc::unbounded_channel();
    LISTENERS.with_borrow_mut(|listeners| listeners.insert(path.clone(), sender));
    MemoryListener { path, connecting }
}

impl MemoryListener {
    /// Waits for the next connection.
    pub async fn next(&mut self) -> Option<Connecting> {
        self.connecting.recv().await
    }
}

impl Drop for MemoryListener {
    fn drop(&mut self) {
        LISTENERS.with_borrow_mut(|listeners| listeners.remove(&self.path));
    }
}

/// Opens a connection to the listener at this path; `None` if there is none.
pub async fn connect(path: &Path) -> Option<io::Result<Stream>> {
    let listener = LISTENERS.with_borrow(|listeners| listeners.get(path).cloned())?;
    let (sender, accepted) = oneshot::channel();
    let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
    if listener.send(Connecting(sender)).is_err() {
        return Some(Err(refused()));
    }
    Some(accepted.await.map_err(|_| refused()))
}
