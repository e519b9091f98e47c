//! Bytes through a pair of sockets: in bulk, in crumbs, and to the end.

use super::super::tests::{Papers, protocols, side};
use super::*;
use crate::stream::Stream;
use paceline_config::{Protocols, Side, SslMode};
use std::time::Duration;
use tokio::net::UnixStream;

/// Whoever waits longer than this waits for ever.
const LIMIT: Duration = Duration::from_secs(20);

/// More than sockets and buffers hold.
const BULK_BYTES: usize = 6 * 1024 * 1024 + 17;

fn acceptor() -> Acceptor {
    let papers = Papers::new();
    let shown = papers.shown("server", "db.example", &["db.example"]);
    Acceptor::new(&shown).unwrap().unwrap()
}

fn connector(protocols: Protocols) -> Connector {
    let side = Side {
        protocols,
        ..side(SslMode::Require)
    };
    Connector::new(&side).unwrap()
}

/// The two ends of an encrypted connection over these sockets: the server's and the client's.
async fn join(one: UnixStream, other: UnixStream, protocols: Protocols) -> (Stream, Stream) {
    let (acceptor, connector) = (acceptor(), connector(protocols));
    let (mut server, mut client) = (Stream::unix(one), Stream::unix(other));
    let mut input = BytesMut::new();
    let (accepted, connected) = tokio::join!(
        accept(&server.socket, &acceptor, &mut input, false),
        connect(&client.socket, &connector, "db.example"),
    );
    let ((session, identity), connected) = (accepted.unwrap(), connected.unwrap());
    server.encrypt(session, identity);
    client.encrypt(connected.0, connected.1);
    assert!(input.is_empty());
    (server, client)
}

async fn pair(protocols: Protocols) -> (Stream, Stream) {
    let (one, other) = UnixStream::pair().unwrap();
    join(one, other, protocols).await
}

/// Bytes that are not alike anywhere near.
fn bulk(seed: u32, len: usize) -> BytesMut {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Reads and writes as a relay does: waits for what it still has to do, in both directions at once.
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
    for protocols in [protocols("tlsv1.3"), protocols("tlsv1.2")] {
        let (server, client) = pair(protocols).await;
        exchange_both(&server, &client, BULK_BYTES).await;
    }
}

