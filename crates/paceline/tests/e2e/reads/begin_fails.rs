//! The BEGIN of a deferred transaction fails on the primary: the client, which has its answer, gets the error with its next request.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::READ;
use crate::failover::{SETUP, client, shown};
use crate::harness::cluster::Cluster;
use crate::harness::message::{describe, flush, parse, query, run, unit};
use crate::harness::paceline::Paceline;
use crate::harness::until;

/// Replacements of these texts for a server: a syntax error, and a column that does not exist.
const BROKEN: [(&[u8], &[u8]); 2] = [
    (b"BEGIN READ ONLY", b"BEGIN READ ONLX"),
    (b"SELECT WHERE false", b"SELECT WHERX false"),
];

/// No text is broken.
const NOTHING: usize = usize::MAX;

/// Listens for connections to the server at a port. While `breaks` is the place of a text in
/// [`BROKEN`], the server gets that instead. Returns the port that it listens on.
fn breaking(port: u16, breaks: &Arc<AtomicUsize>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    let breaks = Arc::clone(breaks);
    thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
                return;
            };
            let client = client.unwrap();
            let answers = (server.try_clone().unwrap(), client.try_clone().unwrap());
            let breaks = Arc::clone(&breaks);
            thread::spawn(move || {
                forward(client, server, |bytes| {
                    let Some((text, broken)) = BROKEN.get(breaks.load(Ordering::SeqCst)) else {
                        return;
                    };
                    let place = bytes.windows(text.len()).position(|part| part == *text);
                    if let Some(place) = place {
                        bytes[place..place + broken.len()].copy_from_slice(broken);
                    }
                });
            });
            thread::spawn(move || forward(answers.0, answers.1, |_| {}));
        }
    });
    own
}

fn forward(mut from: TcpStream, mut to: TcpStream, change: impl Fn(&mut [u8])) {
    let mut buffer = [0; 8192];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        change(&mut buffer[..len]);
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn a_begin_that_fails_fails_the_transaction() {
    let primary = Cluster::private();
    primary.client("postgres").ok(SETUP);
    let Some(replica) = primary.replica() else {
        return;
    };
    let breaks = Arc::new(AtomicUsize::new(NOTHING));
    let ports = [replica.port(), breaking(primary.port(), &breaks)];
    let [first, second] = ports.map(|port| format!("127.0.0.1:{port}"));
    let url = format!("postgres://postgres@{first},{second}/postgres");
    let paceline = Paceline::start(&url)
        .set("reads=session")
        .set("replica_wait=10s")
        .spawn();
    let reads = || shown(&paceline, replica.port(), &["reads"]);
    let mut one = client(&paceline);
    until("the replica answers", || {
        one.ok(READ);
        reads() != "0"
    });
    one.ok("BEGIN READ ONLY");
    one.ok(READ);
    breaks.store(0, Ordering::SeqCst);
    let reply = one.simple("SHOW transaction_read_only");
    assert_eq!((reply.sqlstate().as_str(), reply.status()), ("42601", 'E'));
    assert_eq!(reply.tags(), "EZ");
    breaks.store(NOTHING, Ordering::SeqCst);
    one.simple(READ).expect_error("25P02");
    assert_eq!(one.ok("COMMIT").tag(), "ROLLBACK");
    // The transaction has begun, and fails.
    one.ok("BEGIN READ ONLY");
    one.ok(READ);
    breaks.store(1, Ordering::SeqCst);
    let reply = one.simple("SHOW transaction_read_only");
    assert_eq!((reply.sqlstate().as_str(), reply.status()), ("42703", 'E'));
    assert_eq!(reply.tags(), "EZ");
    breaks.store(NOTHING, Ordering::SeqCst);
    one.simple(READ).expect_error("25P02");
    assert_eq!(one.ok("COMMIT").tag(), "ROLLBACK");
    // The client has not got the answer to BEGIN yet.
    breaks.store(0, Ordering::SeqCst);
    let reply = one.ask(&[run("BEGIN READ ONLY", &[]), unit("SELECT 1", &[])].concat());
    assert_eq!((reply.sqlstate().as_str(), reply.status()), ("42601", 'E'));
    assert_eq!(reply.tags(), "12CEZ");
    breaks.store(NOTHING, Ordering::SeqCst);
    one.simple(READ).expect_error("25P02");
    assert_eq!(one.ask(&unit("COMMIT", &[])).tag(), "ROLLBACK");
    // After the error of a request in parts, Paceline cannot distinguish further messages of the client from the rest of the request.
    one.ok("BEGIN READ ONLY");
    breaks.store(0, Ordering::SeqCst);
    one.send(&[parse("", READ, &[]), describe(b'S', ""), flush()].concat());
    let tags: Vec<u8> = one
        .receive_to_end()
        .iter()
        .map(|message| message.tag)
        .collect();
    assert_eq!(tags, b"E");
    breaks.store(NOTHING, Ordering::SeqCst);
    // Another client's request does not run twice, and not outside of its transaction.
    let mut two = client(&paceline);
    two.ok("BEGIN READ ONLY");
    breaks.store(0, Ordering::SeqCst);
    let write = "UPDATE t SET n = n + 1 WHERE id = 1";
    two.ask(&query(write)).expect_error("42601");
    assert_eq!(two.ok("ROLLBACK").status(), 'I');
    breaks.store(NOTHING, Ordering::SeqCst);
    assert_eq!(two.number(READ), 0);
}
