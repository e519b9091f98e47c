//! The load of each server, which all pools in front of it share.

use paceline_batch::group_limit::ServerLoad;
use paceline_config::{Host, Upstream};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The loads of the servers to which pools lead.
#[derive(Debug, Default)]
pub(crate) struct ServerLoads(Mutex<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    host: Host,
    port: u16,
    load: Weak<ServerLoad>,
}

impl ServerLoads {
    /// The load of this server.
    pub(crate) fn of(&self, upstream: &Upstream) -> Arc<ServerLoad> {
        let mut loads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loads.retain(|entry| entry.load.strong_count() > 0);
        let mut same = loads
            .iter()
            .filter(|entry| entry.host == upstream.host && entry.port == upstream.port);
        if let Some(load) = same.find_map(|entry| entry.load.upgrade()) {
            return load;
        }
        let load = Arc::default();
        loads.push(Entry {
            host: upstream.host.clone(),
            port: upstream.port,
            load: Arc::downgrade(&load),
        });
        load
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_config::{ANY_DATABASE, Config};

    #[test]
    fn pools_of_one_server_share_its_load() {
        let upstream = |url: &str| {
            let mut config = Config::for_upstream(url).unwrap();
            config.databases.remove(ANY_DATABASE).unwrap().primary
        };
        let loads = ServerLoads::default();
        let one = loads.of(&upstream("postgres://a@db:5432/x"));
        assert!(Arc::ptr_eq(
            &one,
            &loads.of(&upstream("postgres://b@db:5432/y"))
        ));
        assert!(!Arc::ptr_eq(
            &one,
            &loads.of(&upstream("postgres://a@db:5433/x"))
        ));
        drop(one);
        loads.of(&upstream("postgres://a@other/x"));
        assert_eq!(loads.0.lock().unwrap().len(), 1, "unused ones are dropped");
    }
}
