//! `SHOW CLIENTS`, `SERVERS`, `SOCKETS` and `ACTIVE_SOCKETS`. Console sessions are not listed.

use super::hosts::{ShowsHost, host_columns};
use super::named_pools::with_replicas;
use super::utc::format_utc;
use crate::console::table::ColumnType::{Int4, Text};
use crate::console::table::{ConsoleColumn, ConsoleTable, zero};
use paceline_cluster::{HostStatus, Lag};
use paceline_net::{Cipher, Peer};
use paceline_pool::pool::{Pool, PoolName};
use paceline_pool::replication::Replication;
use paceline_pool::server::{ServerInfo, ServerSnapshot};
use paceline_proxy::cancel::{ClientActivity, ClientEntry};
use paceline_proxy::client_info::application_name;
use paceline_proxy::proxy::Proxy;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub(super) static CLIENTS: ConsoleTable<ConnectionRecord> =
    ConsoleTable::new("clients", &[COLUMNS, CLIENT_COLUMNS], |proxy| {
        clients(proxy, &all_servers(proxy))
    });

pub(super) static SERVERS: ConsoleTable<ConnectionRecord> = ConsoleTable::new(
    "servers",
    &[COLUMNS, SERVER_COLUMNS, &[COMPRESSION]],
    |proxy| servers(proxy, &all_servers(proxy)),
);

pub(super) static SOCKETS: ConsoleTable<ConnectionRecord> =
    ConsoleTable::new("sockets", &[COLUMNS, BUFFER_COLUMNS], sockets);

pub(super) static ACTIVE_SOCKETS: ConsoleTable<ConnectionRecord> =
    ConsoleTable::new("active_sockets", &[COLUMNS, BUFFER_COLUMNS], active_sockets);

/// The columns of all four tables.
const COLUMNS: &[ConsoleColumn<ConnectionRecord>] = &[
    ("type", Text, |r| r.side.into()),
    ("user", Text, |r| r.user.clone().into()),
    ("database", Text, |r| r.database.clone().into()),
    ("replication", Text, |r| r.replication.into()),
    ("state", Text, |r| r.state.into()),
    ("addr", Text, |r| ends(&r.peer)[0].0.clone().into()),
    ("port", Int4, |r| ends(&r.peer)[0].1.into()),
    ("local_addr", Text, |r| ends(&r.peer)[1].0.clone().into()),
    ("local_port", Int4, |r| ends(&r.peer)[1].1.into()),
    ("connect_time", Text, |r| format_utc(r.connected).into()),
    ("request_time", Text, |r| format_utc(r.requested).into()),
    ("wait", Int4, |r| r.wait.as_secs().into()),
    ("wait_us", Int4, |r| r.wait.subsec_micros().into()),
    ("close_needed", Int4, |r| r.close_needed.into()),
    ("ptr", Text, |r| pointer(r.address).into()),
    ("link", Text, |r| {
        r.link.map_or_else(String::new, pointer).into()
    }),
    ("remote_pid", Int4, |r| r.process.into()),
    ("tls", Text, |r| r.cipher.map_or("", Cipher::name).into()),
    ("application_name", Text, |r| {
        r.application_name.clone().into()
    }),
    ("prepared_statements", Int4, |r| r.prepared.into()),
    ("id", Int4, |r| r.id.into()),
];

/// Not in PgBouncer.
const CLIENT_COLUMNS: &[ConsoleColumn<ConnectionRecord>] = &[
    ("server_pid", Int4, |r| r.server_process.into()),
    COMPRESSION,
];

/// Not in PgBouncer.
const SERVER_COLUMNS: &[ConsoleColumn<ConnectionRecord>] = &host_columns();

/// Not in PgBouncer.
const COMPRESSION: ConsoleColumn<ConnectionRecord> = ("compression", Text, |r| {
    if r.compressed { "zstd" } else { "" }.into()
});

