//! Whom to trust, what is shown to the other side, and files that change.

mod papers;

use super::session::{self, Identity, Session};
use super::*;
use crate::stream::Socket;
use bytes::BytesMut;
use paceline_config::SslMode;
pub(super) use papers::{Papers, protocols, side};
use std::io;
use tokio::net::UnixStream;

/// Both sides after the handshake, or why there is none.
type Shaken = io::Result<(Session, Identity)>;

/// What an [`Acceptor`] and a [`Connector`] come to on a pair of sockets.
pub(super) async fn shake(server: &Side, client: &Side, host: &str) -> (Shaken, Shaken) {
    let acceptor = Acceptor::new(server).unwrap().unwrap();
    shake_with(&acceptor, client, host).await
}

async fn shake_with(acceptor: &Acceptor, client: &Side, host: &str) -> (Shaken, Shaken) {
    let connector = Connector::new(client).unwrap();
    let (one, other) = UnixStream::pair().unwrap();
    let accepting = async {
        let (socket, mut input) = (Socket::Unix(one), BytesMut::new());
        session::accept(&socket, acceptor, &mut input, false).await
    };
    let connecting = async {
        let socket = Socket::Unix(other);
        let shaken = session::connect(&socket, &connector, host).await;
        // In TLS 1.3 a client learns afterwards that its certificate was not good: the socket must live until it was looked at.
        shaken.map(|shaken| (shaken, socket))
    };
    let (accepted, connected) = tokio::join!(accepting, connecting);
    (accepted, connected.map(|(shaken, _)| shaken))
}

