//! Compressed streams over sockets, plain and encrypted.

use super::*;
use crate::compression::tests::{lines, noise};
use crate::compression::{ByteCounts, CompressionSettings};
use crate::stream::Stream;
use crate::tls::tests::{Certificates, settings};
use crate::tls::{Acceptor, Connector, SslMode};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// A wait that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(20);

/// More than sockets and buffers hold.
const BULK_BYTES: usize = 6 * 1024 * 1024 + 17;

fn compress(stream: &mut Stream, counts: &Arc<ByteCounts>, received: &mut BytesMut) {
    let settings = CompressionSettings {
        level: 1,
        shared_window: false,
    };
    let compressor = Compressor::new(settings, Arc::clone(counts));
    stream.compress(Arc::new(compressor), lines(), received);
}

/// Two ends of a connection.
async fn uncompressed(encrypted: bool) -> (Stream, Stream) {
    let (one, other) = UnixStream::pair().unwrap();
    let (mut server, mut client) = (Stream::unix(one), Stream::unix(other));
    if encrypted {
        let certificates = Certificates::new();
        let signed = certificates.signed("server", "db.example", &["db.example"]);
        let acceptor = Acceptor::new(&signed).unwrap().unwrap();
        let connector = Connector::new(&settings(SslMode::Require)).unwrap();
        let mut input = BytesMut::new();
        let (accepted, connected) = tokio::join!(
            acceptor.accept(&mut server, &mut input, false),
            connector.connect(&mut client, "db.example"),
        );
        accepted.unwrap();
        connected.unwrap();
    }
    (server, client)
}

async fn pair(encrypted: bool) -> (Stream, Stream, Arc<ByteCounts>) {
    let (mut server, mut client) = uncompressed(encrypted).await;
    let counts = Arc::default();
    compress(&mut server, &counts, &mut BytesMut::new());
    compress(&mut client, &Arc::default(), &mut BytesMut::new());
    (server, client, counts)
}

/// Text that compression shortens, and noise.
fn bulk(len: usize) -> BytesMut {
    let noise = noise(20_000);
    let text = b"one row | another row | ".repeat(3_000);
    let parts = [noise.as_slice(), &text].concat();
    parts.iter().copied().cycle().take(len).collect()
}

/// Reads and writes as the relay does: in both directions at once, and waits only for the direction that has work left.
async fn exchange(stream: &Stream, mut out: BytesMut, wanted: usize) -> BytesMut {
    let mut input = BytesMut::new();
    loop {
        stream.write_now(&mut out).unwrap();
        assert_eq!(stream.has_partial_write(), !out.is_empty());
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
            let before = input.len();
            stream.read_now(&mut input).unwrap();
            assert!(input.len() - before < READ_BYTES + BLOCK_BYTES_MAX);
        }
    }
}

async fn exchange_both(one: &Stream, other: &Stream, len: usize) {
    let sent = bulk(len);
    let both = async {
        tokio::join!(
            exchange(one, sent.clone(), len),
            exchange(other, sent.clone(), len)
        )
    };
    let (at_one, at_other) = tokio::time::timeout(LIMIT, both).await.unwrap();
    assert!(at_one == sent && at_other == sent);
}

#[tokio::test]
async fn megabytes_go_both_ways_at_once() {
    for encrypted in [false, true] {
        let (server, client, counts) = pair(encrypted).await;
        exchange_both(&server, &client, BULK_BYTES).await;
        let [sent, received] = [&counts.sent, &counts.received];
        assert_eq!(sent.load(Ordering::Relaxed), BULK_BYTES as u64);
        assert_eq!(received.load(Ordering::Relaxed), BULK_BYTES as u64);
        for compressed in [&counts.sent_compressed, &counts.received_compressed] {
            let compressed = compressed.load(Ordering::Relaxed);
            // The number of compressed bytes depends on the speed of the sockets, but the first block is always compressed.
            assert!((1..BULK_BYTES as u64).contains(&compressed), "{compressed}");
        }
    }
}

/// When `write_all` returns, no block waits for another write, wherever the socket was full.
#[tokio::test]
async fn a_complete_write_arrives_without_another_write() {
    for encrypted in [false, true] {
        let (server, client, _) = pair(encrypted).await;
        for len in (100_000..1_500_000).step_by(200_000) {
            let sent = noise(len);
            let mut out = BytesMut::from(&*sent);
            let both = async {
                let writing = server.write_all(&mut out);
                tokio::join!(writing, exchange(&client, BytesMut::new(), len))
            };
            let (written, input) = tokio::time::timeout(LIMIT, both).await.unwrap();
            written.unwrap();
            assert!(input == sent);
        }
    }
}