/// Contents of PgBouncer's buffers. Paceline does not read sockets ahead.
const BUFFER_COLUMNS: &[ConsoleColumn<ConnectionRecord>] = &[
    ("recv_pos", Int4, zero),
    ("pkt_pos", Int4, zero),
    ("pkt_remain", Int4, zero),
    ("send_pos", Int4, zero),
    ("send_remain", Int4, zero),
    ("pkt_avail", Int4, zero),
    ("send_avail", Int4, zero),
];

/// A connection of a client or to a server.
#[derive(Debug)]
pub(super) struct ConnectionRecord {
    /// `C` or `S`.
    side: &'static str,
    user: String,
    database: String,
    replication: &'static str,
    state: &'static str,
    is_active: bool,
    peer: Peer,
    /// In seconds since 1970, as `requested`.
    connected: u32,
    requested: u32,
    wait: Duration,
    /// An address in memory that identifies the connection.
    address: usize,
    /// The address of the connection at the other end of a relay.
    link: Option<usize>,
    process: u32,
    /// The process of the client's server connection; 0 if it has none.
    server_process: u32,
    application_name: String,
    prepared: u32,
    id: u32,
    /// `None`: not encrypted.
    cipher: Option<Cipher>,
    compressed: bool,
    /// The connection is replaced when it becomes free.
    close_needed: bool,
    /// The host of a server connection, if its database has several.
    host: Option<HostStatus>,
}

impl ShowsHost for ConnectionRecord {
    fn host(&self) -> Option<&HostStatus> {
        self.host.as_ref()
    }

    fn lag(&self) -> Lag {
        self.host
            .as_ref()
            .map_or_else(Lag::default, |host| host.lag)
    }
}

/// A server connection and its pool.
struct ListedServer {
    name: PoolName,
    pool: Arc<Pool>,
    seen: ServerSnapshot,
}

/// A server connection: its pool and its process.
type ServerKey = (*const Pool, u32);

/// The clients that relay, by server connection.
type RelayingClients = HashMap<ServerKey, Arc<ClientEntry>>;

fn sockets(proxy: &Proxy) -> Vec<ConnectionRecord> {
    let listed = all_servers(proxy);
    let mut records = clients(proxy, &listed);
    records.extend(servers(proxy, &listed));
    for record in &mut records {
        record.state = socket_state(record);
    }
    records
}

fn active_sockets(proxy: &Proxy) -> Vec<ConnectionRecord> {
    let mut records = sockets(proxy);
    records.retain(|record| record.is_active);
    records
}

fn socket_state(record: &ConnectionRecord) -> &'static str {
    match (record.side, record.state) {
        ("C", "waiting") => "cl_waiting",
        ("C", _) => "cl_active",
        (_, "idle") => "sv_idle",
        _ => "sv_active",
    }
}

fn all_servers(proxy: &Proxy) -> Vec<ListedServer> {
    let mut servers = Vec::new();
    for (name, pool) in with_replicas(proxy) {
        servers.extend(pool.servers().into_iter().map(|seen| ListedServer {
            name: name.clone(),
            pool: Arc::clone(&pool),
            seen,
        }));
    }
    servers
}

fn relaying_clients(proxy: &Proxy) -> RelayingClients {
    let clients = proxy.cancel_keys.all().into_iter();
    let relaying = clients.filter_map(|(_, client)| match client.activity() {
        ClientActivity::Relaying(process) => {
            Some(((Arc::as_ptr(&client.info.pool), process), client))
        }
        ClientActivity::Idle | ClientActivity::Waiting(_) | ClientActivity::InGroup => None,
    });
    relaying.collect()
}

fn clients(proxy: &Proxy, servers: &[ListedServer]) -> Vec<ConnectionRecord> {
    let by_key: HashMap<ServerKey, &Arc<ServerInfo>> = servers
        .iter()
        .map(|s| ((Arc::as_ptr(&s.pool), s.seen.info.process), &s.seen.info))
        .collect();
    let clients = proxy.cancel_keys.all().into_iter();
    clients
        .map(|(id, client)| client_record(id, &client, &by_key))
        .collect()
}

