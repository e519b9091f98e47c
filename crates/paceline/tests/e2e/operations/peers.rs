//! Peers: a cancel request that reaches another process than its client has is passed on to the right one, by PgBouncer's key.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::console::row;
use crate::harness::cluster::{self, Cluster};
use crate::harness::message::{cancel_request, query};
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::{caretaker, until};

/// Processes that are each other's peers, numbered from 1 on.
struct Group {
    cluster: Arc<Cluster>,
    database: String,
    peers: Vec<Paceline>,
}

/// The text of a configuration: this process, and its peers, each with its host and port.
fn text(cluster: &Cluster, own: usize, more: &str, peers: &[(usize, String, u16)]) -> String {
    let mut text = format!(
        "[paceline]\npeer_id = {own}\nadmin_users = \"boss\"\n{more}\n[databases.\"*\"]\nprimary = \"postgres://127.0.0.1:{}\"\n",
        cluster.port()
    );
    for (id, host, port) in peers {
        text.push_str(&format!("[peers.{id}]\nhost = \"{host}\"\nport = {port}\n"));
    }
    text
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Group {
    /// On nodes of their own: each has an address that no other has. `None` when PostgreSQL is the target.
    fn of_nodes(count: usize, more: &str) -> Option<Self> {
        let ports: Vec<u16> = (0..count).map(|_| free_port()).collect();
        Self::start(more, &ports, |number| {
            ("127.0.0.1".to_owned(), ports[number])
        })
    }

    /// At one address, each with a Unix socket of its own besides.
    fn at_one_port(count: usize) -> Option<Self> {
        let port = free_port();
        let folders: Vec<PathBuf> = (0..count).map(|_| caretaker::folder("q")).collect();
        let more = |number: usize| format!("unix_socket_dir = \"{}\"\n", folders[number].display());
        let ports = vec![port; count];
        Self::start_each(
            &ports,
            |number| format!("so_reuseport = true\n{}", more(number)),
            |number| (folders[number].display().to_string(), port),
        )
    }

    fn start(more: &str, ports: &[u16], at: impl Fn(usize) -> (String, u16)) -> Option<Self> {
        Self::start_each(ports, |_| more.to_owned(), at)
    }

    fn start_each(
        ports: &[u16],
        more: impl Fn(usize) -> String,
        at: impl Fn(usize) -> (String, u16),
    ) -> Option<Self> {
        if Target::chosen() == Target::Bare {
            return None;
        }
        let cluster = cluster::shared();
        let peers: Vec<_> = (0..ports.len())
            .map(|number| {
                let (host, port) = at(number);
                (number + 1, host, port)
            })
            .collect();
        let started = ports.iter().enumerate().map(|(number, port)| {
            let text = text(&cluster, number + 1, &more(number), &peers);
            Paceline::configured(&text).at(*port).spawn()
        });
        Some(Self {
            peers: started.collect(),
            database: cluster.database(),
            cluster,
        })
    }

    /// A client of the process with this number.
    #[track_caller]
    fn client(&self, number: usize) -> RawClient {
        let parameters = [("user", "postgres"), ("database", &*self.database)];
        RawClient::connect(self.peers[number - 1].port(), &parameters)
    }

    #[track_caller]
    fn console(&self, number: usize) -> RawClient {
        let parameters = [("user", "boss"), ("database", "pgbouncer")];
        RawClient::connect(self.peers[number - 1].port(), &parameters)
    }

    /// Begins a statement that only a cancel request ends.
    #[track_caller]
    fn sleep(&self, client: &mut RawClient) {
        client.send(&query("SELECT pg_sleep(600)"));
        let mut observer = self.cluster.client(&self.database);
        until("it sleeps", || {
            observer.number(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'",
            ) == 1
        });
    }
}

/// Sends the request to this port; the other side closes the connection when it has done what it can.
#[track_caller]
fn cancel_at(port: u16, key: &[u8]) {
    let mut other = RawClient::open(port);
    let pid = u32::from_be_bytes(key[..4].try_into().unwrap());
    other.send(&cancel_request(pid, &key[4..]));
    assert!(other.receive_to_end().is_empty());
}

#[test]
fn a_cancel_request_finds_its_client_on_another_node() {
    for count in [2, 3] {
        let Some(group) = Group::of_nodes(count, "") else {
            return;
        };
        let mut client = group.client(1);
        assert_eq!(client.key[1..3], [1, 0]);
        for wrong in (1..=count).rev() {
            group.sleep(&mut client);
            cancel_at(group.peers[wrong - 1].port(), &client.key);
            client.reply().expect_error("57014");
        }
        // A request with another secret cancels nothing.
        client.send(&query("SELECT 7"));
        let mut key = client.key.clone();
        key[4] ^= 1;
        cancel_at(group.peers[1].port(), &key);
        assert_eq!(client.reply().value(), "7");
    }
}

/// The system chooses the process that gets the request.
#[test]
fn a_cancel_request_finds_its_client_at_a_shared_port() {
    for count in [2, 3] {
        let Some(group) = Group::at_one_port(count) else {
            return;
        };
        let mut clients: Vec<RawClient> = (0..4).map(|_| group.client(1)).collect();
        for round in 0..12 {
            let client = &mut clients[round % 4];
            group.sleep(client);
            client.cancel();
            client.reply().expect_error("57014");
        }
        let processes: Vec<u8> = clients.iter().map(|client| client.key[1]).collect();
        assert!(
            processes
                .iter()
                .all(|id| (1..=count).contains(&usize::from(*id)))
        );
    }
}

/// Clients that were here before the process had a number keep their keys.
#[test]
fn a_process_that_is_given_a_number_knows_older_keys() {
    let Some(mut group) = Group::of_nodes(1, "") else {
        return;
    };
    let with = text(&group.cluster, 1, "", &[]);
    let without = text(&group.cluster, 0, "", &[]);
    for (reload, is_of_peer) in [(&without, true), (&with, false), (&without, true)] {
        let mut client = group.client(1);
        assert_eq!(
            client.key[1..3] == [1, 0] && client.key[7] & 3 == 3,
            is_of_peer
        );
        group.peers[0].reload(reload, "configuration");
        group.sleep(&mut client);
        cancel_at(group.peers[0].port(), &client.key);
        client.reply().expect_error("57014");
    }
    assert!(group.peers[0].runs());
}

/// The peer receives the client's request with a hop count that is one less, and at most `pool_size` requests at a time.
#[test]
fn a_request_is_passed_on_as_pgbouncer_expects_it() {
    let Some(group) = Group::of_nodes(1, "") else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let more = "server_tls_sslmode = \"disable\"";
    let mut text = text(
        &group.cluster,
        1,
        more,
        &[(300, "127.0.0.1".to_owned(), port)],
    );
    text.push_str("pool_size = 1\n");
    let process = Paceline::configured(&text).spawn();
    let key = [9, 44, 1, 8, 7, 6, 5, 4 | 3];
    let request = |key: &[u8; 8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", process.port())).unwrap();
        let [a, b, c, d, rest @ ..] = *key;
        let pid = u32::from_be_bytes([a, b, c, d]);
        stream.write_all(&cancel_request(pid, &rest)).unwrap();
        stream
    };
    let mut console = RawClient::connect(
        process.port(),
        &[("user", "boss"), ("database", "pgbouncer")],
    );
    let first = request(&key);
    let mut taken = accepted(&listener);
    assert_eq!(read_request(&mut taken), [9, 44, 1, 8, 7, 6, 5, 4 | 2]);
    let second = request(&[9, 44, 1, 8, 7, 6, 5, 4 | 1]);
    until("the second request waits", || {
        console.ok("SHOW PEER_POOLS").rows() == [values(["300", "1", "1", "1", "0"])]
    });
    drop(taken);
    closed(first);
    let mut taken = accepted(&listener);
    assert_eq!(read_request(&mut taken), [9, 44, 1, 8, 7, 6, 5, 4]);
    drop(taken);
    closed(second);
    // It has been passed on three times.
    closed(request(&[9, 44, 1, 8, 7, 6, 5, 4]));
    // Of no peer, and of itself.
    closed(request(&[9, 45, 1, 8, 7, 6, 5, 7]));
    closed(request(&[9, 1, 0, 8, 7, 6, 5, 7]));
    assert!(listener.accept().is_err());
    let host = ["300", "127.0.0.1", &port.to_string(), "1"].map(str::to_owned);
    assert_eq!(console.ok("SHOW PEERS").rows(), [host.map(Some)]);
    let lists = console.ok("SHOW LISTS").rows();
    for name in ["peers", "peer_pools"] {
        assert!(lists.contains(&values([name, "1"])), "{lists:?}");
    }
}

fn values<const N: usize>(row: [&str; N]) -> Vec<Option<String>> {
    row.map(|value| Some(value.to_owned())).to_vec()
}

/// The next connection.
#[track_caller]
fn accepted(listener: &TcpListener) -> TcpStream {
    let mut taken = None;
    until("the request reaches the peer", || {
        taken = listener.accept().ok();
        taken.is_some()
    });
    let (stream, _) = taken.unwrap();
    stream.set_nonblocking(false).unwrap();
    stream
}

/// The key in the next CancelRequest.
fn read_request(stream: &mut TcpStream) -> [u8; 8] {
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut packet = [0; 16];
    stream.read_exact(&mut packet).unwrap();
    assert_eq!(packet[..8], [0, 0, 0, 16, 4, 210, 22, 46]);
    packet[8..].try_into().unwrap()
}

/// The other side closes the connection.
fn closed(mut stream: TcpStream) {
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

/// A peer that does not answer delays a client for at most `cancel_wait_timeout`; one that does not run, not at all.
#[test]
fn a_peer_that_is_away_is_given_up() {
    let Some(group) = Group::of_nodes(1, "") else {
        return;
    };
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    let peers = [
        (2, "127.0.0.1".to_owned(), silent_port),
        (3, "127.0.0.1".to_owned(), free_port()),
        (4, "/nowhere".to_owned(), 6432),
    ];
    let text = text(&group.cluster, 1, "cancel_wait_timeout = \"1s\"", &peers);
    let process = Paceline::configured(&text).spawn();
    for peer in 2..=4 {
        cancel_at(process.port(), &[1, peer, 0, 1, 1, 1, 1, 3]);
    }
}

/// Two processes that take each other for the client's own pass the request on three times, not for ever.
#[test]
fn a_request_does_not_go_round_for_ever() {
    let ports = [free_port(), free_port()];
    let more = "cancel_wait_timeout = 0";
    if Target::chosen() == Target::Bare {
        return;
    }
    let cluster = cluster::shared();
    let started = [(1, ports[0], ports[1]), (2, ports[1], ports[0])].map(|(own, port, other)| {
        let text = text(&cluster, own, more, &[(9, "127.0.0.1".to_owned(), other)]);
        Paceline::configured(&text).at(port).spawn()
    });
    for process in &started {
        cancel_at(process.port(), &[1, 9, 0, 1, 1, 1, 1, 3]);
    }
}

/// A console session that waits is cancelled by a cancel request, which another process may get; so is a replication client.
#[test]
fn operators_and_replication_clients_are_found_too() {
    let Some(group) = Group::of_nodes(2, "") else {
        return;
    };
    let mut client = group.client(1);
    client.ok("BEGIN");
    let mut operator = group.console(1);
    operator.send(&query(&format!("PAUSE {}", group.database)));
    until("the pause has begun", || {
        let mut console = group.console(1);
        row(&mut console, "SHOW DATABASES", "name", &group.database)["paused"] == "1"
    });
    cancel_at(group.peers[1].port(), &operator.key);
    operator.reply().expect_error("57014");
    client.ok("COMMIT");
    let parameters = [
        ("user", "postgres"),
        ("database", &*group.database),
        ("replication", "database"),
    ];
    let mut replica = RawClient::connect(group.peers[0].port(), &parameters);
    group.sleep(&mut replica);
    cancel_at(group.peers[1].port(), &replica.key);
    replica.reply().expect_error("57014");
}

/// Numbers of clients stay those by which operators find them, though the process ids of peers' keys are no numbers.
#[test]
fn operators_find_clients_with_keys_of_peers() {
    let Some(group) = Group::of_nodes(1, "") else {
        return;
    };
    let mut clients: Vec<RawClient> = (0..50).map(|_| group.client(1)).collect();
    let mut operator = group.console(1);
    let shown = operator.ok("SHOW CLIENTS");
    let described = shown.0.iter().find(|message| message.tag == b'T').unwrap();
    let place = described
        .columns()
        .iter()
        .position(|name| name == "id")
        .unwrap();
    let mut ids: Vec<Option<String>> = shown.rows().iter().map(|row| row[place].clone()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 50);
    let id = ids[0].as_ref().unwrap();
    operator.ok(&format!("KILL_CLIENT {id}"));
    let mut killed = 0;
    for client in &mut clients {
        let sent = client.try_send(&query("SELECT 1"));
        let mut is_told = || client.try_receive().is_ok_and(|first| first.tag == b'E');
        killed += usize::from(sent.is_err() || is_told());
    }
    assert_eq!(killed, 1);
}

/// A `pgbouncer.ini` with peers, as its users have them.
#[test]
fn peers_of_a_pgbouncer_ini_count() {
    if Target::chosen() == Target::Bare {
        return;
    }
    let cluster = cluster::shared();
    let folder = caretaker::folder("i");
    let ports = [free_port(), free_port()];
    let started = [1, 2].map(|own| ini(&folder, &cluster, own, &ports));
    let parameters = [("user", "postgres"), ("database", "postgres")];
    let mut client = RawClient::connect(started[0].port(), &parameters);
    client.send(&query("SELECT pg_sleep(600), 'ini'"));
    let mut observer = cluster.client("postgres");
    until("it sleeps", || {
        observer.number(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%600), ''ini''%'",
        ) == 1
    });
    cancel_at(started[1].port(), &client.key);
    client.reply().expect_error("57014");
}

fn ini(folder: &Path, cluster: &Cluster, own: usize, ports: &[u16]) -> Paceline {
    let file = folder.join(format!("{own}.ini"));
    let text = format!(
        "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nauth_type = trust\nunix_socket_dir =\nlisten_addr = 127.0.0.1\npeer_id = {own}\n[peers]\n1 = host=127.0.0.1 port={}\n2 = host=127.0.0.1 port={}\n",
        cluster.port(),
        ports[0],
        ports[1]
    );
    std::fs::write(&file, text).unwrap();
    Paceline::with_file(&file).at(ports[own - 1]).spawn()
}
