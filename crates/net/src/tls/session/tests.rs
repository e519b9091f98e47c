//! Bytes through a pair of sockets: in bulk, in small parts, and to the end.

use super::*;
use crate::stream::Stream;
use crate::tls::tests::{Certificates, settings};
use crate::tls::{Acceptor, Connector, SslMode, TlsSettings, TlsVersions};
use std::time::Duration;
use tokio::net::UnixStream;

/// A wait that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(20);

/// More than sockets and buffers hold.
const BULK_BYTES: usize = 6 * 1024 * 1024 + 17;

fn acceptor() -> Acceptor {
    let certificates = Certificates::new();
    let signed = certificates.signed("server", "db.example", &["db.example"]);
    Acceptor::new(&signed).unwrap().unwrap()
}

fn connector(versions: TlsVersions) -> Connector {
    let settings = TlsSettings {
        versions,
        ..settings(SslMode::Require)
    };
    Connector::new(&settings).unwrap()
}

/// The two ends of an encrypted connection over these sockets: the server's and the client's.
async fn join(one: UnixStream, other: UnixStream, versions: TlsVersions) -> (Stream, Stream) {
    let (acceptor, connector) = (acceptor(), connector(versions));
    let (mut server, mut client) = (Stream::unix(one), Stream::unix(other));
    let mut input = BytesMut::new();
    let (accepted, connected) = tokio::join!(
        acceptor.accept(&mut server, &mut input, false),
        connector.connect(&mut client, "db.example"),
    );
    accepted.unwrap();
    connected.unwrap();
    assert!(input.is_empty());
    (server, client)
}

async fn pair(versions: TlsVersions) -> (Stream, Stream) {
    let (one, other) = UnixStream::pair().unwrap();
    join(one, other, versions).await
}