fn client_record(
    id: u32,
    client: &Arc<ClientEntry>,
    servers: &HashMap<ServerKey, &Arc<ServerInfo>>,
) -> ConnectionRecord {
    let info = &client.info;
    let name = info.pool.name.get().cloned();
    let (database, user) = name.map_or_else(Default::default, |name| (name.database, name.user));
    let seen = client.activity();
    let (state, wait) = match seen {
        ClientActivity::Idle => ("idle", Duration::ZERO),
        ClientActivity::Waiting(since) => ("waiting", since.elapsed()),
        ClientActivity::Relaying(_) | ClientActivity::InGroup => ("active", Duration::ZERO),
    };
    let server_process = match seen {
        ClientActivity::Relaying(process) => Some(process),
        ClientActivity::Idle | ClientActivity::Waiting(_) | ClientActivity::InGroup => None,
    };
    let server =
        server_process.and_then(|process| servers.get(&(Arc::as_ptr(&info.pool), process)));
    ConnectionRecord {
        side: "C",
        user,
        database,
        replication: Replication::name(info.replication),
        state,
        is_active: !matches!(seen, ClientActivity::Idle),
        peer: info.peer.clone(),
        connected: info.since,
        requested: info.requested(),
        wait,
        address: Arc::as_ptr(client).addr(),
        link: server.map(|info| Arc::as_ptr(info).addr()),
        process: info.peer.process(),
        server_process: server_process.unwrap_or_default(),
        application_name: application_of(client),
        prepared: info.prepared(),
        id,
        cipher: info.cipher,
        compressed: info.compressed,
        close_needed: false,
        host: None,
    }
}

fn application_of(client: &ClientEntry) -> String {
    let settings = client.settings();
    settings.map_or_else(String::new, |settings| application_name(&settings))
}

fn servers(proxy: &Proxy, servers: &[ListedServer]) -> Vec<ConnectionRecord> {
    let clients = relaying_clients(proxy);
    let record = |server: &ListedServer| server_record(server, &clients);
    servers.iter().map(record).collect()
}

fn server_record(server: &ListedServer, clients: &RelayingClients) -> ConnectionRecord {
    let info = &server.seen.info;
    let client = clients.get(&(Arc::as_ptr(&server.pool), info.process));
    let client = client.filter(|_| !server.seen.idle);
    ConnectionRecord {
        side: "S",
        user: server.pool.address().user.clone(),
        database: server.name.database.clone(),
        replication: Replication::name(info.replication),
        state: if server.seen.idle { "idle" } else { "active" },
        is_active: !server.seen.idle,
        peer: info.peer.clone(),
        connected: info.connected(),
        requested: info.requested(),
        wait: Duration::ZERO,
        address: Arc::as_ptr(info).addr(),
        link: client.map(|client| Arc::as_ptr(client).addr()),
        process: info.process,
        server_process: 0,
        application_name: client.map_or_else(String::new, |client| application_of(client)),
        prepared: info.prepared(),
        id: server.seen.id,
        cipher: info.cipher,
        compressed: info.compressed,
        close_needed: server.seen.close_needed,
        host: host_of(server),
    }
}

fn host_of(server: &ListedServer) -> Option<HostStatus> {
    let address = server.seen.address.as_ref()?;
    server.pool.hosts()?.status_at(&address.upstream)
}

fn pointer(address: usize) -> String {
    format!("{address:#x}")
}

/// Address and port of the other end and of this end.
fn ends(peer: &Peer) -> [(String, u16); 2] {
    match peer {
        Peer::Unix { .. } => [(); 2].map(|()| ("unix".to_owned(), 0)),
        Peer::Disconnected => [(); 2].map(|()| (String::new(), 0)),
        Peer::V4(both) => both.map(|end| (end.ip().to_string(), end.port())),
        Peer::V6(both) => both.map(|end| (end.ip().to_canonical().to_string(), end.port())),
    }
}
