//! The blocks of a peer on a compressed connection: they are data or an error, and never more at once than a read may return.

use std::cell::RefCell;
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use bytes::BytesMut;
use paceline_net::{CompressionSettings, Compressor, Stream};
use tokio::runtime::{Builder, Runtime};

use super::fuzz;
use super::targets::outcome;

/// Maximum bytes of one read: less than 64 KiB, and a block.
const READ_BYTES_MAX: usize = 128 * 1024;

thread_local! {
    static RUNTIME: RefCell<Runtime> = RefCell::new(Builder::new_current_thread().enable_all().build().unwrap());
}

#[test]
fn compressed_blocks() {
    fuzz("blocks", |input| {
        RUNTIME.with_borrow(|runtime| runtime.block_on(read_all(input)))
    });
}

async fn read_all(input: &[u8]) -> u64 {
    let (mut peer, near) = UnixStream::pair().unwrap();
    // An input is shorter than the buffer of a socket.
    peer.write_all(input).unwrap();
    drop(peer);
    near.set_nonblocking(true).unwrap();
    let near = tokio::net::UnixStream::from_std(near).unwrap();
    let mut stream = Stream::unix(near);
    let settings = CompressionSettings {
        level: 1,
        shared_window: false,
    };
    let compressor = Compressor::new(settings, Arc::default());
    let never = Box::new(|_: &[u8]| None);
    stream.compress(Arc::new(compressor), never, &mut BytesMut::new());
    let (mut plain, mut reads, mut bytes) = (BytesMut::new(), 0, 0);
    let end = loop {
        plain.clear();
        match stream.read_some(&mut plain).await {
            Ok(()) => {
                assert!((1..READ_BYTES_MAX).contains(&plain.len()));
                reads += 1;
                bytes += plain.len();
            }
            Err(error) => break error,
        }
    };
    assert!(
        matches!(
            end.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::InvalidData
        ),
        "{end}"
    );
    let refused = end.kind() == ErrorKind::InvalidData;
    outcome((
        reads,
        bytes.checked_ilog2(),
        refused.then(|| end.to_string()),
    ))
}
