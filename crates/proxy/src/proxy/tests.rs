//! Pools as the configuration and operators would have them.

use super::*;
use crate::pool::Full;

#[test]
fn pools_have_the_terms_of_the_configuration_as_it_is_now() {
    let file = "[databases.app]\nprimary = \"postgres://db\"\n[users.web]\npool_size = 3";
    let before = Config::from_toml(file, "").unwrap();
    let after = Config::from_toml(&file.replace('3', "7"), "").unwrap();
    let proxy = Arc::new(Proxy::new(before));
    let pool = proxy.pool("app", "web").unwrap();
    assert_eq!(pool.settings().size, 3);
    proxy.set_config(Arc::new(after));
    assert_eq!(pool.settings().size, 7);
}

/// Any name is a database here.
fn proxy_for_any(host: &str) -> Arc<Proxy> {
    let url = format!("postgres://{host}");
    Arc::new(Proxy::new(Config::for_upstream(&url).unwrap()))
}

/// Clients that are nobody could name as many databases as they like.
#[tokio::test]
async fn pools_to_ask_on_are_bounded_and_follow_the_configuration() {
    let proxy = proxy_for_any("old");
    let kept = proxy.asker("kept", "a").unwrap();
    for n in 0..2 * ASKERS_MAX {
        proxy.asker(&n.to_string(), "a");
    }
    assert!(proxy.pools().len() <= ASKERS_MAX);
    assert!(Arc::ptr_eq(&kept, &proxy.asker("kept", "a").unwrap()));
    let after = Config::for_upstream("postgres://somebody@new").unwrap();
    proxy.set_config(Arc::new(after.clone()));
    let address = kept.address();
    assert_eq!(address.upstream, after.databases["*"].primary);
    assert_eq!(address.user, "a");
    assert!(!kept.policy().pipeline);
}

#[tokio::test]
async fn pools_to_ask_on_are_held_like_others() {
    let proxy = proxy_for_any("db");
    let before = proxy.asker("app", "a").unwrap();
    let elsewhere = proxy.asker("else", "a").unwrap();
    proxy
        .order(|standings| standings.pause(Some("app")))
        .unwrap();
    let after = proxy.asker("app", "b").unwrap();
    assert!(before.is_held() && after.is_held() && !elsewhere.is_held());
    assert_eq!(proxy.pools_of(Some("app")).len(), 2);
    assert!(proxy.databases_in_use().contains("else"));
    proxy.order(|standings| standings.resume(None)).unwrap();
    assert!(!before.is_held() && !after.is_held());
}

#[tokio::test]
async fn pools_to_ask_on_count_for_the_database_that_clients_name() {
    let file = "[databases.app]\nprimary = \"postgres://db/other\"";
    let proxy = Arc::new(Proxy::new(Config::from_toml(file, "").unwrap()));
    let (asker, pool) = (proxy.asker("app", "a"), proxy.pool("app", "web"));
    assert!(
        asker
            .unwrap()
            .quotas
            .share(&pool.unwrap().quotas, Full::Database)
    );
}
