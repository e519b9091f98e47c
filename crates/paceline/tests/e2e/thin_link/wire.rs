//! The connection between two Pacelines: it passes bytes on, counts them, and may change them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::harness::message;

/// The name of the protocol option.
const OPTION: &[u8] = b"_pq_.paceline_compression";

/// The treatment of a startup packet with the option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// It is passed on.
    Pass,
    /// The connection is closed without an answer.
    Close,
    /// The first connection is closed without an answer; the others are passed on.
    CloseOnce,
    /// It is answered with an error.
    Refuse,
    /// The option is taken out, and the answer has the confirmation of another login.
    Replay,
}

/// A listener whose connections lead to a server.
pub(super) struct Wire {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    server: u16,
    manner: Mutex<Manner>,
    /// Startup packets with the option, and without it.
    offered: AtomicUsize,
    plain: AtomicUsize,
    /// Bytes of all connections.
    to_server: AtomicU64,
    to_client: AtomicU64,
    /// Bytes to the server, and to the client, after which one bit is inverted.
    damage: [Mutex<Option<u64>>; 2],
    sockets: Mutex<Vec<TcpStream>>,
}

impl Wire {
    /// Leads to a server on this port.
    pub(super) fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            server,
            manner: Mutex::new(Manner::Pass),
            offered: AtomicUsize::new(0),
            plain: AtomicUsize::new(0),
            to_server: AtomicU64::new(0),
            to_client: AtomicU64::new(0),
            damage: Default::default(),
            sockets: Mutex::default(),
        });
        let of_thread = Arc::clone(&shared);
        // The thread ends with the test's process; its connections end with the `Wire`.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&of_thread);
                thread::spawn(move || shared.serve(client));
            }
        });
        Self { port, shared }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn set(&self, manner: Manner) {
        *self.shared.manner.lock().unwrap() = manner;
    }

    /// Numbers of startup packets with the option, and without it.
    pub(super) fn startups(&self) -> [usize; 2] {
        [&self.shared.offered, &self.shared.plain].map(|count| count.load(Ordering::Relaxed))
    }

    /// Bytes to the server, and to the client.
    pub(super) fn bytes(&self) -> [u64; 2] {
        let shared = &self.shared;
        [&shared.to_server, &shared.to_client].map(|count| count.load(Ordering::Relaxed))
    }

    /// Inverts a bit of the byte after `distance` more to the client (1), or to the server (0).
    pub(super) fn damage(&self, to: usize, distance: u64) {
        *self.shared.damage[to].lock().unwrap() = Some(self.bytes()[to] + distance);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for socket in self.shared.sockets.lock().unwrap().iter() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn serve(&self, mut client: TcpStream) {
        client.set_nodelay(true).unwrap();
        let Some(mut startup) = startup_packet(&mut client) else {
            return;
        };
        let offers = find(&startup, OPTION);
        let manner = *self.manner.lock().unwrap();
        let counter = if offers.is_some() {
            &self.offered
        } else {
            &self.plain
        };
        // A cancel request, or a request for TLS, is neither.
        if find(&startup, b"user\0").is_some() {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        let mut confirmation = Vec::new();
        match (offers, manner) {
            (None, _) | (_, Manner::Pass) => {}
            (Some(_), Manner::Close) => return,
            (Some(_), Manner::CloseOnce) => {
                *self.manner.lock().unwrap() = Manner::Pass;
                return;
            }
            (Some(_), Manner::Refuse) => {
                let error = b"SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter\0\0";
                let _ = client.write_all(&message::any(b'E', error));
                return;
            }
            (Some(at), Manner::Replay) => {
                startup = without_option(&startup, at);
                let other = b"paceline_compression\0zstd:0123456789abcdef\0";
                confirmation = message::any(b'S', other);
            }
        }
        let mut server = TcpStream::connect(("127.0.0.1", self.server)).unwrap();
        server.set_nodelay(true).unwrap();
        {
            let mut sockets = self.sockets.lock().unwrap();
            sockets.extend([&client, &server].map(|socket| socket.try_clone().unwrap()));
        }
        server.write_all(&startup).unwrap();
        self.to_server
            .fetch_add(startup.len() as u64, Ordering::Relaxed);
        if !confirmation.is_empty() {
            let mut accepted = [0; 9];
            server.read_exact(&mut accepted).unwrap();
            client
                .write_all(&[&accepted[..], &confirmation].concat())
                .unwrap();
        }
        let (from_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        thread::scope(|scope| {
            scope.spawn(|| self.pass(from_client, to_server, 0));
            self.pass(server, client, 1);
        });
    }

    /// Passes bytes on until one side ends.
    fn pass(&self, mut from: TcpStream, mut to: TcpStream, direction: usize) {
        let counter = [&self.to_server, &self.to_client][direction];
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            let bytes = &mut buffer[..len];
            let before = counter.fetch_add(len as u64, Ordering::Relaxed);
            let mut damage = self.damage[direction].lock().unwrap();
            if let Some(at) = *damage
                && let Some(byte) = bytes.get_mut((at - before) as usize)
            {
                *byte ^= 0x10;
                *damage = None;
            }
            drop(damage);
            if to.write_all(bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}

fn startup_packet(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut packet = vec![0; 4];
    client.read_exact(&mut packet).ok()?;
    let len = u32::from_be_bytes(packet[..4].try_into().unwrap()) as usize;
    packet.resize(len, 0);
    client.read_exact(&mut packet[4..]).ok()?;
    Some(packet)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|found| found == wanted)
}

/// The packet without the option, which begins at `at`, and its value.
fn without_option(packet: &[u8], at: usize) -> Vec<u8> {
    let value = at + OPTION.len() + 1;
    let end = value + find(&packet[value..], b"\0").unwrap() + 1;
    let mut shorter = [&packet[..at], &packet[end..]].concat();
    let len = shorter.len() as u32;
    shorter[..4].copy_from_slice(&len.to_be_bytes());
    shorter
}
