//! A link of 100 Mbit/s with 1 ms delay each way, as far as a process can imitate one: a listener on loopback that passes bytes on to a
//! server, late. All its connections share the rate of each direction. It loses nothing, and its delays are those of timers, at least a
//! millisecond; `scripts/thin-link.sh` uses the kernel's own emulation.

use anyhow::Context;
use std::io;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until};

/// 100 Mbit/s.
const BYTES_PER_SECOND: f64 = 100e6 / 8.0;
/// From one end to the other.
const DELAY: Duration = Duration::from_millis(1);
/// Bytes that are sent as one packet.
const PACKET_BYTES: usize = 16 * 1024;
/// Maximum number of a connection's packets in flight; at this number, the sender waits.
const PACKETS_MAX: usize = 64;

/// A link on a separate thread, which ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct SlowLink {
    port: u16,
    /// Dropping the sender ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SlowLink {
    /// Starts a link to the server on this port of loopback.
    ///
    /// # Errors
    /// There is no free port.
    pub(crate) fn start(server: u16) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = listener.context("cannot listen for the imitated link")?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    () = accept(&listener, server) => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(Self {
            port,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The port of its near end.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for SlowLink {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has said so.
            let _ = thread.join();
        }
    }
}

/// One direction of the link.
#[derive(Debug)]
struct Direction {
    /// The time at which it will have sent everything that was given to it.
    free_at: Mutex<Instant>,
}

impl Direction {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            free_at: Mutex::new(Instant::now()),
        })
    }

    /// Gives it a packet at this time; returns when it is sent.
    fn send(&self, len: usize, now: Instant) -> Instant {
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        *free_at = (*free_at).max(now) + Duration::from_secs_f64(len as f64 / BYTES_PER_SECOND);
        *free_at
    }
}

async fn accept(listener: &TcpListener, server: u16) {
    let (there, back) = (Direction::new(), Direction::new());
    while let Ok((near, _)) = listener.accept().await {
        let (there, back) = (Rc::clone(&there), Rc::clone(&back));
        tokio::task::spawn_local(async move {
            // A server that cannot be reached is an end of the connection, as for any other reason.
            let _ = connect(near, server, there, back).await;
        });
    }
}

async fn connect(
    near: TcpStream,
    server: u16,
    there: Rc<Direction>,
    back: Rc<Direction>,
) -> io::Result<()> {
    let far = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    tokio::task::spawn_local(pass(near_in, far_out, there));
    pass(far_in, near_out, back).await;
    Ok(())
}

/// Passes on all bytes until the end of the stream.
async fn pass(mut from: OwnedReadHalf, to: OwnedWriteHalf, direction: Rc<Direction>) {
    let (packets, arriving) = mpsc::channel(PACKETS_MAX);
    let deliver = deliver(to, arriving);
    let send = async move {
        let mut buffer = vec![0; PACKET_BYTES];
        while let Ok(len @ 1..) = from.read(&mut buffer).await {
            let packet = buffer.get(..len).unwrap_or_default().to_vec();
            let sent = direction.send(len, Instant::now());
            if packets.send((sent + DELAY, packet)).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(deliver, send);
}

async fn deliver(mut to: OwnedWriteHalf, mut arriving: mpsc::Receiver<(Instant, Vec<u8>)>) {
    while let Some((at, packet)) = arriving.recv().await {
        sleep_until(at).await;
        if to.write_all(&packet).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_share_the_rate_of_a_direction() {
        let direction = Direction {
            free_at: Mutex::new(Instant::now()),
        };
        let now = Instant::now() + Duration::from_secs(1);
        // 12.5 MB are a second.
        let sent = [0, 1, 2].map(|_| direction.send(12_500_000, now) - now);
        assert_eq!(sent.map(|time| time.as_secs()), [1, 2, 3]);
        let later = now + Duration::from_secs(10);
        assert_eq!((direction.send(12_500_000, later) - later).as_secs(), 1);
    }
}
