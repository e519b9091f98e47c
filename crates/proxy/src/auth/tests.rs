//! Who is vouched for, and from where.

use super::*;
use crate::keyring::Keyring;
use crate::testing::tcp_peer;
use paceline_config::{Tcp, Upstream};
use paceline_net::Peer;

fn visitor(address: &str) -> Visitor {
    Visitor {
        peer: tcp_peer(address),
        encrypted: true,
        certified_names: vec!["rider".to_owned(), "rider.example".to_owned()],
        end_point: None,
    }
}

/// Whether a client is let in that is asked nothing.
async fn vouched(settings: &[&str], visitor: &Visitor, map: Option<&str>, user: &str) -> bool {
    let mut config = Config::default();
    settings
        .iter()
        .for_each(|setting| config.set(setting).unwrap());
    let config = Arc::new(config);
    let proxy = Arc::new(Proxy::new((*config).clone()));
    let records = Records {
        users: Some(
            [
                ("rider".to_owned(), Secret::None),
                ("root".to_owned(), Secret::None),
            ]
            .into(),
        ),
        ..Records::default()
    };
    let attempt = Attempt {
        proxy: &proxy,
        config: &config,
        records: &records,
        visitor,
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
    attempt.vouched_for(&method, known).await.is_ok()
}

#[tokio::test]
async fn a_certificate_vouches_for_its_names() {
    let cert = ["auth_type=cert"];
    let here = visitor("10.0.0.1");
    assert!(vouched(&cert, &here, None, "rider").await);
    assert!(!vouched(&cert, &here, None, "root").await);
    // A name of it, but nobody here.
    assert!(!vouched(&cert, &here, None, "rider.example").await);
    assert!(vouched(&cert, &here, Some("m rider.example root"), "root").await);
    assert!(!vouched(&cert, &here, Some("m rider.example root"), "rider").await);
    let without = Visitor {
        certified_names: Vec::new(),
        ..here
    };
    assert!(!vouched(&cert, &without, None, "rider").await);
}

#[tokio::test]
async fn the_system_vouches_for_its_users_on_its_socket() {
    let peer = ["auth_type=peer"];
    let root = Visitor {
        peer: Peer::Unix {
            process: 1,
            user: 0,
        },
        ..visitor("127.0.0.1")
    };
    assert!(vouched(&peer, &root, None, "root").await);
    assert!(!vouched(&peer, &root, None, "rider").await);
    assert!(vouched(&peer, &root, Some("m root all"), "rider").await);
    assert!(!vouched(&peer, &visitor("127.0.0.1"), None, "rider").await);
}

/// Also when the configuration was another when we began to listen.
#[tokio::test]
async fn trust_ends_at_this_machine_unless_it_must_not() {
    let (here, there) = (visitor("127.0.0.1"), visitor("10.0.0.1"));
    assert!(vouched(&["auth_type=trust"], &here, None, "rider").await);
    assert!(!vouched(&["auth_type=trust"], &here, None, "nobody").await);
    assert!(!vouched(&["auth_type=trust"], &there, None, "rider").await);
    let open = ["auth_type=trust", "auth_trust_remote=on"];
    assert!(vouched(&open, &there, None, "rider").await);
}

/// What the pool of `web` shows on a database at this URL when the file says this of its users and a client has shown that.
fn passed(url: &str, file: &str, shown: Credential) -> Credential {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("userlist.txt");
    std::fs::write(&path, file).unwrap();
    let mut config = Config::for_upstream(url).unwrap();
    config
        .set(&format!("auth_file={}", path.display()))
        .unwrap();
    let upstream: Upstream = config.databases["*"].primary.clone();
    let address = Address {
        user: upstream.user.clone().unwrap_or_else(|| "web".to_owned()),
        upstream,
        database: "app".to_owned(),
        startup: Vec::new(),
        connect_query: String::new(),
        tcp: Tcp::default(),
        keyring: Arc::<Keyring>::default(),
    };
    let learned = Learned::default();
    learned.learn(&shown);
    let config = Arc::new(config);
    let gate = Gate::new(&config);
    let records = Records::read(&config.paceline.login).unwrap();
    gate.hold(&config, &Arc::new(records));
    gate.pass(&address, &learned).credential
}

fn password(text: &str) -> Credential {
    Credential::Password(paceline_config::Secret::new(text.to_owned()))
}

#[test]
fn what_clients_have_shown_is_for_their_own_logins() {
    let own = "postgres://db";
    assert_eq!(passed(own, "", password("shown")), password("shown"));
    let other = "postgres://svc@db";
    assert_eq!(passed(other, "", password("shown")), Credential::None);
    // Which secret it is that proves nothing is told; clients of their own name have shown theirs.
    let verifier = "SCRAM-SHA-256$4096:c2FsdHNhbHQ=$lNq6Ro9TSRVOjbCYzBkGxGYPCRdTPRBZ6yCHoGD6aBE=:lNq6Ro9TSRVOjbCYzBkGxGYPCRdTPRBZ6yCHoGD6aBE=";
    let stored = |user: &str| format!("\"{user}\" \"{verifier}\"");
    let of_other = passed(other, &stored("svc"), password("shown"));
    assert_eq!(of_other, Credential::Verifier);
    let of_own = passed(own, &stored("web"), password("shown"));
    assert_eq!(of_own, password("shown"));
    let file = "\"svc\" \"of the file\"";
    assert_eq!(
        passed(other, file, password("shown")),
        password("of the file")
    );
    let said = "postgres://svc:said@db";
    assert_eq!(passed(said, file, password("shown")), password("said"));
}

/// A reload has brought another file.
#[test]
fn the_file_of_today_knows_better_than_a_client_of_yesterday() {
    let own = "postgres://db";
    let file = "\"web\" \"new\"";
    assert_eq!(passed(own, file, password("old")), password("new"));
    let verifier = "\"web\" \"SCRAM-SHA-256$4096:c2FsdA==$ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=:QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8=\"";
    assert_eq!(passed(own, verifier, password("shown")), password("shown"));
}

/// Whoever is nobody takes as long as most of those who are somebody.
#[test]
fn others_are_what_most_users_are() {
    let scram = Secret::Scram(Mock::default().verifier("rider").unwrap());
    let others = |secrets: Option<&[&Secret]>| {
        let config = Arc::new(Config::default());
        let proxy = Arc::new(Proxy::new((*config).clone()));
        let users = secrets.map(|secrets| {
            let named = secrets.iter().enumerate();
            named
                .map(|(n, secret)| (n.to_string(), (*secret).clone()))
                .collect()
        });
        let records = Records {
            users,
            ..Records::default()
        };
        let attempt = Attempt {
            proxy: &proxy,
            config: &config,
            records: &records,
            visitor: &visitor("127.0.0.1"),
            database: "app",
            replication: None,
            user: "nobody",
        };
        attempt.others()
    };
    let plain = Secret::read("p");
    assert_eq!(others(Some(&[&plain, &plain, &scram])), Kept::ForComparison);
    assert_eq!(others(Some(&[&plain, &scram, &scram])), Kept::ForScram);
    assert_eq!(others(None), Kept::ForScram);
}
