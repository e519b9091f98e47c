//! Certificates that are accepted on both sides, and files that are missing.

mod certificates;

use super::*;
use crate::stream::Stream;
use bytes::BytesMut;
pub(crate) use certificates::{Certificates, settings};
use std::io;
use tokio::net::UnixStream;

/// The encrypted connection on one side, or why there is none.
type Handshake = io::Result<Stream>;

/// The outcome of a handshake at the server's and at the client's end.
async fn handshake(
    server: &TlsSettings,
    client: &TlsSettings,
    host: &str,
) -> (Handshake, Handshake) {
    let acceptor = Acceptor::new(server).unwrap().unwrap();
    handshake_with(&acceptor, client, host).await
}

async fn handshake_with(
    acceptor: &Acceptor,
    client: &TlsSettings,
    host: &str,
) -> (Handshake, Handshake) {
    let connector = Connector::new(client).unwrap();
    let (one, other) = UnixStream::pair().unwrap();
    // In TLS 1.3 a client notices only after its handshake that the server rejects its certificate: both sockets must stay open.
    let (mut one, mut other) = (Stream::unix(one), Stream::unix(other));
    let mut input = BytesMut::new();
    let (accepted, connected) = tokio::join!(
        acceptor.accept(&mut one, &mut input, false),
        connector.connect(&mut other, host),
    );
    (accepted.map(|()| one), connected.map(|()| other))
}

