//! Methods without a question to the client, and credentials for logins of pools.

use super::*;
use crate::login_checkout::checkout;
use crate::proxy::Proxy;
use crate::testing::tcp_peer;
use paceline_net::Peer;
use paceline_pool::credentials::Users;
use paceline_pool::pool::{Pool, PoolState};
use std::time::Duration;

fn peer(address: &str) -> LoginPeer {
    LoginPeer {
        peer: tcp_peer(address),
        encrypted: true,
        certified_names: vec!["rider".to_owned(), "rider.example".to_owned()],
        end_point: None,
    }
}

/// Whether a client is accepted without being asked for a proof.
async fn accepts(settings: &[&str], peer: &LoginPeer, map: Option<&str>, user: &str) -> bool {
    let mut config = Config::default();
    settings
        .iter()
        .for_each(|setting| config.set(setting).unwrap());
    let config = Arc::new(config);
    let proxy = Arc::new(Proxy::new((*config).clone()));
    let files = UserFiles {
        users: Some(Arc::new(Users::from([
            ("rider".to_owned(), StoredSecret::None),
            ("root".to_owned(), StoredSecret::None),
        ]))),
        ..UserFiles::default()
    };
    let attempt = Attempt {
        auth: &proxy.auth,
        pools: &proxy.pools,
        config: &config,
        files: &files,
        peer,
        database: "app",
        replication: None,
        user,
    };
    let Ok(mut method) = attempt.method() else {
        return false;
    };
    if let Method::Cert(by) | Method::Peer(by) = &mut method {
        *by = map.map(|text| ident::read(text).unwrap()["m"].clone());
    }
    let known = attempt.stored().await.ok().flatten().is_some();
    attempt.check_without_secret(&method, known).await.is_ok()
}

#[tokio::test]
async fn a_certificate_vouches_for_its_names() {
    let cert = ["auth_type=cert"];
    let here = peer("10.0.0.1");
    assert!(accepts(&cert, &here, None, "rider").await);
    assert!(!accepts(&cert, &here, None, "root").await);
    // The certificate has the name, but the user is unknown.
    assert!(!accepts(&cert, &here, None, "rider.example").await);
    assert!(accepts(&cert, &here, Some("m rider.example root"), "root").await);
    assert!(!accepts(&cert, &here, Some("m rider.example root"), "rider").await);
    let without = LoginPeer {
        certified_names: Vec::new(),
        ..here
    };
    assert!(!accepts(&cert, &without, None, "rider").await);
}

#[tokio::test]
async fn a_unix_socket_vouches_for_its_system_user() {
    let by_peer = ["auth_type=peer"];
    let root = LoginPeer {
        peer: Peer::Unix {
            process: 1,
            user: 0,
        },
        ..peer("127.0.0.1")
    };
    assert!(accepts(&by_peer, &root, None, "root").await);
    assert!(!accepts(&by_peer, &root, None, "rider").await);
    assert!(accepts(&by_peer, &root, Some("m root all"), "rider").await);
    assert!(!accepts(&by_peer, &peer("127.0.0.1"), None, "rider").await);
}

/// Also if a reload has changed the configuration after the socket was opened.
#[tokio::test]
async fn trust_is_local_unless_configured_otherwise() {
    let (here, there) = (peer("127.0.0.1"), peer("10.0.0.1"));
    assert!(accepts(&["auth_type=trust"], &here, None, "rider").await);
    assert!(!accepts(&["auth_type=trust"], &here, None, "nobody").await);
    assert!(!accepts(&["auth_type=trust"], &there, None, "rider").await);
    let open = ["auth_type=trust", "auth_trust_remote=on"];
    assert!(accepts(&open, &there, None, "rider").await);
}

/// The credential with which the pool of `web` logs in to this URL, given a userlist and the credential that a client has shown.
async fn credential_of(url: &str, file: &str, shown: Credential) -> Credential {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("userlist.txt");
    std::fs::write(&path, file).unwrap();
    let mut config = Config::for_upstream(url).unwrap();
    config
        .set(&format!("auth_file={}", path.display()))
        .unwrap();
    let proxy = Proxy::new(config.clone());
    let files = UserFiles::read(&config.paceline.login).unwrap();
    proxy.auth.set_files(&Arc::new(config), &Arc::new(files));
    let pool = proxy.pools.pool("app", "web").unwrap();
    pool.set_shown(&shown);
    let credentials = pool.credentials(&pool.address());
    credentials.credential(Duration::ZERO).await.unwrap()
}

