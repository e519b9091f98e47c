//! Three servers that Patroni runs, with etcd, both as Debian packages them.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{ADD, SETUP};
use crate::harness::caretaker::{self, Adopted, signal};
use crate::harness::load::Load;
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::wait::LIMIT;
use crate::harness::{skipped, until};

/// The user as which PostgreSQL and Patroni run if the tests run as root.
const ACCOUNT: &str = "postgres";

const NODES: usize = 3;

/// A server, and the Patroni that runs it.
struct Node {
    name: String,
    postgres: u16,
    rest: u16,
    data: PathBuf,
    patroni: Running,
}

/// A process that ends with the test.
struct Running {
    child: Child,
    _adopted: Adopted,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// etcd and the nodes. The nodes end before etcd.
struct PatroniCluster {
    nodes: Vec<Node>,
    _etcd: Running,
}

impl Drop for PatroniCluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            // Patroni would start its server again.
            let _ = node.patroni.child.kill();
            if let Some(pid) = node.postmaster() {
                signal("QUIT", pid);
            }
        }
    }
}

impl Node {
    /// The process of its server, if that runs.
    fn postmaster(&self) -> Option<u32> {
        let pid = std::fs::read_to_string(self.data.join("postmaster.pid")).ok()?;
        pid.lines().next()?.parse().ok()
    }

    /// Patroni's answer to a request, with its status; empty if there is none.
    fn ask(&self, request: &str, body: &str) -> String {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.rest)) else {
            return String::new();
        };
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let length = body.len();
        let head = format!("{request} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n");
        let mut answer = String::new();
        let _ = stream.write_all((head + body).as_bytes());
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    /// Whether Patroni says that its server is the leader.
    fn is_leader(&self) -> bool {
        self.ask("GET /leader", "").contains(" 200 ")
    }
}

impl PatroniCluster {
    /// Returns when there are a leader and two replicas. `None`: a package is missing, and standard error says so.
    fn start() -> Option<Self> {
        for program in ["patroni", "etcd"] {
            if !Path::new("/usr/bin").join(program).exists() {
                skipped(&format!("{program} is not installed"));
                return None;
            }
        }
        let folder = caretaker::folder("patroni");
        let (client_port, peer_port) = (free_port(), free_port());
        let etcd = run(Command::new("etcd")
            .arg("--data-dir")
            .arg(folder.join("etcd"))
            .args(["--listen-client-urls", &url(client_port)])
            .args(["--advertise-client-urls", &url(client_port)])
            .args(["--listen-peer-urls", &url(peer_port)])
            .args(["--initial-advertise-peer-urls", &url(peer_port)])
            .args(["--initial-cluster", &format!("default={}", url(peer_port))]));
        until("etcd listens", || {
            TcpStream::connect(("127.0.0.1", client_port)).is_ok()
        });
        let nodes = (0..NODES).map(|number| start_node(&folder, number, client_port));
        let cluster = Self {
            nodes: nodes.collect(),
            _etcd: etcd,
        };
        until("Patroni has a leader", || cluster.leader().is_some());
        until("Patroni has two replicas", || {
            cluster.replicas() == NODES - 1
        });
        Some(cluster)
    }

    fn leader(&self) -> Option<usize> {
        self.nodes.iter().position(Node::is_leader)
    }

    /// The replicas that stream.
    fn replicas(&self) -> usize {
        let is_replica = |node: &&Node| node.ask("GET /replica", "").contains(" 200 ");
        self.nodes.iter().filter(is_replica).count()
    }

    /// From then on, each acknowledged commit is on a replica, too.
    fn await_synchronous_replica(&self) {
        let is_synchronous = |node: &Node| node.ask("GET /sync", "").contains(" 200 ");
        until("a replica is synchronous", || {
            self.nodes.iter().any(is_synchronous)
        });
    }

    fn client(&self, number: usize) -> RawClient {
        let parameters = [("user", "postgres"), ("database", "postgres")];
        RawClient::connect(self.nodes[number].postgres, &parameters)
    }

    /// Paceline in front of all nodes.
    fn paceline(&self) -> Paceline {
        let hosts = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.postgres));
        let rests = self.nodes.iter().map(|node| url(node.rest));
        let hosts = hosts.collect::<Vec<_>>().join(",");
        let rests = rests.collect::<Vec<_>>().join(",");
        Paceline::start(&format!("postgres://postgres@{hosts}/postgres"))
            .set("hotspot_for_autocommit=true")
            .set(&format!("patroni={rests}"))
            .spawn()
    }
}