/// A few bytes from the socket become megabytes. A reader gets them in parts, without another event of the socket.
#[tokio::test]
async fn blocks_that_are_left_make_the_stream_readable() {
    let (server, client, _) = pair(false).await;
    let sent = vec![b'x'; 4 << 20];
    server.write_all(&mut &*sent).await.unwrap();
    let mut input = BytesMut::new();
    while input.len() < sent.len() {
        let before = input.len();
        let readable = tokio::time::timeout(LIMIT, client.readable()).await;
        readable.unwrap().unwrap();
        assert!(client.read_now(&mut input).unwrap());
        assert!(input.len() - before < READ_BYTES + BLOCK_BYTES_MAX);
    }
    assert!(input == sent);
    assert!(!client.read_now(&mut input).unwrap());
}

#[tokio::test]
async fn blocks_that_arrived_before_compression_began_are_read() {
    let (mut server, mut client) = uncompressed(false).await;
    let counts = Arc::default();
    server.write_all(&mut &b"ready"[..]).await.unwrap();
    compress(&mut server, &counts, &mut BytesMut::new());
    server.write_all(&mut &b"compressed\n"[..]).await.unwrap();
    let mut input = BytesMut::new();
    while input.len() < 5 + 3 + 11 {
        client.read_some(&mut input).await.unwrap();
    }
    let mut received = input.split_off(5);
    compress(&mut client, &counts, &mut received);
    assert_eq!((&*input, received.len()), (&b"ready"[..], 0));
    let readable = tokio::time::timeout(LIMIT, client.readable()).await;
    readable.unwrap().unwrap();
    assert!(client.read_now(&mut received).unwrap());
    assert_eq!(received, "compressed\n");
}

#[tokio::test]
async fn other_bytes_end_the_connection_for_good() {
    let (mut server, client) = uncompressed(false).await;
    compress(&mut server, &Arc::default(), &mut BytesMut::new());
    client
        .write_all(&mut &b"\x02\0\x03goodQ\0\0\0\x05"[..])
        .await
        .unwrap();
    let mut input = BytesMut::new();
    for _ in 0..2 {
        server.readable().await.unwrap();
        let error = server.read_some(&mut input).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
    assert_eq!(input, "good");
}

#[tokio::test]
async fn the_last_bytes_are_read_before_the_end() {
    for encrypted in [false, true] {
        let (server, client, _) = pair(encrypted).await;
        let sent = vec![b'x'; 1 << 20];
        client.write_all(&mut &*sent).await.unwrap();
        drop(client);
        let reading = async {
            let mut input = BytesMut::new();
            while input.len() < sent.len() {
                server.read_some(&mut input).await.unwrap();
            }
            server.read_some(&mut input).await.unwrap_err()
        };
        let end = tokio::time::timeout(LIMIT, reading).await.unwrap();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }
}

/// Between two exchanges, whatever their lengths.
#[test]
fn an_idle_connection_keeps_no_buffer() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (one, other) = UnixStream::pair().unwrap();
        let [one, other] =
            [one, other].map(|socket| Transport::plain(crate::socket::Socket::Unix(socket)));
        let [mut near, mut far] = [(); 2].map(|()| {
            let settings = CompressionSettings {
                level: 1,
                shared_window: false,
            };
            let compressor = Compressor::new(settings, Arc::default());
            CompressionSession::new(Arc::new(compressor), lines(), BytesMut::new())
        });
        let mut out = bulk(500_000);
        out.extend_from_slice(b"\n");
        let len = out.len();
        let (mut scratch, mut input) = (vec![0; READ_BYTES], BytesMut::new());
        while input.len() < len {
            near.write(&one, &mut out).unwrap();
            far.read(&other, &mut scratch, &mut input).unwrap();
            tokio::task::yield_now().await;
        }
        for session in [near, far] {
            assert_eq!(session.outgoing.capacity(), 0);
            assert_eq!(session.encoder.capacity(), 0);
            assert_eq!(session.decoder.capacity(), 0);
        }
    });
}
