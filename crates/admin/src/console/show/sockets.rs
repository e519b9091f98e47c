//! `SHOW CLIENTS`, `SERVERS`, `SOCKETS` and `ACTIVE_SOCKETS`. Sessions of the console itself are not listed.

use super::named_pools::named_pools;
use crate::console::table::{Columns, Row, Value};
use paceline_net::Cipher;
use paceline_net::Peer;
use paceline_pool::pool::{Pool, PoolName};
use paceline_pool::replication::Replication;
use paceline_pool::server::{ServerInfo, ServerSnapshot};
use paceline_pool::stats::micros;
use paceline_proxy::cancel::{ClientActivity, ClientEntry};
use paceline_proxy::client_info::application_name;
use paceline_proxy::proxy::Proxy;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

macro_rules! socket_columns {
    ($($more:literal),*) => {
        &[
            "type", "user", "database", "replication", "state", "addr", "port", "local_addr",
            "local_port", "connect_time", "request_time", "wait", "wait_us", "close_needed", "ptr",
            "link", "remote_pid", "tls", "application_name", "prepared_statements", "id", $($more),*
        ]
    };
}

pub(super) const COLUMNS: Columns = Columns {
    kinds: "ssssssisissiiississii",
    names: socket_columns![],
};

/// PgBouncer has no column for the process of a client's server.
pub(super) const CLIENT_COLUMNS: Columns = Columns {
    kinds: "ssssssisissiiississiii",
    names: socket_columns!["server_pid"],
};

pub(super) const DEBUG_COLUMNS: Columns = Columns {
    kinds: "ssssssisissiiississiiiiiiiii",
    names: socket_columns![
        "recv_pos",
        "pkt_pos",
        "pkt_remain",
        "send_pos",
        "send_remain",
        "pkt_avail",
        "send_avail"
    ],
};

/// PgBouncer tells what stands in its buffers; here sockets are not read ahead.
const DEBUG_VALUES: usize = 7;

const MICROS: u64 = 1_000_000;

/// A connection, before it is a row.
#[derive(Debug)]
struct Socket {
    kind: &'static str,
    user: String,
    database: String,
    replication: &'static str,
    state: &'static str,
    /// It is at work, or waits to be.
    is_active: bool,
    peer: Peer,
    connected: u32,
    requested: u32,
    wait: Duration,
    address: usize,
    link: Option<usize>,
    process: u32,
    /// Of the server connection that a client is on; 0: it is on none.
    server_process: u32,
    application_name: String,
    prepared: u32,
    id: u32,
    /// It is encrypted so.
    cipher: Option<Cipher>,
    /// It is replaced when it is free.
    close_needed: bool,
}

/// A server connection and its pool.
struct Server {
    name: PoolName,
    pool: Arc<Pool>,
    seen: ServerSnapshot,
}

/// Clients by the server connection that they relay on.
type Riders = HashMap<(*const Pool, u32), Arc<ClientEntry>>;

pub(super) fn clients(proxy: &Proxy) -> Vec<Row> {
    let sockets = all_clients(proxy, &all_servers(proxy));
    let row = |socket: Socket| {
        let server_process = socket.server_process;
        let mut row = socket.into_row();
        row.push(server_process.into());
        row
    };
    sockets.into_iter().map(row).collect()
}

pub(super) fn servers(proxy: &Proxy) -> Vec<Row> {
    let riders = riders(proxy);
    let servers = all_servers(proxy);
    let sockets = servers.iter().map(|server| of_server(server, &riders));
    sockets.map(Socket::into_row).collect()
}

pub(super) fn sockets(proxy: &Proxy) -> Vec<Row> {
    debug_rows(proxy, |_| true)
}

pub(super) fn active_sockets(proxy: &Proxy) -> Vec<Row> {
    debug_rows(proxy, |socket| socket.is_active)
}

fn debug_rows(proxy: &Proxy, wanted: impl Fn(&Socket) -> bool) -> Vec<Row> {
    let riders = riders(proxy);
    let servers = all_servers(proxy);
    let of_servers = servers.iter().map(|server| of_server(server, &riders));
    let all = all_clients(proxy, &servers).into_iter().chain(of_servers);
    all.filter(|socket| wanted(socket))
        .map(Socket::into_debug_row)
        .collect()
}

fn all_servers(proxy: &Proxy) -> Vec<Server> {
    let mut servers = Vec::new();
    for (name, pool) in named_pools(proxy) {
        servers.extend(pool.servers().into_iter().map(|seen| Server {
            name: name.clone(),
            pool: Arc::clone(&pool),
            seen,
        }));
    }
    servers
}

fn riders(proxy: &Proxy) -> Riders {
    let clients = proxy.cancel_keys.all().into_iter();
    let relaying = clients.filter_map(|(_, client)| match client.activity() {
        ClientActivity::Relaying(process) => {
            Some(((Arc::as_ptr(&client.info.pool), process), client))
        }
        ClientActivity::Idle | ClientActivity::Waiting(_) | ClientActivity::InGroup => None,
    });
    relaying.collect()
}