/// When a write is over, nothing of it waits for another one: wherever the socket was full.
#[tokio::test]
async fn what_was_written_arrives_without_another_word() {
    let (server, client) = pair(protocols("secure")).await;
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

/// Records and handshakes may come in pieces of any size.
#[tokio::test]
async fn crumbs_are_put_together() {
    for step in [1, 7, 1000] {
        let [(one, left), (right, other)] = [(); 2].map(|()| UnixStream::pair().unwrap());
        let carrier = tokio::spawn(carry(left, right, step));
        let (server, client) = join(one, other, protocols("secure")).await;
        exchange_both(&server, &client, 20_000).await;
        carrier.abort();
    }
}

async fn carry(left: UnixStream, right: UnixStream, step: usize) {
    let (left, right) = (Stream::unix(left), Stream::unix(right));
    tokio::join!(crumble(&left, &right, step), crumble(&right, &left, step));
}

async fn crumble(from: &Stream, to: &Stream, step: usize) {
    let mut bytes = BytesMut::new();
    while from.read_some(&mut bytes).await.is_ok() {
        while !bytes.is_empty() {
            let mut crumb = bytes.split_to(step.min(bytes.len()));
            if to.write_all(&mut crumb).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn an_idle_connection_keeps_no_buffer() {
    let (mut server, client) = pair(protocols("secure")).await;
    exchange_both(&server, &client, 300_000).await;
    let session = server.session_mut();
    assert_eq!(session.incoming.capacity() + session.outgoing.capacity(), 0);
}

/// What comes right behind the handshake is not forgotten, nor waited for in vain.
#[tokio::test]
async fn words_behind_the_handshake_are_handed_on() {
    let (acceptor, connector) = (acceptor(), connector(protocols("tlsv1.3")));
    let (one, other) = UnixStream::pair().unwrap();
    let (server, client) = (Socket::Unix(one), Socket::Unix(other));
    let mut session = connector.session("db.example").unwrap();
    let mut nothing = BytesMut::new();
    session.open(&mut [], &mut nothing);
    let mut input = BytesMut::new();
    let accepting = accept(&server, &acceptor, &mut input, true);
    let hurrying = async {
        let mut scratch = vec![0; 64 * 1024];
        while session.state().is_handshaking() {
            assert!(session.flush(&client).unwrap());
            client.ready(Interest::READABLE).await.unwrap();
            hold_back(&mut session, &client, &mut scratch);
        }
        // The last of the handshake, words and a goodbye leave in one piece.
        let mut sealed = vec![0; 1000];
        let len = session.engine.seal(
            &mut session.incoming,
            b"words",
            &mut sealed,
            &mut BytesMut::new(),
        );
        session.outgoing.extend_from_slice(&sealed[..len.unwrap()]);
        let len = session.engine.close(&mut session.incoming, &mut sealed);
        session.outgoing.extend_from_slice(&sealed[..len.unwrap()]);
        assert!(session.flush(&client).unwrap());
        session
    };
    let (accepted, _session) = tokio::join!(accepting, hurrying);
    let (session, identity) = accepted.unwrap();
    let mut stream = match server {
        Socket::Unix(socket) => Stream::unix(socket),
        Socket::Tcp(socket) => Stream::tcp(socket),
    };
    stream.encrypt(session, identity);
    assert_eq!(input, "words");
    // The socket is open and silent, yet there is something to know.
    let silent = stream.socket.try_read(&mut [0]).unwrap_err();
    assert_eq!(silent.kind(), io::ErrorKind::WouldBlock);
    let woken = tokio::time::timeout(LIMIT, stream.readable()).await;
    woken.unwrap().unwrap();
    let end = stream.read_now(&mut input).unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
}

/// Reads without answering.
fn hold_back(session: &mut Session, socket: &Socket, scratch: &mut [u8]) {
    let len = socket.try_read(scratch).unwrap();
    session.open(&mut scratch[..len], &mut BytesMut::new());
}

#[tokio::test]
async fn the_last_words_are_read_before_the_end() {
    let (server, client) = pair(protocols("secure")).await;
    client.write_now(&mut BytesMut::from("last words")).unwrap();
    drop(client);
    let mut input = BytesMut::new();
    server.read_some(&mut input).await.unwrap();
    assert_eq!(input, "last words");
    for _ in 0..2 {
        let woken = tokio::time::timeout(LIMIT, server.readable()).await;
        woken.unwrap().unwrap();
        let end = server.read_now(&mut input).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }
}

/// Its socket alone is closed, and nothing was said before.
#[tokio::test]
async fn a_cut_connection_has_ended() {
    let (one, other) = UnixStream::pair().unwrap();
    let other = other.into_std().unwrap();
    let same = other.try_clone().unwrap();
    let (server, client) = join(
        one,
        UnixStream::from_std(other).unwrap(),
        protocols("secure"),
    )
    .await;
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
    let (server, client) = join(
        one,
        UnixStream::from_std(other).unwrap(),
        protocols("secure"),
    )
    .await;
    client.write_now(&mut BytesMut::from("good")).unwrap();
    // A record of application data that nobody has encrypted.
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
async fn what_cannot_be_encrypted_ends_the_connection() {
    let (mut server, _client) = pair(protocols("tlsv1.2")).await;
    let (elsewhere, _other) = UnixStream::pair().unwrap();
    let no_room = &mut [0; 4];
    let sealed = server
        .session_mut()
        .seal(&Socket::Unix(elsewhere), b"SELECT 1", no_room);
    sealed.unwrap_err();
    // Who waits for an answer to what was not sent must not wait for ever.
    tokio::time::timeout(LIMIT, server.readable())
        .await
        .unwrap()
        .unwrap();
    server.read_now(&mut BytesMut::new()).unwrap_err();
}

#[tokio::test]
async fn a_connection_is_worn_before_its_keys_are_used_up() {
    let (mut server, client) = pair(protocols("tlsv1.2")).await;
    server.session_mut().sealed = PIECES_MAX - 1;
    assert!(!server.is_worn());
    let mut last = BytesMut::from(&b"SELECT 1"[..]);
    server.write_all(&mut last).await.unwrap();
    assert!(server.is_worn() && !client.is_worn());
}
