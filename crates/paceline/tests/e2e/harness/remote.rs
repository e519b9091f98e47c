//! A server behind a network of its own, as on another machine: a network namespace with a pair of virtual network cards (Linux). The
//! network can lose every packet, without an error to either side, as when a switch fails. The server itself stays where it is, and
//! can be asked directly meanwhile: bytes that arrive in the namespace are passed to its Unix socket.
//!
//! The namespace belongs to a thread, and exists no longer than that and the connections in it.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use nix::sched::{CloneFlags, unshare};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::caretaker::{Adopted, adopt_card};
use super::cluster::Cluster;
use super::wait::LIMIT;
use super::watchdog::{skipped, watch};

/// The port at every address. No other program listens in the namespace.
pub(crate) const PORT: u16 = 5432;

/// The first address of 198.18.0.0/15, which is reserved for tests of networks (RFC 2544), and how many networks of four addresses it has.
const FIRST: u32 = u32::from_be_bytes([198, 18, 0, 0]);
const NETWORKS: u32 = 1 << 15;

/// The card of the namespace.
const INNER: &str = "server";

/// Packets to this hardware address reach no card.
const NOWHERE: &str = "02:00:00:00:00:00";

/// A server at an address of its own; gone on drop.
pub(crate) struct Remote {
    network: Network,
    _card: Adopted,
    jobs: Option<UnboundedSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// Arguments of `ip`, to be run in the namespace.
struct Job {
    arguments: String,
    done: Sender<()>,
}

/// One network of four addresses. Its number is unique on the machine, because the name of the outer card is.
#[derive(Debug, Clone, Copy)]
struct Network(u32);

impl Network {
    fn address(self, host: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(FIRST + 4 * self.0 + host)
    }

    fn outer_address(self) -> Ipv4Addr {
        self.address(1)
    }

    fn inner_address(self) -> Ipv4Addr {
        self.address(2)
    }

    /// The card outside of the namespace.
    fn outer(self) -> String {
        format!("paceline{}", self.0)
    }
}

impl Remote {
    /// The server at an address of its own. `None`: the machine does not permit it, and standard error says so.
    pub(crate) fn start(server: &Cluster) -> Option<Self> {
        watch();
        let socket = format!(".s.PGSQL.{}", server.port());
        let socket = server.socket_dir().join(socket);
        let (jobs, received) = unbounded_channel();
        let (sender, started) = channel();
        let thread = thread::spawn(move || match enter() {
            Ok(network) => serve(network, &socket, received, &sender),
            Err(why) => sender.send(Err(why)).unwrap(),
        });
        let network = match started.recv_timeout(LIMIT).unwrap() {
            Ok(network) => network,
            Err(why) => {
                skipped(&format!("a network of its own: {why}"));
                return None;
            }
        };
        let remote = Self {
            network,
            _card: adopt_card(&network.outer()),
            jobs: Some(jobs),
            thread: Some(thread),
        };
        let (address, outer) = (network.outer_address(), network.outer());
        run(&format!("addr add {address}/30 dev {outer}")).unwrap();
        run(&format!("link set {outer} up")).unwrap();
        Some(remote)
    }

    pub(crate) fn address(&self) -> Ipv4Addr {
        self.network.inner_address()
    }

    /// `ADDRESS:PORT`.
    pub(crate) fn host(&self) -> String {
        format!("{}:{PORT}", self.address())
    }

    /// From now on every packet is lost, in both directions.
    pub(crate) fn cut(&self) {
        let lost = |to: Ipv4Addr, card: &str| {
            format!("neigh replace {to} lladdr {NOWHERE} dev {card} nud permanent")
        };
        self.inside(lost(self.network.outer_address(), INNER));
        run(&lost(self.address(), &self.network.outer())).unwrap();
    }

    /// Packets arrive again.
    pub(crate) fn restore(&self) {
        run(&format!(
            "neigh del {} dev {}",
            self.address(),
            self.network.outer()
        ))
        .unwrap();
        self.inside(format!(
            "neigh del {} dev {INNER}",
            self.network.outer_address()
        ));
    }

    /// Whether a closed connection to the server still waits for the acknowledgement of its bytes.
    pub(crate) fn owes(&self) -> bool {
        // proc(5), /proc/net/tcp: the fields are number, local address, remote address, state.
        const FIN_WAIT1_LAST_ACK_CLOSING: [&str; 3] = ["04", "09", "0B"];
        let server = format!(
            "{:08X}:{PORT:04X}",
            u32::from_ne_bytes(self.address().octets())
        );
        let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
        sockets.lines().any(|line| {
            let mut fields = line.split_whitespace().skip(2);
            fields.next() == Some(&server)
                && fields
                    .next()
                    .is_some_and(|state| FIN_WAIT1_LAST_ACK_CLOSING.contains(&state))
        })
    }

    /// Runs `ip` in the namespace.
    fn inside(&self, arguments: String) {
        let (done, ended) = channel();
        let job = Job { arguments, done };
        self.jobs.as_ref().unwrap().send(job).ok().unwrap();
        ended.recv_timeout(LIMIT).unwrap();
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // This removes the other end of the pair, too.
        let _ = run(&format!("link del {}", self.network.outer()));
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Puts the calling thread into a namespace of its own, with a network to the one it leaves.
fn enter() -> Result<Network, String> {
    run("-V").map_err(|why| format!("ip (iproute2): {why}"))?;
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("a network namespace: {error}"))?;
    let process = std::process::id();
    let mut candidates = (0..NETWORKS).map(|n| Network((process + n) % NETWORKS));
    let network = loop {
        let network = candidates.next().ok_or("no network is free")?;
        let outer = network.outer();
        let pair = format!("link add {INNER} type veth peer name {outer} netns {process}");
        match run(&pair) {
            Ok(()) => break network,
            Err(why) if why.contains("File exists") => {}
            Err(why) => return Err(why),
        }
    };
    run(&format!(
        "addr add {}/30 dev {INNER}",
        network.inner_address()
    ))?;
    run(&format!("link set {INNER} up"))?;
    Ok(network)
}

/// Runs `ip` where the calling thread is.
fn run(arguments: &str) -> Result<(), String> {
    let ended = Command::new("ip").args(arguments.split(' ')).output();
    let output = ended.map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Passes bytes to the socket of the server, and runs the jobs, until their sender is dropped.
fn serve(
    network: Network,
    socket: &Path,
    mut jobs: UnboundedReceiver<Job>,
    started: &Sender<Result<Network, String>>,
) {
    let runtime = runtime::Builder::new_current_thread().enable_io().build();
    runtime.unwrap().block_on(async {
        let listener = TcpListener::bind((network.inner_address(), PORT)).await;
        let listener = listener.unwrap();
        started.send(Ok(network)).unwrap();
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                job = jobs.recv() => match job {
                    Some(job) => {
                        run(&job.arguments).unwrap();
                        let _ = job.done.send(());
                    }
                    None => return,
                },
                accepted = listener.accept() => {
                    if let Ok((client, _)) = accepted {
                        connections.spawn(pass(client, socket.to_owned()));
                    }
                }
            }
        }
    });
}

/// Passes the bytes of one connection. Without the server, the client is disconnected.
async fn pass(mut client: TcpStream, socket: PathBuf) {
    if let Ok(mut server) = UnixStream::connect(socket).await {
        let _ = client.set_nodelay(true);
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}
