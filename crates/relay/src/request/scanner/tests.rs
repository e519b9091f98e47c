//! The end of requests, and which of them may join a group.

use super::*;
use bytes::{BufMut, BytesMut};
use paceline_wire::frame;

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    frame::write(&mut out, tag, |out| out.put_slice(body));
    out.to_vec()
}

/// Messages by letter. Lower case: may be part of a request that joins a group. Upper case: may not.
fn messages(letters: &str) -> Vec<Vec<u8>> {
    let one = |letter| match letter {
        'p' => message(b'P', b"\0SELECT 1\0\0\0"),
        'n' => message(b'P', b"name\0SELECT 1\0\0\0"),
        'b' => message(b'B', b"\0\0\0\0\0\0\0\0"),
        'B' => message(b'B', b"portal\0\0\0\0\0\0\0\0"),
        'd' => message(b'D', b"P\0"),
        'D' => message(b'D', b"S\0"),
        'e' => message(b'E', &[0; 5]),
        'E' => message(b'E', b"\0\0\0\0\x07"),
        'c' => message(b'C', b"Sname\0"),
        'C' => message(b'C', b"Pportal\0"),
        'q' => message(b'Q', b"SELECT 1\0"),
        's' => message(b'S', b""),
        other => panic!("{other}"),
    };
    letters.chars().map(one).collect()
}

#[test]
fn a_request_ends_at_sync_query_or_flush_however_it_arrives() {
    let out = messages("bes").concat();
    let first = out.len();
    let out = [out, messages("q").concat()].concat();
    let mut scanner = RequestScanner::default();
    for len in 0..first {
        assert_eq!(scanner.scan(&out[..len]), Ok(Boundary::Incomplete), "{len}");
    }
    assert_eq!(scanner.scan(&out), Ok(Boundary::Complete(first)));
    let rest = &out[first..];
    assert_eq!(scanner.scan(rest), Ok(Boundary::Complete(rest.len())));
    assert_eq!(scanner.scan(b"X\0\0\0\x04"), Ok(Boundary::Terminate(5)));
}

#[test]
fn a_flush_belongs_to_the_request_that_it_follows() {
    let flush = message(b'H', b"");
    let mut scanner = RequestScanner::default();
    assert_eq!(scanner.scan(&flush), Ok(Boundary::Ignored(5)));
    let out = [messages("p").concat(), flush].concat();
    assert_eq!(scanner.scan(&out), Ok(Boundary::Relay(out.len())));
}

#[test]
fn messages_of_a_copy_that_has_ended_belong_to_no_request() {
    let query = messages("q").concat();
    for first in [
        message(b'd', &[b'Q'; 1000]),
        message(b'c', b""),
        message(b'f', b"why\0"),
    ] {
        let out = [&*first, &*query].concat();
        let mut scanner = RequestScanner::default();
        assert_eq!(scanner.scan(&out), Ok(Boundary::Ignored(first.len())));
        assert_eq!(
            scanner.scan(&query),
            Ok(Boundary::Complete(query.len())),
            "behind it"
        );
        // In parts.
        let mut at = 0;
        while at < first.len() {
            let arrived = (at + 7).min(first.len());
            match scanner.scan(&out[at..arrived]).unwrap() {
                Boundary::Ignored(len) => at += len,
                Boundary::Incomplete => unreachable!("{at}"),
                other => panic!("{other:?}"),
            }
            assert_eq!(scanner.is_in_ignored(), at < first.len());
            assert_eq!(scanner.scan(b""), Ok(Boundary::Incomplete));
        }
        assert_eq!(scanner.scan(&query), Ok(Boundary::Complete(query.len())));
    }
}

#[test]
fn only_requests_that_may_join_a_group_are_awaited() {
    for letters in [
        "p", "pb", "pbd", "pbde", "pbE", "nbe", "b", "be", "bde", "n", "nn", "ncn", "c",
    ] {
        let out = messages(letters).concat();
        let mut scanner = RequestScanner::default();
        assert_eq!(scanner.scan(&out), Ok(Boundary::Incomplete), "{letters}");
        assert!(scanner.awaits_more(), "{letters}");
        // A client that pauses does not wait for an answer.
        assert_eq!(scanner.give_up(), Boundary::Relay(out.len()), "{letters}");
        assert!(!scanner.awaits_more());
    }
    for letters in [
        "pp", "pn", "np", "B", "pB", "pD", "D", "pd", "pbD", "pbdd", "E", "e", "pe", "C", "pc",
        "nC", "bb", "beb", "bep", "pbec", "pbdeb", "cb", "ncb", "cp",
    ] {
        let parts = messages(letters);
        let (last, before) = parts.split_last().unwrap();
        let before = before.concat();
        let mut scanner = RequestScanner::default();
        assert_eq!(scanner.scan(&before), Ok(Boundary::Incomplete), "{letters}");
        let whole = [&before[..], last].concat();
        // Not before the message is complete.
        let cut = whole.len() - 1;
        assert_eq!(scanner.scan(&whole[..cut]), Ok(Boundary::Incomplete));
        let found = scanner.scan(&whole);
        assert_eq!(found, Ok(Boundary::Relay(whole.len())), "{letters}");
    }
}