fn password(text: &str) -> Credential {
    Credential::Password(paceline_config::Secret::new(text.to_owned()))
}

#[tokio::test]
async fn shown_credentials_are_for_logins_of_the_same_user() {
    let own = "postgres://db";
    let known = credential_of(own, "", password("shown")).await;
    assert_eq!(known, password("shown"));
    let other = "postgres://svc@db";
    assert_eq!(
        credential_of(other, "", password("shown")).await,
        Credential::None
    );
    // The verifier of another user proves nothing; clients that log in as themselves have shown their own credential.
    let verifier = "SCRAM-SHA-256$4096:c2FsdHNhbHQ=$lNq6Ro9TSRVOjbCYzBkGxGYPCRdTPRBZ6yCHoGD6aBE=:lNq6Ro9TSRVOjbCYzBkGxGYPCRdTPRBZ6yCHoGD6aBE=";
    let stored = |user: &str| format!("\"{user}\" \"{verifier}\"");
    let of_other = credential_of(other, &stored("svc"), password("shown")).await;
    assert_eq!(of_other, Credential::Verifier);
    let of_own = credential_of(own, &stored("web"), password("shown")).await;
    assert_eq!(of_own, password("shown"));
    let file = "\"svc\" \"of the file\"";
    assert_eq!(
        credential_of(other, file, password("shown")).await,
        password("of the file")
    );
    let with_password = "postgres://svc:secret@db";
    assert_eq!(
        credential_of(with_password, file, password("shown")).await,
        password("secret")
    );
}

/// The userlist was changed by a reload.
#[tokio::test]
async fn the_userlist_overrides_an_earlier_credential() {
    let own = "postgres://db";
    let file = "\"web\" \"new\"";
    let known = credential_of(own, file, password("old")).await;
    assert_eq!(known, password("new"));
    let verifier = "\"web\" \"SCRAM-SHA-256$4096:c2FsdA==$ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=:QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8=\"";
    assert_eq!(
        credential_of(own, verifier, password("shown")).await,
        password("shown")
    );
}

/// A login as an unknown user takes as long as one of most known users.
#[test]
fn the_majority_of_secrets_decides() {
    let scram = StoredSecret::Scram(Mock::default().verifier("rider").unwrap());
    let prevailing = |secrets: Option<&[&StoredSecret]>| {
        let config = Arc::new(Config::default());
        let proxy = Arc::new(Proxy::new((*config).clone()));
        let users = secrets.map(|secrets| {
            let named = secrets.iter().enumerate();
            let users = named.map(|(n, secret)| (n.to_string(), (*secret).clone()));
            Arc::new(Users::from_iter(users))
        });
        let files = UserFiles {
            users,
            ..UserFiles::default()
        };
        let attempt = Attempt {
            auth: &proxy.auth,
            pools: &proxy.pools,
            config: &config,
            files: &files,
            peer: &peer("127.0.0.1"),
            database: "app",
            replication: None,
            user: "nobody",
        };
        attempt.prevailing_secret()
    };
    let plain = StoredSecret::read("p");
    assert_eq!(
        prevailing(Some(&[&plain, &plain, &scram])),
        PrevailingSecret::ForComparison
    );
    assert_eq!(
        prevailing(Some(&[&plain, &scram, &scram])),
        PrevailingSecret::ForScram
    );
    assert_eq!(prevailing(None), PrevailingSecret::ForScram);
}

/// The client leaves during its login.
#[tokio::test]
async fn an_abandoned_login_leaves_the_line() {
    let proxy = Proxy::new(Config::for_upstream("postgres://db").unwrap());
    let pool: Arc<Pool> = proxy.pools.pool("app", "web").unwrap();
    proxy.pools.order(|orders| orders.pause(None)).unwrap();
    assert_eq!(proxy.pools.state_of(None), PoolState::Paused);
    let mut login = Box::pin(checkout(&pool));
    tokio::select! {
        biased;
        _ = &mut login => panic!("the pool is paused"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(pool.load().0.clients_waiting, 1);
    drop(login);
    assert_eq!(pool.load().0.clients_waiting, 0);
}
