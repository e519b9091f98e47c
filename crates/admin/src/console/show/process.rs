//! Tables about the whole process: `SHOW LISTS`, `MEM`, `STATE`, `VERSION`, `PEERS`, `PEER_POOLS`; and `SHOW DNS_HOSTS` and
//! `DNS_ZONES`, which are always empty because Paceline has no DNS cache.

use super::{databases, pools};
use crate::console::table::ColumnType::{Int4, Int8, Text};
use crate::console::table::{ConsoleColumn, ConsoleTable, null, zero};
use crate::console::version::VERSION;
use paceline_config::{Host, Peer};
use paceline_pool::pool::{Pool, PoolState};
use paceline_pool::server::ServerConn;
use paceline_proxy::proxy::Proxy;
use std::sync::atomic::Ordering;

pub(super) static LISTS: ConsoleTable<ListRecord> =
    ConsoleTable::new("lists", &[LIST_COLUMNS], lists);

pub(super) static MEM: ConsoleTable<MemRecord> = ConsoleTable::new("mem", &[MEM_COLUMNS], mem);

pub(super) static STATE: ConsoleTable<StateRecord> =
    ConsoleTable::new("state", &[STATE_COLUMNS], state);

pub(super) static VERSION_TABLE: ConsoleTable<()> =
    ConsoleTable::new("version", &[VERSION_COLUMNS], |_| vec![()]);

pub(super) static PEERS: ConsoleTable<PeerRecord> =
    ConsoleTable::new("peers", &[PEER_COLUMNS], peers);

pub(super) static PEER_POOLS: ConsoleTable<PeerPoolRecord> =
    ConsoleTable::new("peer_pools", &[PEER_POOL_COLUMNS], peer_pools);

pub(super) static DNS_HOSTS: ConsoleTable<()> =
    ConsoleTable::new("dns_hosts", &[DNS_HOST_COLUMNS], |_| Vec::new());

pub(super) static DNS_ZONES: ConsoleTable<()> =
    ConsoleTable::new("dns_zones", &[DNS_ZONE_COLUMNS], |_| Vec::new());

const LIST_COLUMNS: &[ConsoleColumn<ListRecord>] = &[
    ("list", Text, |r| r.name.into()),
    ("items", Int4, |r| r.items.into()),
];

const MEM_COLUMNS: &[ConsoleColumn<MemRecord>] = &[
    ("name", Text, |r| r.name.into()),
    ("size", Int4, |r| r.size.into()),
    ("used", Int4, |r| r.used.into()),
    ("free", Int4, zero),
    ("memtotal", Int4, |r| (r.size * r.used).into()),
];

const STATE_COLUMNS: &[ConsoleColumn<StateRecord>] = &[
    ("key", Text, |r| r.name.into()),
    ("value", Text, |r| {
        if r.is_current { "yes" } else { "no" }.into()
    }),
];

const VERSION_COLUMNS: &[ConsoleColumn<()>] =
    &[("version", Text, |()| format!("PgBouncer {VERSION}").into())];

const PEER_COLUMNS: &[ConsoleColumn<PeerRecord>] = &[
    ("peer_id", Int4, |r| r.id.into()),
    ("host", Text, |r| r.host.clone().into()),
    ("port", Int4, |r| r.port.into()),
    ("pool_size", Int4, |r| r.pool_size.into()),
];

const PEER_POOL_COLUMNS: &[ConsoleColumn<PeerPoolRecord>] = &[
    ("peer_id", Int4, |r| r.id.into()),
    ("cl_active_cancel_req", Int4, |r| r.sent.into()),
    ("cl_waiting_cancel_req", Int4, |r| r.waiting.into()),
    ("sv_active_cancel", Int4, |r| r.sent.into()),
    ("sv_login", Int4, zero),
];

const DNS_HOST_COLUMNS: &[ConsoleColumn<()>] = &[
    ("hostname", Text, null),
    ("ttl", Int8, null),
    ("addrs", Text, null),
];

