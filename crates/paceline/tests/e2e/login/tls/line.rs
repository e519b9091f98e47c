//! A raw client over TLS, so that a test decides about every byte.

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::LOGIN;
use super::papers::papers;
use crate::harness::message;
use crate::harness::raw::{Line, RawClient, socket};

type Encrypted = StreamOwned<ClientConnection, TcpStream>;

impl Line for Encrypted {
    /// By TLS only: the socket stays open.
    fn close_sending(&mut self) {
        self.conn.send_close_notify();
        let _ = self.conn.write_tls(&mut self.sock);
    }
}

/// A client that has shaken hands after asking for it.
#[track_caller]
pub(super) fn asked(port: u16) -> RawClient {
    let socket = socket(port);
    request(&socket);
    RawClient::over(port, Box::new(encrypted(socket, &[])))
}

/// One that begins with TLS, and names these protocols.
pub(super) fn direct(port: u16, protocols: &[&str]) -> RawClient {
    RawClient::over(port, Box::new(encrypted(socket(port), protocols)))
}

/// One that has also logged in.
#[track_caller]
pub(super) fn client(port: u16) -> RawClient {
    match asked(port).try_log_in(&LOGIN) {
        Ok(client) => client,
        Err(fields) => panic!("login failed: {fields:?}"),
    }
}

/// One that is logged in, and its socket, to be cut.
#[track_caller]
pub(super) fn client_and_socket(port: u16) -> (RawClient, TcpStream) {
    let socket = socket(port);
    let same = socket.try_clone().unwrap();
    request(&socket);
    let client = RawClient::over(port, Box::new(encrypted(socket, &[])));
    (
        client
            .try_log_in(&LOGIN)
            .unwrap_or_else(|e| panic!("{e:?}")),
        same,
    )
}

/// Cuts without a word of TLS.
pub(super) fn cut(socket: &TcpStream) {
    socket.shutdown(Shutdown::Both).unwrap();
}

#[track_caller]
fn request(mut socket: &TcpStream) {
    use std::io::{Read, Write};
    socket.write_all(&message::ssl_request()).unwrap();
    let mut answer = [0];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"S");
}

fn encrypted(socket: TcpStream, protocols: &[&str]) -> Encrypted {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(papers().authority()).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let mut config = builder
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let protocols = protocols.iter().map(|name| name.as_bytes().to_vec());
    config.alpn_protocols = protocols.collect();
    let name = "localhost".try_into().unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(connection, socket)
}
