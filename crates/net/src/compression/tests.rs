//! Blocks: divided in any way, kept apart, refused.

use super::block::{BLOCK_BYTES_MAX, BlockError, Form, Header};
use super::codec;
use super::decoder::Decoder;
use super::encoder::{COMPRESSED_BYTES_MIN, Encoder, FindEnd, Window};
use super::pace::Effort;
use bytes::BytesMut;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// In these tests an exchange ends with a line.
pub(super) fn lines() -> FindEnd {
    Box::new(|bytes| Some(bytes.iter().position(|byte| *byte == b'\n')? + 1))
}

fn encoder() -> Encoder {
    Encoder::new(Window::Exchange(lines()))
}

fn blocks_of(encoder: &mut Encoder, plain: &[u8], effort: Effort) -> Vec<u8> {
    let mut blocks = Vec::new();
    encoder.encode(plain, effort, &mut blocks);
    blocks
}

/// The plain bytes of blocks that arrive in parts.
fn decoded<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>, BlockError> {
    let mut decoder = Decoder::new(BytesMut::new());
    let mut plain = BytesMut::new();
    for part in parts {
        decoder.incoming().extend_from_slice(part);
        loop {
            let before = plain.len();
            let has_block = decoder.has_block();
            let more = decoder.decode(&mut plain)?;
            assert_eq!(more, has_block);
            assert!(plain.len() - before <= BLOCK_BYTES_MAX);
            if !more {
                break;
            }
        }
    }
    Ok(plain.to_vec())
}

/// The headers of these blocks.
fn headers(mut blocks: &[u8]) -> Vec<Header> {
    let mut headers = Vec::new();
    while let Some((header, len)) = Header::read(blocks).unwrap() {
        blocks = &blocks[len + header.content_len()..];
        headers.push(header);
    }
    headers
}

/// Lines of text, some long, some random.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        "[ -~]{0,300}".prop_map(String::into_bytes),
        ("[a-c]{1,20}", 1..9_000_usize).prop_map(|(word, times)| word.repeat(times).into_bytes()),
        prop::collection::vec(any::<u8>(), 0..3_000),
    ];
    let ended = (line, any::<bool>()).prop_map(|(mut line, ended)| {
        if ended {
            line.push(b'\n');
        }
        line
    });
    prop::collection::vec(ended, 0..12).prop_map(|lines| lines.concat())
}

fn runner() -> TestRunner {
    TestRunner::new(paceline_testing::cases(200))
}

#[test]
fn what_was_written_is_read_however_it_is_divided() {
    let effort = prop_oneof![Just(Effort::Store), (1..8).prop_map(Effort::Level)];
    let efforts = prop::collection::vec(effort, 1..5);
    let case = (
        text(),
        efforts,
        any::<bool>(),
        1..70_000_usize,
        1..5_000_usize,
    );
    let ran = runner().run(&case, |(plain, efforts, shared, written, read)| {
        let mut encoder = match shared {
            true => Encoder::new(Window::Connection),
            false => encoder(),
        };
        let mut blocks = Vec::new();
        let chunks = plain.chunks(written.min(BLOCK_BYTES_MAX));
        for (chunk, effort) in chunks.zip(efforts.iter().cycle()) {
            encoder.encode(chunk, *effort, &mut blocks);
        }
        prop_assert!(decoded(blocks.chunks(read)).unwrap() == plain);
        Ok(())
    });
    ran.unwrap();
}

/// The blocks of an exchange do not depend on earlier exchanges, unless the window is shared.
#[test]
fn an_exchange_is_compressed_as_if_it_were_the_first() {
    let secret = b"a secret that somebody else has sent a moment ago: 0123456789abcdef ".repeat(5);
    let line = |text: &[u8]| [text, b"\n"].concat();
    let (one, other) = (line(&secret), line(&secret));
    let level = Effort::Level(3);
    let alone = blocks_of(&mut encoder(), &other, level);
    let mut apart = encoder();
    blocks_of(&mut apart, &one, level);
    assert_eq!(blocks_of(&mut apart, &other, level), alone);
    // In one write, and behind an exchange that ends in it.
    let both = [one.as_slice(), &other].concat();
    assert!(blocks_of(&mut encoder(), &both, level).ends_with(&alone));
    let mut apart = encoder();
    blocks_of(&mut apart, &secret, level);
    let rest = [b"its end\n", other.as_slice()].concat();
    assert!(blocks_of(&mut apart, &rest, level).ends_with(&alone));

    let mut shared = Encoder::new(Window::Connection);
    blocks_of(&mut shared, &one, level);
    assert!(blocks_of(&mut shared, &other, level).len() < alone.len() / 2);
}

/// Pseudorandom bytes without the end of a line.
pub(super) fn noise(len: usize) -> Vec<u8> {
    let mut state = 7_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let bytes = std::iter::repeat_with(next).filter(|byte| *byte != b'\n');
    bytes.take(len).collect()
}