async fn connects(server: &TlsSettings, client: &TlsSettings, host: &str) -> Result<(), String> {
    let (_, connected) = handshake(server, client, host).await;
    connected.map(|_| ()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn the_mode_decides_what_is_checked_of_a_server() {
    let known = Certificates::new();
    let server = known.signed("server", "db.example", &["db.example", "127.0.0.1"]);
    let others = Certificates::new();
    let (known, other) = (known.authority_file(), others.authority_file());
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
        // As in libpq: authorities count in every mode if they are set.
        (SslMode::Require, Some(&other), "db.example", false),
        (SslMode::Prefer, Some(&known), "other.example", true),
    ] {
        let client = TlsSettings {
            ca_file: ca.cloned(),
            ..settings(mode)
        };
        let connected = connects(&server, &client, host).await;
        assert_eq!(connected.is_ok(), good, "{mode:?} {host}: {connected:?}");
    }
}

/// `openssl req -x509` makes a certificate that is its own authority.
#[tokio::test]
async fn a_certificate_may_be_its_own_authority() {
    let known = Certificates::new();
    let server = known.self_signed("own", "db.example", 2099);
    let client = TlsSettings {
        ca_file: server.cert_file.clone(),
        ..settings(SslMode::VerifyFull)
    };
    assert_eq!(connects(&server, &client, "db.example").await, Ok(()));
    assert!(connects(&server, &client, "other.example").await.is_err());

    let expired = known.self_signed("old", "db.example", 2001);
    let client = TlsSettings {
        ca_file: expired.cert_file.clone(),
        ..settings(SslMode::VerifyCa)
    };
    let refused = connects(&expired, &client, "db.example").await;
    assert!(refused.unwrap_err().contains("Expired"));
}

#[tokio::test]
async fn a_common_name_counts_only_without_alternative_names() {
    let known = Certificates::new();
    let client = TlsSettings {
        ca_file: Some(known.authority_file()),
        ..settings(SslMode::VerifyFull)
    };
    let only = known.signed("only", "*.example", &[]);
    assert_eq!(connects(&only, &client, "db.example").await, Ok(()));
    assert!(connects(&only, &client, "a.db.example").await.is_err());
    assert!(connects(&only, &client, "example").await.is_err());
    let both = known.signed("both", "db.example", &["other.example"]);
    assert!(connects(&both, &client, "db.example").await.is_err());
}

#[tokio::test]
async fn a_client_needs_a_certificate_if_it_is_verified() {
    let known = Certificates::new();
    let server = TlsSettings {
        sslmode: SslMode::VerifyFull,
        ca_file: Some(known.authority_file()),
        ..known.signed("server", "db.example", &["db.example"])
    };
    let plain = settings(SslMode::Require);
    let (accepted, _) = handshake(&server, &plain, "db.example").await;
    assert!(accepted.is_err());
    let others = Certificates::new();
    let stranger = others.signed("stranger", "alice", &[]);
    let (accepted, _) = handshake(&server, &stranger, "db.example").await;
    assert!(accepted.is_err());

    let alice = known.signed("alice", "alice", &["alice.example"]);
    let (accepted, connected) = handshake(&server, &alice, "db.example").await;
    let (accepted, connected) = (accepted.unwrap(), connected.unwrap());
    assert_eq!(accepted.certified_names(), ["alice", "alice.example"]);
    // Both sides use the server's certificate.
    assert!(connected.channel_binding().is_some());
    assert_eq!(accepted.channel_binding(), connected.channel_binding());
}

/// As in PgBouncer: below `verify-ca` a certificate does not decide about the login, but a valid one names the client.
#[tokio::test]
async fn an_optional_certificate_names_the_client_if_it_is_valid() {
    let known = Certificates::new();
    let others = Certificates::new();
    let alice = known.signed("alice", "alice", &[]);
    for (mode, client, names) in [
        (SslMode::Require, &alice, &["alice"][..]),
        (SslMode::Prefer, &alice, &["alice"]),
        (SslMode::Require, &settings(SslMode::Require), &[]),
        (SslMode::Require, &others.signed("alice", "alice", &[]), &[]),
        (SslMode::Require, &known.version_1("old", "alice"), &[]),
    ] {
        let server = TlsSettings {
            sslmode: mode,
            ca_file: Some(known.authority_file()),
            ..known.signed("server", "db.example", &["db.example"])
        };
        let (accepted, connected) = handshake(&server, client, "db.example").await;
        assert_eq!(accepted.unwrap().certified_names(), names, "{client:?}");
        assert!(connected.is_ok());
    }
}

#[tokio::test]
async fn certificates_of_version_1_are_accepted_without_verification() {
    let known = Certificates::new();
    let old = known.version_1("old", "db.example");
    for versions in [TlsVersions::Both, TlsVersions::Tls12] {
        let client = TlsSettings {
            versions,
            ..settings(SslMode::Require)
        };
        assert_eq!(connects(&old, &client, "db.example").await, Ok(()));
    }
    // A listed certificate is its own authority.
    let listed = TlsSettings {
        ca_file: old.cert_file.clone(),
        ..settings(SslMode::VerifyFull)
    };
    assert_eq!(connects(&old, &listed, "db.example").await, Ok(()));
    assert!(connects(&old, &listed, "other.example").await.is_err());
    let strict = TlsSettings {
        ca_file: Some(known.authority_file()),
        ..settings(SslMode::VerifyCa)
    };
    assert!(connects(&old, &strict, "db.example").await.is_err());
    let swapped = TlsSettings {
        key_file: known.version_1("other", "other").key_file,
        ..old
    };
    let refused = Acceptor::new(&swapped).err().unwrap().to_string();
    assert!(refused.contains("KeyMismatch"), "{refused}");
}

/// The handshake must be signed with the key of the certificate.
#[tokio::test]
async fn a_certificate_of_version_1_needs_its_key() {
    let known = Certificates::new();
    let (old, other) = (known.version_1("old", "a"), known.version_1("other", "b"));
    let read = |side: &TlsSettings| files::identity(side).unwrap().unwrap();
    let stolen = rustls::sign::CertifiedKey::new(read(&old).cert, read(&other).key);
    for versions in [TlsVersions::Both, TlsVersions::Tls12] {
        let acceptor = Acceptor::with_identity(&old, stolen.clone()).unwrap();
        let client = TlsSettings {
            versions,
            ..settings(SslMode::Require)
        };
        let (_, connected) = handshake_with(&acceptor, &client, "a").await;
        let refused = connected.map(drop).unwrap_err().to_string();
        assert!(refused.contains("BadSignature"), "{refused}");
    }
}

#[test]
fn errors_name_the_missing_setting() {
    let known = Certificates::new();
    let shown = known.signed("server", "db.example", &[]);
    let error = |side: &TlsSettings| Acceptor::new(side).err().unwrap().to_string();
    let nothing = settings(SslMode::Require);
    assert_eq!(
        error(&nothing),
        "client_tls_sslmode = require needs client_tls_cert_file; set it to the path of a PEM file"
    );
    let verified = TlsSettings {
        sslmode: SslMode::VerifyCa,
        ..shown.clone()
    };
    assert!(error(&verified).contains("needs client_tls_ca_file"));
    let half = TlsSettings {
        key_file: None,
        ..shown.clone()
    };
    assert!(error(&half).contains("the private key of this certificate"));
    let swapped = TlsSettings {
        key_file: shown.cert_file.clone(),
        ..shown.clone()
    };
    assert!(error(&swapped).contains("there is none in PEM that is not encrypted"));
    let foreign = TlsSettings {
        key_file: known.signed("other", "other", &[]).key_file,
        ..shown
    };
    assert!(
        error(&foreign).contains("server.crt: "),
        "{}",
        error(&foreign)
    );
    let verifying = Connector::new(&settings(SslMode::VerifyFull));
    assert!(verifying.err().unwrap().to_string().contains("sslrootcert"));
}