fn start_node(folder: &Path, number: usize, etcd: u16) -> Node {
    let name = format!("n{number}");
    let (postgres, rest) = (free_port(), free_port());
    let data = folder.join(&name);
    let (bin, root) = (server_programs(), folder.display());
    let file = folder.join(format!("{name}.yml"));
    let mut text = String::new();
    let _ = write!(
        text,
        "scope: paceline
name: {name}
restapi: {{listen: '127.0.0.1:{rest}', connect_address: '127.0.0.1:{rest}'}}
etcd3: {{host: '127.0.0.1:{etcd}'}}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 1
    retry_timeout: 3
    master_start_timeout: 0
    synchronous_mode: true
    postgresql: {{use_pg_rewind: true, parameters: {{wal_log_hints: 'on', fsync: 'off'}}}}
  initdb: [{{encoding: UTF8}}, {{auth: trust}}]
postgresql:
  listen: '127.0.0.1:{postgres}'
  connect_address: '127.0.0.1:{postgres}'
  data_dir: '{data}'
  bin_dir: '{bin}'
  pgpass: '{root}/{name}.pgpass'
  authentication:
    superuser: {{username: postgres, password: secret}}
    replication: {{username: replicator, password: secret}}
  parameters: {{unix_socket_directories: '{root}', shared_buffers: 32MB}}
  pg_hba: ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust', 'local all all trust']
",
        data = data.display(),
        bin = bin.display(),
    );
    std::fs::write(&file, text).unwrap();
    let patroni = run(as_account(folder, "patroni").arg(&file));
    Node {
        name,
        postgres,
        rest,
        data,
        patroni,
    }
}

/// A command that runs as a user whom PostgreSQL accepts, and who owns the folder.
fn as_account(folder: &Path, program: &str) -> Command {
    use std::os::unix::fs::MetadataExt;
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return Command::new(program);
    }
    let own = Command::new("chown").arg(ACCOUNT).arg(folder).status();
    assert!(own.is_ok_and(|status| status.success()));
    let mut command = Command::new("setpriv");
    command.args(["--reuid", ACCOUNT, "--regid", ACCOUNT, "--clear-groups"]);
    command.args(["--reset-env", program]);
    command
}

fn server_programs() -> PathBuf {
    let installed = paceline_postgres::find_installations();
    // Newest first; Patroni needs the client programs, too.
    let complete = installed
        .iter()
        .find(|i| i.bin_dir.join("pg_rewind").exists());
    complete.unwrap().bin_dir.clone()
}

fn run(command: &mut Command) -> Running {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.stderr(Stdio::null()).spawn().unwrap();
    Running {
        _adopted: caretaker::adopt("KILL", child.id()),
        child,
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// The leader is changed by Patroni, then killed. Patroni replicates synchronously, so nothing that was acknowledged is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_goes_on_while_patroni_changes_the_leader() {
    let Some(cluster) = tokio::task::block_in_place(PatroniCluster::start) else {
        return;
    };
    let first = cluster.leader().unwrap();
    cluster.client(first).ok(SETUP);
    let paceline = cluster.paceline();
    let port = paceline.port();
    let load = Load::start(&format!("postgres://postgres@127.0.0.1:{port}/postgres"), 8);
    load.progress(200).await;
    cluster.await_synchronous_replica();
    let asked = format!(r#"{{"leader": "{}"}}"#, cluster.nodes[first].name);
    let answer = cluster.nodes[first].ask("POST /switchover", &asked);
    assert!(answer.contains(" 200 "), "{answer}");
    until("there is another leader", || {
        cluster.leader().is_some_and(|leader| leader != first)
    });
    load.progress(200).await;
    until("the old leader is a replica", || {
        cluster.replicas() == NODES - 1
    });
    load.progress(200).await;
    cluster.await_synchronous_replica();
    let second = cluster.leader().unwrap();
    // Its Patroni first: it would start the server again.
    signal("KILL", cluster.nodes[second].patroni.child.id());
    let postmaster = cluster.nodes[second].postmaster().unwrap();
    signal("KILL", postmaster);
    until("there is a third leader", || {
        cluster.leader().is_some_and(|leader| leader != second)
    });
    load.progress(200).await;
    let tally = load.stop().await;
    let last = cluster.leader().unwrap();
    tally.check(&mut cluster.client(last));
    let parameters = [("user", "postgres"), ("database", "postgres")];
    RawClient::connect(port, &parameters).ok(ADD);
}
