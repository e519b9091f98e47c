//! Answers that come in pieces.

use super::*;

/// An answer of three rows, one of them long.
fn answer() -> BytesMut {
    let mut out = BytesMut::new();
    for row in ["a", &"b".repeat(300), ""] {
        backend::write_row(&mut out, [Some(row.as_bytes())].into_iter());
    }
    backend::write_command_complete(&mut out, "SELECT 3");
    Status::Transaction.write(&mut out);
    out
}

#[test]
fn an_answer_is_the_same_however_it_is_torn_apart() {
    let answer = answer();
    let whole: Vec<(u8, Vec<u8>)> = Frames::new(&answer)
        .map(|frame| (frame.tag, frame.body().to_vec()))
        .filter(|(tag, _)| *tag != tag::READY_FOR_QUERY)
        .collect();
    for size in 1..=answer.len() {
        let (mut input, mut status, mut refused) = (BytesMut::new(), Status::Idle, None);
        let mut seen = Vec::new();
        let mut on_frame = |frame: Frame<'_>| {
            seen.push((frame.tag, frame.body().to_vec()));
            false
        };
        let mut last = Feed::Wanting;
        for bytes in answer.chunks(size) {
            assert_eq!(last, Feed::Wanting);
            last = feed(&mut input, bytes, &mut status, &mut refused, &mut on_frame).unwrap();
        }
        assert_eq!(seen, whole, "{size} bytes at a time");
        assert_eq!((last, status), (Feed::Ready, Status::Transaction));
        assert!(input.is_empty() && refused.is_none());
    }
}

#[test]
fn an_error_is_told_when_it_comes_and_a_broken_length_at_once() {
    let mut out = BytesMut::new();
    paceline_wire::ErrorResponse::error("22012", "division by zero").write(&mut out);
    let (mut input, mut status, mut refused) = (BytesMut::new(), Status::Idle, None);
    let wanting = feed(&mut input, &out, &mut status, &mut refused, &mut |_| false);
    assert_eq!(wanting.unwrap(), Feed::Wanting);
    assert_eq!(refused.as_ref().map(Failure::kind), Some("22012"));
    let broken = feed(
        &mut input,
        b"Z\0\0\0\0",
        &mut status,
        &mut refused,
        &mut |_| false,
    );
    assert!(broken.is_err());
}