fn all_clients(proxy: &Proxy, servers: &[Server]) -> Vec<Socket> {
    let by_process: HashMap<(*const Pool, u32), &Arc<ServerInfo>> = servers
        .iter()
        .map(|s| ((Arc::as_ptr(&s.pool), s.seen.info.process), &s.seen.info))
        .collect();
    let clients = proxy.cancel_keys.all().into_iter();
    clients
        .map(|(id, client)| {
            let seen = client.activity();
            let link = match seen {
                ClientActivity::Relaying(process) => {
                    let ridden = by_process.get(&(Arc::as_ptr(&client.info.pool), process));
                    ridden.map(|info| Arc::as_ptr(info).addr())
                }
                ClientActivity::Idle | ClientActivity::Waiting(_) | ClientActivity::InGroup => None,
            };
            of_client(id, &client, &seen, link)
        })
        .collect()
}

fn of_client(
    id: u32,
    client: &Arc<ClientEntry>,
    seen: &ClientActivity,
    link: Option<usize>,
) -> Socket {
    let info = &client.info;
    let name = info.pool.name.get().cloned();
    let (database, user) = name.map_or_else(Default::default, |name| (name.database, name.user));
    let (state, wait) = match seen {
        ClientActivity::Idle => ("idle", Duration::ZERO),
        ClientActivity::Waiting(since) => ("waiting", since.elapsed()),
        ClientActivity::Relaying(_) | ClientActivity::InGroup => ("active", Duration::ZERO),
    };
    Socket {
        kind: "C",
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
        link,
        process: info.peer.process(),
        server_process: match seen {
            ClientActivity::Relaying(process) => *process,
            ClientActivity::Idle | ClientActivity::Waiting(_) | ClientActivity::InGroup => 0,
        },
        application_name: application_of(client),
        prepared: info.prepared(),
        id,
        cipher: info.cipher,
        close_needed: false,
    }
}

fn application_of(client: &ClientEntry) -> String {
    let settings = client.settings();
    settings.map_or_else(String::new, |settings| application_name(&settings))
}

fn of_server(server: &Server, riders: &Riders) -> Socket {
    let info = &server.seen.info;
    let rider = riders.get(&(Arc::as_ptr(&server.pool), info.process));
    let rider = rider.filter(|_| !server.seen.idle);
    Socket {
        kind: "S",
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
        link: rider.map(|rider| Arc::as_ptr(rider).addr()),
        process: info.process,
        server_process: 0,
        application_name: rider.map_or_else(String::new, |rider| application_of(rider)),
        prepared: info.prepared(),
        id: server.seen.id,
        cipher: info.cipher,
        close_needed: server.seen.close_needed,
    }
}

impl Socket {
    fn into_row(self) -> Row {
        let [(addr, port), (local_addr, local_port)] = both_ends(&self.peer);
        let wait = micros(self.wait);
        vec![
            self.kind.into(),
            self.user.into(),
            self.database.into(),
            self.replication.into(),
            self.state.into(),
            addr.into(),
            u32::from(port).into(),
            local_addr.into(),
            u32::from(local_port).into(),
            utc(self.connected).into(),
            utc(self.requested).into(),
            (wait / MICROS).into(),
            (wait % MICROS).into(),
            u64::from(self.close_needed).into(),
            pointer(self.address).into(),
            self.link.map_or_else(String::new, pointer).into(),
            self.process.into(),
            self.cipher.map_or("", Cipher::name).into(),
            self.application_name.into(),
            self.prepared.into(),
            self.id.into(),
        ]
    }

    fn into_debug_row(mut self) -> Row {
        self.state = match (self.kind, self.state) {
            ("C", "waiting") => "cl_waiting",
            ("C", _) => "cl_active",
            (_, "idle") => "sv_idle",
            _ => "sv_active",
        };
        let mut row = self.into_row();
        row.extend((0..DEBUG_VALUES).map(|_| Value::from(0_u64)));
        row
    }
}

fn pointer(address: usize) -> String {
    format!("{address:#x}")
}

/// The other end and this one: address and port.
fn both_ends(peer: &Peer) -> [(String, u16); 2] {
    match peer {
        Peer::Unix { .. } => [(); 2].map(|()| ("unix".to_owned(), 0)),
        Peer::Disconnected => [(); 2].map(|()| (String::new(), 0)),
        Peer::V4(both) => both.map(|end| (end.ip().to_string(), end.port())),
        Peer::V6(both) => both.map(|end| {
            let ip: IpAddr = end.ip().to_canonical();
            (ip.to_string(), end.port())
        }),
    }
}

/// Seconds since 1970 as a date and time, like `2026-11-21 22:00:00 UTC`.
pub(in crate::console) fn utc(seconds: u32) -> String {
    let (days, rest) = (i64::from(seconds / 86_400), seconds % 86_400);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    // Years begin in March here, so that the day that some years have more is their last; eras have 400 years.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}
