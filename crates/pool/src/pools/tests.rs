//! Pools, the configuration and the orders of operators.

use super::*;
use crate::quota::Full;

#[test]
fn pools_follow_the_configuration() {
    let file = "[databases.app]\nprimary = \"postgres://db\"\n[users.web]\npool_size = 3";
    let before = Config::from_toml(file, "").unwrap();
    let after = Config::from_toml(&file.replace('3', "7"), "").unwrap();
    let pools = Pools::new(Arc::new(before));
    let pool = pools.pool("app", "web").unwrap();
    assert_eq!(pool.settings().size, 3);
    pools.set_config(Arc::new(after));
    assert_eq!(pool.settings().size, 7);
}

/// Any name is a database here.
fn pools_for_any(host: &str) -> Arc<Pools> {
    let url = format!("postgres://{host}");
    Pools::new(Arc::new(Config::for_upstream(&url).unwrap()))
}

/// Clients that are not logged in may name any number of databases.
#[tokio::test]
async fn pools_for_auth_query_are_bounded_and_follow_the_configuration() {
    let pools = pools_for_any("old");
    let kept = pools.auth_pool("kept", "a").unwrap();
    for n in 0..2 * AUTH_POOLS_MAX {
        pools.auth_pool(&n.to_string(), "a");
    }
    assert!(pools.all().len() <= AUTH_POOLS_MAX);
    assert!(Arc::ptr_eq(&kept, &pools.auth_pool("kept", "a").unwrap()));
    let after = Config::for_upstream("postgres://somebody@new").unwrap();
    pools.set_config(Arc::new(after.clone()));
    let address = kept.address();
    assert_eq!(address.upstream, after.databases["*"].primary);
    assert_eq!(address.user, "a");
    assert!(!kept.policy().pipeline);
}

#[tokio::test]
async fn pools_for_auth_query_obey_operators() {
    let pools = pools_for_any("db");
    let before = pools.auth_pool("app", "a").unwrap();
    let elsewhere = pools.auth_pool("else", "a").unwrap();
    pools.order(|admin| admin.pause(Some("app"))).unwrap();
    let after = pools.auth_pool("app", "b").unwrap();
    assert!(!before.is_active() && !after.is_active() && elsewhere.is_active());
    assert_eq!(pools.of(Some("app")).len(), 2);
    assert!(pools.databases().contains("else"));
    pools.order(|admin| admin.resume(None)).unwrap();
    assert!(before.is_active() && after.is_active());
}

#[tokio::test]
async fn pools_for_auth_query_count_for_the_database_that_clients_name() {
    let file = "[databases.app]\nprimary = \"postgres://db/other\"";
    let pools = Pools::new(Arc::new(Config::from_toml(file, "").unwrap()));
    let (asker, pool) = (pools.auth_pool("app", "a"), pools.pool("app", "web"));
    assert!(
        asker
            .unwrap()
            .quotas
            .share(&pool.unwrap().quotas, Full::Database)
    );
}

/// Else tasks that wait in turn for servers which do not answer would keep the hosts, and each other, forever.
#[tokio::test]
async fn hosts_that_a_reload_removes_are_dropped_while_they_are_probed() {
    let silent = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = silent
        .each_ref()
        .map(|listener| listener.local_addr().unwrap().port());
    let url = format!("postgres://a@127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1]);
    let pools = Pools::new(Arc::new(Config::for_upstream(&url).unwrap()));
    pools.start_monitors();
    let hosts = pools.hosts().first().map(Arc::downgrade).unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    pools.set_config(Arc::new(Config::for_upstream("postgres://a@db").unwrap()));
    assert!(hosts.upgrade().is_none());
}

/// A login or a reload may happen between the discovery of a primary and the moment when all pools have left the old one.
#[tokio::test]
async fn a_pool_that_is_new_or_changed_waits_until_others_have_left_the_old_primary() {
    let url = "postgres://a@one,two";
    let config = || Arc::new(Config::for_upstream(url).unwrap());
    let pools = Pools::new(config());
    pools.start_monitors();
    let hosts = Arc::clone(pools.hosts().first().unwrap());
    let before = pools.pool("app", "before").unwrap();
    hosts.find_primary(0);
    pools.follow_primary(&hosts);
    assert!(before.has_primary());
    hosts.find_primary(1);
    let new = pools.pool("app", "new").unwrap();
    let for_auth = pools.auth_pool("app", "auth").unwrap();
    pools.set_config(config());
    for pool in [&before, &new, &for_auth] {
        assert!(!pool.has_primary());
    }
    pools.follow_primary(&hosts);
    let later = pools.pool("app", "later").unwrap();
    for pool in [&before, &new, &for_auth, &later] {
        assert!(pool.has_primary());
        assert_eq!(pool.address().upstream, hosts.upstreams()[1]);
    }
}