#[test]
fn a_long_exchange_keeps_its_window() {
    let mut encoder = encoder();
    let noise = noise(10_000);
    let first = blocks_of(&mut encoder, &noise, Effort::Level(3));
    let second = blocks_of(&mut encoder, &noise, Effort::Level(3));
    assert!(
        first.len() >= noise.len() && second.len() < 1_000,
        "{} {}",
        first.len(),
        second.len()
    );
    let both = [first, second].concat();
    assert_eq!(
        decoded([both.as_slice()]).unwrap(),
        [noise.as_slice(), &noise].concat()
    );
}

#[test]
fn short_exchanges_are_stored_in_one_block() {
    let plain =
        b"an answer of seventy bytes, which compression would not make shorter.\n".repeat(50);
    let blocks = blocks_of(&mut encoder(), &plain, Effort::Level(3));
    assert_eq!(blocks.len(), plain.len() + 3);
    assert_eq!(blocks[3..], plain);
    // The same bytes as one exchange.
    let long = plain.iter().map(|byte| byte.max(&b' ')).copied();
    let blocks = blocks_of(&mut encoder(), &long.collect::<Vec<u8>>(), Effort::Level(3));
    assert!(blocks.len() < COMPRESSED_BYTES_MIN, "{}", blocks.len());
}

#[test]
fn what_compression_does_not_shorten_is_stored() {
    let plain = noise(BLOCK_BYTES_MAX);
    let blocks = blocks_of(&mut encoder(), &plain, Effort::Level(3));
    let stored = Header {
        form: Form::Stored,
        plain_len: BLOCK_BYTES_MAX,
        last: false,
    };
    assert_eq!(headers(&blocks), [stored]);
    assert_eq!(blocks.len(), plain.len() + 3);
}

/// A block with this zstd frame that announces `plain_len` bytes.
fn block(frame: &[u8], plain_len: usize) -> Vec<u8> {
    let header = Header {
        form: Form::Zstd(frame.len()),
        plain_len,
        last: true,
    };
    let (bytes, len) = header.bytes();
    [&bytes[..len], frame].concat()
}

#[test]
fn other_bytes_are_refused() {
    let mut frame = vec![0; 1_000];
    let len = codec::compress(&[7; 60_000], &[], 3, &mut frame).unwrap();
    frame.truncate(len);
    assert_eq!(decoded([&*block(&frame, 60_000)]).unwrap(), [7; 60_000]);
    let longer = BlockError::Length {
        announced: 60_001,
        found: 60_000,
    };
    assert_eq!(decoded([&*block(&frame, 60_001)]), Err(longer));
    assert_eq!(
        decoded([&b"Z\0\0\0\x05I"[..]]),
        Err(BlockError::Flags(b'Z'))
    );
    assert_eq!(decoded([&b"\x04\0"[..]]), Err(BlockError::Flags(4)));
    let refused = |blocks: &[u8]| matches!(decoded([blocks]), Err(BlockError::Zstd(_)));
    // More than was announced, in one frame or in two.
    assert!(refused(&block(&frame, 59_999)));
    assert!(refused(&block(&[&*frame, &*frame].concat(), 60_000)));
    assert!(refused(&block(&frame[..frame.len() - 1], 60_000)));
    assert!(refused(&block(b"\0", 1)));
}

/// A broken block appends nothing and stays where it is.
#[test]
fn an_error_is_returned_each_time() {
    let mut decoder = Decoder::new(BytesMut::from(&*block(b"no frame", 9)));
    let mut plain = BytesMut::from("before");
    for _ in 0..2 {
        assert!(decoder.has_block());
        decoder.decode(&mut plain).unwrap_err();
        assert_eq!(plain, "before");
    }
}

#[test]
fn random_and_damaged_blocks_are_errors_or_data() {
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4);
    let ran = runner().run(&(text(), damage), |(plain, damage)| {
        let mut encoder = encoder();
        let mut blocks = Vec::new();
        for chunk in plain.chunks(20_000) {
            encoder.encode(chunk, Effort::Level(1), &mut blocks);
        }
        for (at, byte) in damage {
            if !blocks.is_empty() {
                let at = at.index(blocks.len());
                blocks[at] = byte;
            }
        }
        // The bounds are checked there.
        let _ = decoded(blocks.chunks(700));
        let _ = decoded(plain.chunks(700));
        Ok(())
    });
    ran.unwrap();
}

#[test]
fn a_header_is_incomplete_at_each_length() {
    for last in [false, true] {
        for form in [Form::Stored, Form::Zstd(1), Form::Zstd(BLOCK_BYTES_MAX)] {
            for plain_len in [1, 258, BLOCK_BYTES_MAX] {
                let header = Header {
                    form,
                    plain_len,
                    last,
                };
                let (bytes, len) = header.bytes();
                assert_eq!(Header::read(&bytes[..len]), Ok(Some((header, len))));
                for short in 0..len {
                    assert_eq!(Header::read(&bytes[..short]), Ok(None));
                }
            }
        }
    }
}