const DNS_ZONE_COLUMNS: &[ConsoleColumn<()>] = &[
    ("zonename", Text, null),
    ("serial", Int8, null),
    ("count", Int4, null),
];

pub(super) struct ListRecord {
    name: &'static str,
    items: usize,
}

fn lists(proxy: &Proxy) -> Vec<ListRecord> {
    let clients = clients(proxy);
    let logged_in = proxy.cancel_keys.all().len() + proxy.console_keys.count();
    let list = |name, items| ListRecord { name, items };
    vec![
        list("databases", (databases::DATABASES.records)(proxy).len()),
        list("users", (databases::USERS.records)(proxy).len()),
        list("peers", peers(proxy).len()),
        list("pools", (pools::POOLS.records)(proxy).len()),
        list("peer_pools", peer_pools(proxy).len()),
        list("free_clients", 0),
        list("used_clients", clients),
        list("login_clients", clients.saturating_sub(logged_in)),
        list("free_servers", 0),
        list("used_servers", servers(proxy)),
        list("dns_names", 0),
        list("dns_zones", 0),
        list("dns_queries", 0),
        list("dns_pending", 0),
    ]
}

/// The number of clients, including console sessions.
fn clients(proxy: &Proxy) -> usize {
    proxy.clients.load(Ordering::Relaxed) + proxy.console_keys.count()
}

/// The number of server connections.
fn servers(proxy: &Proxy) -> usize {
    let of_pools = proxy.pools.all().into_iter().map(|pool| {
        let (load, _) = pool.load();
        load.servers_active + load.servers_idle + load.servers_opening
    });
    usize::try_from(of_pools.sum::<u64>()).unwrap_or(usize::MAX)
}

pub(super) struct MemRecord {
    name: &'static str,
    /// Bytes of one, without its buffers, texts and tables.
    size: usize,
    used: usize,
}

fn mem(proxy: &Proxy) -> Vec<MemRecord> {
    let record = |name, size, used| MemRecord { name, size, used };
    vec![
        record("client_cache", paceline_proxy::client::SIZE, clients(proxy)),
        record("server_cache", size_of::<ServerConn>(), servers(proxy)),
        record("pool_cache", size_of::<Pool>(), proxy.pools.all().len()),
        record("shared_answers", 1, proxy.shared.result_memory.taken()),
    ]
}

pub(super) struct StateRecord {
    name: &'static str,
    is_current: bool,
}

fn state(proxy: &Proxy) -> Vec<StateRecord> {
    let current = proxy.pools.state_of(None);
    let states = [
        ("active", PoolState::Active),
        ("paused", PoolState::Paused),
        ("suspended", PoolState::Suspended),
    ];
    let record = |(name, state)| StateRecord {
        name,
        is_current: state == current,
    };
    states.map(record).into()
}

pub(super) struct PeerRecord {
    id: u16,
    host: String,
    port: u16,
    pool_size: usize,
}

/// The configured peers, including this process if it is one of them.
fn peers(proxy: &Proxy) -> Vec<PeerRecord> {
    let config = proxy.config();
    let record = |(id, peer): (&u16, &Peer)| PeerRecord {
        id: *id,
        host: match &peer.host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(folder) => folder.display().to_string(),
        },
        port: peer.port,
        pool_size: peer.pool_size(&config.paceline),
    };
    config.peers.iter().map(record).collect()
}

/// Cancel requests that Paceline passes on to a peer.
pub(super) struct PeerPoolRecord {
    id: u16,
    sent: usize,
    waiting: usize,
}

fn peer_pools(proxy: &Proxy) -> Vec<PeerPoolRecord> {
    let config = proxy.config();
    let record = |id: &u16| {
        let load = proxy.peers.load(*id);
        PeerPoolRecord {
            id: *id,
            sent: load.sent,
            waiting: load.waiting,
        }
    };
    config.peers.keys().map(record).collect()
}