/// Pseudorandom bytes.
fn bulk(seed: u32, len: usize) -> BytesMut {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Reads and writes as the relay does: in both directions at once, and waits only for the direction that has work left.
async fn exchange(stream: &Stream, mut out: BytesMut, wanted: usize) -> BytesMut {
    let mut input = BytesMut::new();
    loop {
        stream.write_now(&mut out).unwrap();
        if input.len() >= wanted && out.is_empty() {
            return input;
        }
        let interest = match (input.len() < wanted, out.is_empty()) {
            (true, true) => Interest::READABLE,
            (true, false) => Interest::READABLE | Interest::WRITABLE,
            (false, _) => Interest::WRITABLE,
        };
        stream.ready(interest).await.unwrap();
        if input.len() < wanted {
            stream.read_now(&mut input).unwrap();
        }
    }
}

async fn exchange_both(one: &Stream, other: &Stream, len: usize) {
    let (there, back) = (bulk(1, len), bulk(2, len));
    let both = async {
        tokio::join!(
            exchange(one, there.clone(), len),
            exchange(other, back.clone(), len)
        )
    };
    let (at_one, at_other) = tokio::time::timeout(LIMIT, both).await.unwrap();
    assert!(at_one == back && at_other == there);
}

#[tokio::test]
async fn megabytes_go_both_ways_at_once() {
    for versions in [TlsVersions::Tls13, TlsVersions::Tls12] {
        let (server, client) = pair(versions).await;
        exchange_both(&server, &client, BULK_BYTES).await;
    }
}

/// When `write_all` returns, no record waits for another write, wherever the socket was full.
#[tokio::test]
async fn a_complete_write_arrives_without_another_write() {
    let (server, client) = pair(TlsVersions::Both).await;
    for len in (100_000..600_000).step_by(20_000) {
        let sent = bulk(3, len);
        let mut out = sent.clone();
        let both = async {
            let writing = server.write_all(&mut out);
            tokio::join!(writing, exchange(&client, BytesMut::new(), len))
        };
        let (written, input) = tokio::time::timeout(LIMIT, both).await.unwrap();
        written.unwrap();
        assert!(input == sent);
    }
}

/// Records and handshakes may arrive in parts of any size.
#[tokio::test]
async fn small_parts_are_put_together() {
    for step in [1, 7, 1000] {
        let [(one, left), (right, other)] = [(); 2].map(|()| UnixStream::pair().unwrap());
        let forwarder = tokio::spawn(forward(left, right, step));
        let (server, client) = join(one, other, TlsVersions::Both).await;
        exchange_both(&server, &client, 20_000).await;
        forwarder.abort();
    }
}

async fn forward(left: UnixStream, right: UnixStream, step: usize) {
    let (left, right) = (Stream::unix(left), Stream::unix(right));
    tokio::join!(
        forward_in_parts(&left, &right, step),
        forward_in_parts(&right, &left, step)
    );
}

async fn forward_in_parts(from: &Stream, to: &Stream, step: usize) {
    let mut bytes = BytesMut::new();
    while from.read_some(&mut bytes).await.is_ok() {
        while !bytes.is_empty() {
            let mut part = bytes.split_to(step.min(bytes.len()));
            if to.write_all(&mut part).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn an_idle_connection_keeps_no_buffer() {
    let (mut server, client) = pair(TlsVersions::Both).await;
    exchange_both(&server, &client, 300_000).await;
    let session = server.session_mut();
    assert_eq!(session.incoming.capacity() + session.outgoing.capacity(), 0);
}

/// Bytes that arrive together with the end of the handshake are returned, and so is the end of the stream.
#[tokio::test]
async fn bytes_behind_the_handshake_are_returned() {
    let (acceptor, connector) = (acceptor(), connector(TlsVersions::Tls13));
    let (one, other) = UnixStream::pair().unwrap();
    let (mut stream, client) = (Stream::unix(one), Socket::Unix(other));
    let mut session = connector.session("db.example").unwrap();
    let mut nothing = BytesMut::new();
    session.decrypt(&mut [], &mut nothing);
    let mut input = BytesMut::new();
    let accepting = acceptor.accept(&mut stream, &mut input, true);
    let connecting = async {
        let mut scratch = vec![0; 64 * 1024];
        while session.state().is_handshaking() {
            assert!(session.flush(&client).unwrap());
            client.ready(Interest::READABLE).await.unwrap();
            read_without_answer(&mut session, &client, &mut scratch);
        }
        // The end of the handshake, data and close_notify are sent together.
        let mut buf = vec![0; 1000];
        let len = session.engine.encrypt(
            &mut session.incoming,
            b"bytes",
            &mut buf,
            &mut BytesMut::new(),
        );
        session.outgoing.extend_from_slice(&buf[..len.unwrap()]);
        let len = session.engine.close(&mut session.incoming, &mut buf);
        session.outgoing.extend_from_slice(&buf[..len.unwrap()]);
        assert!(session.flush(&client).unwrap());
        session
    };
    let (accepted, _session) = tokio::join!(accepting, connecting);
    accepted.unwrap();
    assert_eq!(input, "bytes");
    // The socket is open and has no bytes, but the stream has ended.
    let silent = stream.socket().try_read(&mut [0]).unwrap_err();
    assert_eq!(silent.kind(), io::ErrorKind::WouldBlock);
    let woken = tokio::time::timeout(LIMIT, stream.readable()).await;
    woken.unwrap().unwrap();
    let end = stream.read_now(&mut input).unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
}

/// Reads without answering.
fn read_without_answer(session: &mut TlsSession, socket: &Socket, scratch: &mut [u8]) {
    let len = socket.try_read(scratch).unwrap();
    session.decrypt(&mut scratch[..len], &mut BytesMut::new());
}

#[tokio::test]
async fn the_last_bytes_are_read_before_the_end() {
    let (server, client) = pair(TlsVersions::Both).await;
    client.write_now(&mut BytesMut::from("last bytes")).unwrap();
    drop(client);
    let mut input = BytesMut::new();
    server.read_some(&mut input).await.unwrap();
    assert_eq!(input, "last bytes");
    for _ in 0..2 {
        let woken = tokio::time::timeout(LIMIT, server.readable()).await;
        woken.unwrap().unwrap();
        let end = server.read_now(&mut input).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }
}

/// The socket is closed without close_notify.
#[tokio::test]
async fn a_closed_socket_ends_the_connection() {
    let (one, other) = UnixStream::pair().unwrap();
    let other = other.into_std().unwrap();
    let same = other.try_clone().unwrap();
    let (server, client) = join(one, UnixStream::from_std(other).unwrap(), TlsVersions::Both).await;
    same.shutdown(std::net::Shutdown::Both).unwrap();
    let mut input = BytesMut::new();
    let end = server.read_some(&mut input).await.unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    drop(client);
}

#[tokio::test]
async fn forged_bytes_end_the_connection_for_good() {
    let (one, other) = UnixStream::pair().unwrap();
    let other = other.into_std().unwrap();
    let forger = UnixStream::from_std(other.try_clone().unwrap());
    let (server, client) = join(one, UnixStream::from_std(other).unwrap(), TlsVersions::Both).await;
    client.write_now(&mut BytesMut::from("good")).unwrap();
    // A record of application data that was not encrypted with the keys of the connection.
    let forged = [0x17, 3, 3, 0, 24].iter().chain(&[7; 24]).copied();
    let mut forged: BytesMut = forged.collect();
    Stream::unix(forger.unwrap())
        .write_now(&mut forged)
        .unwrap();
    let mut input = BytesMut::new();
    server.read_some(&mut input).await.unwrap();
    assert_eq!(input, "good");
    for _ in 0..2 {
        server.readable().await.unwrap();
        let error = server.read_some(&mut input).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
    assert!(server.write_now(&mut BytesMut::from("more")).is_err());
}

#[tokio::test]
async fn a_failed_encryption_ends_the_connection() {
    let (mut server, _client) = pair(TlsVersions::Tls12).await;
    let (elsewhere, _other) = UnixStream::pair().unwrap();
    let no_room = &mut [0; 4];
    let encrypted = server
        .session_mut()
        .encrypt(&Socket::Unix(elsewhere), b"SELECT 1", no_room);
    encrypted.unwrap_err();
    // A caller that waits for the answer must find the end: the message was never sent.
    tokio::time::timeout(LIMIT, server.readable())
        .await
        .unwrap()
        .unwrap();
    server.read_now(&mut BytesMut::new()).unwrap_err();
}

#[tokio::test]
async fn a_connection_needs_replacement_before_its_keys_are_used_up() {
    let (mut server, client) = pair(TlsVersions::Tls12).await;
    server.session_mut().chunks = CHUNKS_MAX - 1;
    assert!(!server.needs_replacement());
    let mut last = BytesMut::from(&b"SELECT 1"[..]);
    server.write_all(&mut last).await.unwrap();
    assert!(server.needs_replacement() && !client.needs_replacement());
}
