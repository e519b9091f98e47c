//! What concerns the whole process: `SHOW LISTS`, `MEM`, `STATE`, `VERSION`, peers, and the tables that are always empty here.

use super::{databases, pools};
use crate::console::table::{Columns, Row, Value};
use crate::console::version::VERSION;
use paceline_config::{Host, Peer};
use paceline_pool::pool::Pool;
use paceline_pool::pool::PoolState;
use paceline_pool::server::ServerConn;
use paceline_proxy::proxy::Proxy;
use std::sync::atomic::Ordering;

pub(super) const LISTS_COLUMNS: Columns = Columns {
    kinds: "si",
    names: &["list", "items"],
};

pub(super) const MEM_COLUMNS: Columns = Columns {
    kinds: "siiii",
    names: &["name", "size", "used", "free", "memtotal"],
};

pub(super) const STATE_COLUMNS: Columns = Columns {
    kinds: "ss",
    names: &["key", "value"],
};

pub(super) const VERSION_COLUMNS: Columns = Columns {
    kinds: "s",
    names: &["version"],
};

pub(super) const PEERS_COLUMNS: Columns = Columns {
    kinds: "isii",
    names: &["peer_id", "host", "port", "pool_size"],
};

pub(super) const PEER_POOLS_COLUMNS: Columns = Columns {
    kinds: "iiiii",
    names: &[
        "peer_id",
        "cl_active_cancel_req",
        "cl_waiting_cancel_req",
        "sv_active_cancel",
        "sv_login",
    ],
};

pub(super) const DNS_HOSTS_COLUMNS: Columns = Columns {
    kinds: "sqs",
    names: &["hostname", "ttl", "addrs"],
};

pub(super) const DNS_ZONES_COLUMNS: Columns = Columns {
    kinds: "sqi",
    names: &["zonename", "serial", "count"],
};

/// Clients, operators among them, and server connections that there are.
fn connections(proxy: &Proxy) -> (u64, u64) {
    let clients = proxy.clients.load(Ordering::Relaxed) + proxy.console_keys.count();
    let servers = proxy.pools.all().into_iter().map(|pool| {
        let (load, _) = pool.load();
        load.servers_active + load.servers_idle + load.servers_opening
    });
    (clients as u64, servers.sum())
}

pub(super) fn lists(proxy: &Proxy) -> Vec<Row> {
    let (clients, servers) = connections(proxy);
    let logged_in = (proxy.cancel_keys.all().len() + proxy.console_keys.count()) as u64;
    let count = |rows: Vec<Row>| rows.len() as u64;
    let list = |name: &str, items: u64| vec![Value::from(name), Value::from(items)];
    vec![
        list("databases", count(databases::databases(proxy))),
        list("users", count(databases::users(proxy))),
        list("peers", count(peers(proxy))),
        list("pools", count(pools::pools(proxy))),
        list("peer_pools", count(peer_pools(proxy))),
        list("free_clients", 0),
        list("used_clients", clients),
        list("login_clients", clients.saturating_sub(logged_in)),
        list("free_servers", 0),
        list("used_servers", servers),
        list("dns_names", 0),
        list("dns_zones", 0),
        list("dns_queries", 0),
        list("dns_pending", 0),
    ]
}

/// Peers that are configured, this process among them if it is.
pub(super) fn peers(proxy: &Proxy) -> Vec<Row> {
    let config = proxy.config();
    let row = |(id, peer): (&u16, &Peer)| -> Row {
        let host = match &peer.host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(folder) => folder.display().to_string(),
        };
        vec![
            u32::from(*id).into(),
            host.into(),
            u32::from(peer.port).into(),
            (peer.pool_size(&config.paceline) as u64).into(),
        ]
    };
    config.peers.iter().map(row).collect()
}

/// Cancel requests on their way to each peer.
pub(super) fn peer_pools(proxy: &Proxy) -> Vec<Row> {
    let config = proxy.config();
    let row = |id: &u16| -> Row {
        let load = proxy.peers.load(*id);
        let (sent, waiting) = (load.sent as u64, load.waiting as u64);
        let login = 0_u64;
        vec![
            u32::from(*id).into(),
            sent.into(),
            waiting.into(),
            sent.into(),
            login.into(),
        ]
    };
    config.peers.keys().map(row).collect()
}

/// What is kept for each, without its buffers, texts and tables.
pub(super) fn mem(proxy: &Proxy) -> Vec<Row> {
    let (clients, servers) = connections(proxy);
    let pools = proxy.pools.all().len() as u64;
    let cache = |name: &str, size: usize, used: u64| -> Row {
        let (size, free) = (size as u64, 0_u64);
        let total = size * used;
        vec![
            name.into(),
            size.into(),
            used.into(),
            free.into(),
            total.into(),
        ]
    };
    vec![
        cache("client_cache", paceline_proxy::client::SIZE, clients),
        cache("server_cache", size_of::<ServerConn>(), servers),
        cache("pool_cache", size_of::<Pool>(), pools),
        cache(
            "shared_answers",
            1,
            proxy.shared.result_memory.taken() as u64,
        ),
    ]
}

pub(super) fn state(proxy: &Proxy) -> Vec<Row> {
    let held = proxy.pools.state_of(None);
    let states = [
        ("active", PoolState::Active),
        ("paused", PoolState::Paused),
        ("suspended", PoolState::Suspended),
    ];
    let is = |(key, state): (&str, PoolState)| {
        let value = if held == state { "yes" } else { "no" };
        vec![Value::from(key), Value::from(value)]
    };
    states.map(is).to_vec()
}

pub(super) fn version() -> Vec<Row> {
    vec![vec![format!("PgBouncer {VERSION}").into()]]
}
