//! Answers that arrive in parts, and logins that fail.

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
fn an_answer_is_the_same_however_it_is_split() {
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
        let mut last = AnswerState::Incomplete;
        for bytes in answer.chunks(size) {
            assert_eq!(last, AnswerState::Incomplete);
            last = feed(&mut input, bytes, &mut status, &mut refused, &mut on_frame).unwrap();
        }
        assert_eq!(seen, whole, "{size} bytes at a time");
        assert_eq!((last, status), (AnswerState::Ready, Status::Transaction));
        assert!(input.is_empty() && refused.is_none());
    }
}

#[test]
fn an_error_waits_for_ready_and_an_invalid_length_does_not() {
    let mut out = BytesMut::new();
    paceline_wire::ErrorResponse::error("22012", "division by zero").write(&mut out);
    let (mut input, mut status, mut refused) = (BytesMut::new(), Status::Idle, None);
    let incomplete = feed(&mut input, &out, &mut status, &mut refused, &mut |_| false);
    assert_eq!(incomplete.unwrap(), AnswerState::Incomplete);
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

/// The failure of a login at a server that sends `answer` and closes the connection.
fn login(answer: &[u8]) -> Failure {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = Target::on_loopback("brief", port, "nobody", "nothing");
        let answers = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut startup = [0; 1_024];
            tokio::io::AsyncReadExt::read(&mut stream, &mut startup)
                .await
                .unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stream, answer)
                .await
                .unwrap();
        };
        tokio::join!(Connection::open(&target), answers)
            .0
            .unwrap_err()
    })
}

#[test]
fn a_failed_login_leaves_no_work_in_doubt() {
    let mut starting = BytesMut::new();
    paceline_wire::ErrorResponse::error("57P03", "it is starting up").write(&mut starting);
    for (answer, kind) in [
        (&starting[..], "57P03"),
        (b"", "unreachable"),
        (b"Z\0\0\0\0", "unreachable"),
    ] {
        let failure = login(answer);
        assert_eq!(failure.kind(), kind, "{failure}");
        assert!(!failure.is_in_doubt(), "{failure}");
    }
}