async fn connects(server: &Side, client: &Side, host: &str) -> Result<(), String> {
    let (_, connected) = shake(server, client, host).await;
    connected.map(|_| ()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_mode_says_what_is_checked_of_a_server() {
    let papers = Papers::new();
    let server = papers.shown("server", "db.example", &["db.example", "127.0.0.1"]);
    let others = Papers::new();
    let (known, other) = (papers.authority(), others.authority());
    for (mode, ca, host, good) in [
        (SslMode::VerifyFull, Some(&known), "db.example", true),
        (SslMode::VerifyFull, Some(&known), "127.0.0.1", true),
        (SslMode::VerifyFull, Some(&known), "other.example", false),
        (SslMode::VerifyFull, Some(&known), "127.0.0.2", false),
        (SslMode::VerifyFull, Some(&other), "db.example", false),
        (SslMode::VerifyCa, Some(&known), "other.example", true),
        (SslMode::VerifyCa, Some(&known), "not a name", true),
        (SslMode::VerifyCa, Some(&other), "db.example", false),
        (SslMode::Require, None, "db.example", true),
        // As in libpq: an authority that is named is looked at.
        (SslMode::Require, Some(&other), "db.example", false),
        (SslMode::Prefer, Some(&known), "other.example", true),
    ] {
        let client = Side {
            ca_file: ca.cloned(),
            ..side(mode)
        };
        let connected = connects(&server, &client, host).await;
        assert_eq!(connected.is_ok(), good, "{mode:?} {host}: {connected:?}");
    }
}

/// What `openssl req -x509` makes is an authority of itself.
#[tokio::test]
async fn a_certificate_may_be_its_own_authority() {
    let papers = Papers::new();
    let server = papers.own_authority("own", "db.example", 2099);
    let client = Side {
        ca_file: server.cert_file.clone(),
        ..side(SslMode::VerifyFull)
    };
    assert_eq!(connects(&server, &client, "db.example").await, Ok(()));
    assert!(connects(&server, &client, "other.example").await.is_err());

    let expired = papers.own_authority("old", "db.example", 2001);
    let client = Side {
        ca_file: expired.cert_file.clone(),
        ..side(SslMode::VerifyCa)
    };
    let refused = connects(&expired, &client, "db.example").await;
    assert!(refused.unwrap_err().contains("Expired"));
}

#[tokio::test]
async fn a_common_name_counts_where_there_is_no_other() {
    let papers = Papers::new();
    let client = Side {
        ca_file: Some(papers.authority()),
        ..side(SslMode::VerifyFull)
    };
    let only = papers.shown("only", "*.example", &[]);
    assert_eq!(connects(&only, &client, "db.example").await, Ok(()));
    assert!(connects(&only, &client, "a.db.example").await.is_err());
    assert!(connects(&only, &client, "example").await.is_err());
    let both = papers.shown("both", "db.example", &["other.example"]);
    assert!(connects(&both, &client, "db.example").await.is_err());
}

#[tokio::test]
async fn a_client_must_have_a_certificate_where_it_is_verified() {
    let papers = Papers::new();
    let server = Side {
        sslmode: SslMode::VerifyFull,
        ca_file: Some(papers.authority()),
        ..papers.shown("server", "db.example", &["db.example"])
    };
    let plain = side(SslMode::Require);
    let (accepted, _) = shake(&server, &plain, "db.example").await;
    assert!(accepted.is_err());
    let others = Papers::new();
    let stranger = others.shown("stranger", "alice", &[]);
    let (accepted, _) = shake(&server, &stranger, "db.example").await;
    assert!(accepted.is_err());

    let alice = papers.shown("alice", "alice", &["alice.example"]);
    let (accepted, connected) = shake(&server, &alice, "db.example").await;
    let (of_client, of_server) = (accepted.unwrap().1, connected.unwrap().1);
    assert_eq!(*of_client.names, ["alice", "alice.example"]);
    // Both sides bind a login to the same thing: the server's certificate.
    assert!(of_server.binding.is_some());
    assert_eq!(of_client.binding, of_server.binding);
}

/// As PgBouncer: below `verify-ca` a certificate lets nobody in or out, but one that is good tells who the client is.
#[tokio::test]
async fn a_certificate_that_need_not_be_shown_names_a_client_if_it_is_good() {
    let papers = Papers::new();
    let others = Papers::new();
    let alice = papers.shown("alice", "alice", &[]);
    for (mode, client, names) in [
        (SslMode::Require, &alice, &["alice"][..]),
        (SslMode::Prefer, &alice, &["alice"]),
        (SslMode::Require, &side(SslMode::Require), &[]),
        (SslMode::Require, &others.shown("alice", "alice", &[]), &[]),
        (SslMode::Require, &papers.version_1("old", "alice"), &[]),
    ] {
        let server = Side {
            sslmode: mode,
            ca_file: Some(papers.authority()),
            ..papers.shown("server", "db.example", &["db.example"])
        };
        let (accepted, connected) = shake(&server, client, "db.example").await;
        assert_eq!(*accepted.unwrap().1.names, *names, "{client:?}");
        assert!(connected.is_ok());
    }
}

#[tokio::test]
async fn certificates_of_version_1_serve_where_nothing_is_verified() {
    let papers = Papers::new();
    let old = papers.version_1("old", "db.example");
    for protocols in [protocols("secure"), protocols("tlsv1.2")] {
        let client = Side {
            protocols,
            ..side(SslMode::Require)
        };
        assert_eq!(connects(&old, &client, "db.example").await, Ok(()));
    }
    // One that is listed is its own authority.
    let listed = Side {
        ca_file: old.cert_file.clone(),
        ..side(SslMode::VerifyFull)
    };
    assert_eq!(connects(&old, &listed, "db.example").await, Ok(()));
    assert!(connects(&old, &listed, "other.example").await.is_err());
    let strict = Side {
        ca_file: Some(papers.authority()),
        ..side(SslMode::VerifyCa)
    };
    assert!(connects(&old, &strict, "db.example").await.is_err());
    let swapped = Side {
        key_file: papers.version_1("other", "other").key_file,
        ..old
    };
    let refused = Acceptor::new(&swapped).err().unwrap().to_string();
    assert!(refused.contains("KeyMismatch"), "{refused}");
}

/// The key of the certificate is what a handshake is signed with.
#[tokio::test]
async fn a_certificate_of_version_1_needs_its_key() {
    let papers = Papers::new();
    let (old, other) = (papers.version_1("old", "a"), papers.version_1("other", "b"));
    let read = |side: &Side| files::identity(side).unwrap().unwrap();
    let stolen = rustls::sign::CertifiedKey::new(read(&old).cert, read(&other).key);
    for protocols in [protocols("secure"), protocols("tlsv1.2")] {
        let acceptor = Acceptor::with_identity(&old, stolen.clone()).unwrap();
        let client = Side {
            protocols,
            ..side(SslMode::Require)
        };
        let (_, connected) = shake_with(&acceptor, &client, "a").await;
        let refused = connected.map(drop).unwrap_err().to_string();
        assert!(refused.contains("BadSignature"), "{refused}");
    }
}

#[test]
fn what_is_missing_is_said() {
    let papers = Papers::new();
    let shown = papers.shown("server", "db.example", &[]);
    let said = |side: &Side| Acceptor::new(side).err().unwrap().to_string();
    let nothing = side(SslMode::Require);
    assert_eq!(
        said(&nothing),
        "client_tls_sslmode = require needs client_tls_cert_file; set it to the path of a PEM file"
    );
    let verified = Side {
        sslmode: SslMode::VerifyCa,
        ..shown.clone()
    };
    assert!(said(&verified).contains("needs client_tls_ca_file"));
    let half = Side {
        key_file: None,
        ..shown.clone()
    };
    assert!(said(&half).contains("the private key that goes with it"));
    let swapped = Side {
        key_file: shown.cert_file.clone(),
        ..shown.clone()
    };
    assert!(said(&swapped).contains("there is none in PEM that is not encrypted"));
    let foreign = Side {
        key_file: papers.shown("other", "other", &[]).key_file,
        ..shown
    };
    assert!(
        said(&foreign).contains("server.crt: "),
        "{}",
        said(&foreign)
    );
    let verifying = Connector::new(&side(SslMode::VerifyFull));
    assert!(verifying.err().unwrap().to_string().contains("sslrootcert"));
}

#[test]
fn what_is_read_counts_when_it_is_held() {
    let papers = Papers::new();
    let mut settings = Encryption::default();
    settings.client = papers.shown("server", "first", &[]);
    let keyring = Keyring::default();
    let binding = || keyring.acceptor().unwrap().binding();
    let read = || Keys::for_servers(&settings, []).map(Arc::new);
    keyring.hold(read().unwrap());
    let first = binding();

    papers.shown("server", "second", &[]);
    keyring.hold(read().unwrap());
    let second = binding();
    assert_ne!(first, second);

    let cert = settings.client.cert_file.clone().unwrap();
    std::fs::write(&cert, "not a certificate").unwrap();
    let error = read().map(drop).unwrap_err().to_string();
    assert!(error.contains("cannot read a certificate from "), "{error}");
    assert_eq!(binding(), second);
}