#[test]
fn a_request_with_its_end_is_complete() {
    for letters in ["ppbebes", "Bes", "Ds", "beq", "pq", "cbs"] {
        let out = messages(letters).concat();
        let found = RequestScanner::default().scan(&out);
        assert_eq!(found, Ok(Boundary::Complete(out.len())), "{letters}");
    }
}

#[test]
fn a_complete_long_request_that_cannot_join_a_group_is_relayed_in_parts() {
    let pair = messages("be").concat();
    let mut out = pair.repeat(10_000);
    out.extend(messages("s").concat());
    let mut scanner = RequestScanner::default();
    let Ok(Boundary::Relay(part)) = scanner.scan(&out) else {
        panic!("it cannot join a group");
    };
    assert!(part <= PART_BYTES_MAX && part > PART_BYTES_MAX - pair.len());
    assert_eq!(
        Frames::new(&out[..part])
            .map(|f| f.bytes.len())
            .sum::<usize>(),
        part
    );
    // A request that may join a group is not relayed in parts.
    let long = message(b'B', &[&[0, 0, 0, 0, 0, 1][..], &[0; 20_000]].concat());
    let out = [long, messages("es").concat()].concat();
    assert_eq!(scanner.scan(&out), Ok(Boundary::Complete(out.len())));
    // The request has too many Parse messages to be answered as one that only prepares.
    let out = [messages("n").concat().repeat(1_000), messages("s").concat()].concat();
    assert!(matches!(scanner.scan(&out), Ok(Boundary::Relay(part)) if part <= PART_BYTES_MAX));
}

#[test]
fn a_long_request_is_relayed_in_whole_messages() {
    let mut out = BytesMut::new();
    frame::write(&mut out, b'P', |b| {
        b.put_u8(0);
        b.put_bytes(b'x', REQUEST_BYTES_MAX);
    });
    let whole = out.len();
    out.put_slice(b"B\0\0");
    let mut scanner = RequestScanner::default();
    assert_eq!(scanner.scan(&out), Ok(Boundary::Relay(whole)));
}

#[test]
fn a_long_message_is_relayed_while_it_arrives() {
    for (tag, long) in [(b'Q', true), (b'B', true), (b'P', false), (b'F', false)] {
        let whole = message(tag, &vec![0; LONG_MESSAGE_MIN]);
        let mut scanner = RequestScanner::default();
        for len in [4, 5, 100_000, whole.len()] {
            let found = scanner.scan(&whole[..len]);
            assert_eq!(
                found == Ok(Boundary::Long(0)),
                long && len > 4,
                "{tag} {len}"
            );
        }
        let before = messages("pb").concat();
        let found = scanner.scan(&[before.clone(), whole].concat()[..before.len() + 9]);
        assert_eq!(found == Ok(Boundary::Long(before.len())), long, "{tag}");
    }
}

/// Not a measurement. If each byte costs a walk over those before it, the test does not end.
#[test]
fn a_request_that_arrives_byte_by_byte_is_scanned_once() {
    let names = messages("n").concat().repeat(PART_BYTES_MAX / 24 - 1);
    let mut scanner = RequestScanner::default();
    for len in 0..names.len() {
        assert_eq!(scanner.scan(&names[..len]), Ok(Boundary::Incomplete));
    }
    let long = message(b'B', &[0; 200_000]);
    let mut scanner = RequestScanner::default();
    for len in 0..long.len() {
        assert_eq!(scanner.scan(&long[..len]), Ok(Boundary::Incomplete));
    }
}

#[test]
fn unknown_message_types_are_errors() {
    assert_eq!(
        RequestScanner::default().scan(b"G\0\0\0\x04"),
        Err(WireError::Tag(b'G'))
    );
}
