//! A network that a test disturbs without privileges: a program in the middle that passes bytes on in small pieces, late, not for a
//! while, or ends its connections by a reset.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Smaller than most messages, so that they arrive in pieces.
const PIECE: usize = 61;
/// Delay of each piece in a slow network.
const DELAY: Duration = Duration::from_millis(1);

/// The treatment of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    Clear,
    Slow,
    /// Nothing arrives, no connection is refused or ended.
    Held,
}

/// The network before a server on this machine; it accepts no more connections after it is dropped.
pub(crate) struct Network {
    port: u16,
    to: Arc<AtomicU16>,
    traffic: watch::Sender<Traffic>,
    cuts: watch::Sender<u64>,
    task: JoinHandle<()>,
}

impl Network {
    /// Leads to this port of 127.0.0.1.
    pub(crate) async fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = Arc::new(AtomicU16::new(port));
        let traffic = watch::Sender::new(Traffic::Clear);
        let cuts = watch::Sender::new(0);
        Self {
            port: listener.local_addr().unwrap().port(),
            task: tokio::spawn(accept(
                listener,
                to.clone(),
                traffic.subscribe(),
                cuts.subscribe(),
            )),
            to,
            traffic,
            cuts,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Later connections lead to this port.
    pub(crate) fn lead_to(&self, port: u16) {
        self.to.store(port, Ordering::SeqCst);
    }

    pub(crate) fn set(&self, traffic: Traffic) {
        self.traffic.send_replace(traffic);
    }

    /// Resets every connection; later ones are served.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    to: Arc<AtomicU16>,
    traffic: watch::Receiver<Traffic>,
    cuts: watch::Receiver<u64>,
) {
    while let Ok((near, _)) = listener.accept().await {
        let address = SocketAddr::from(([127, 0, 0, 1], to.load(Ordering::SeqCst)));
        tokio::spawn(connection(near, address, traffic.clone(), cuts.clone()));
    }
}

async fn connection(
    mut near: TcpStream,
    address: SocketAddr,
    traffic: watch::Receiver<Traffic>,
    mut cuts: watch::Receiver<u64>,
) {
    cuts.mark_unchanged();
    let Ok(mut far) = TcpStream::connect(address).await else {
        let _ = near.set_zero_linger();
        return;
    };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let (from_near, to_near) = near.split();
    let (from_far, to_far) = far.split();
    let both = async {
        tokio::join!(
            pass(from_near, to_far, traffic.clone()),
            pass(from_far, to_near, traffic)
        )
    };
    let cut = tokio::select! {
        _ = both => false,
        _ = cuts.changed() => true,
    };
    if cut {
        let _ = (near.set_zero_linger(), far.set_zero_linger());
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut traffic: watch::Receiver<Traffic>,
) {
    let mut piece = [0; PIECE];
    loop {
        let read = from.read(&mut piece).await.unwrap_or(0);
        loop {
            let now = *traffic.borrow_and_update();
            match now {
                Traffic::Clear => break,
                Traffic::Slow => {
                    tokio::time::sleep(DELAY).await;
                    break;
                }
                Traffic::Held => {
                    if traffic.changed().await.is_err() {
                        return;
                    }
                }
            }
        }
        if read == 0 || to.write_all(&piece[..read]).await.is_err() {
            let _ = to.shutdown().await;
            return;
        }
    }
}
