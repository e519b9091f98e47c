//! Eras of a pool: the connections that were opened between two orders to replace them all.
//!
//! An order to reconnect begins another era; connections of an earlier one are closed when they come back. An era is
//! over when its last connection is closed, whoever closed it: that is all that has to be counted.

use crate::log::Replaced;
use crate::server::{Address, ServerConn};
use paceline_net::Stream;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::Notify;

/// What ties the connections of one era together.
#[derive(Debug)]
pub(crate) struct Era {
    /// Where they lead.
    pub(crate) address: Arc<Address>,
    /// To those who wait for its end.
    over: Arc<Notify>,
    /// Why another one has begun.
    pub(super) replaced: Replaced,
    /// To cut connections that are in other hands.
    sockets: Mutex<Vec<Weak<OwnedFd>>>,
}

impl Drop for Era {
    fn drop(&mut self) {
        self.over.notify_waiters();
    }
}

/// A connection is of an era as long as it holds this.
#[derive(Debug)]
pub(crate) struct Bond {
    era: Arc<Era>,
    _socket: Option<Arc<OwnedFd>>,
}

impl Bond {
    /// Is it of this era?
    pub(super) fn is_of(&self, era: &Arc<Era>) -> bool {
        Arc::ptr_eq(&self.era, era)
    }

    /// Its era, to be recognised by.
    pub(super) fn era(&self) -> Weak<Era> {
        Arc::downgrade(&self.era)
    }
}

impl Era {
    /// A new one, without connections.
    pub(super) fn new(address: Arc<Address>, over: &Arc<Notify>) -> Arc<Self> {
        Arc::new(Self {
            address,
            over: Arc::clone(over),
            replaced: Replaced::default(),
            sockets: Mutex::default(),
        })
    }

    fn sockets(&self) -> MutexGuard<'_, Vec<Weak<OwnedFd>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ties a connection to it.
    pub(super) fn bind(self: Arc<Self>, conn: &mut ServerConn) {
        let socket = self.register(&conn.stream);
        conn.bond = Some(Bond {
            era: self,
            _socket: socket,
        });
    }

    /// Without a descriptor to spare a connection cannot be cut; it is closed when it comes back.
    fn register(&self, stream: &Stream) -> Option<Arc<OwnedFd>> {
        let socket = Arc::new(stream.duplicate().ok()?);
        let mut sockets = self.sockets();
        sockets.retain(|socket| socket.strong_count() > 0);
        sockets.push(Arc::downgrade(&socket));
        Some(socket)
    }

    /// Ends its connections now: whoever uses one meets the end of its stream.
    pub(super) fn cut(&self) {
        for socket in self.sockets().iter().filter_map(Weak::upgrade) {
            if let Err(error) = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both) {
                tracing::debug!(%error, "a server connection was closed already");
            }
        }
    }
}
