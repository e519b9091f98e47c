//! In a process of its own: nothing else parses here.

#![expect(
    clippy::expect_used,
    reason = "a test that meets the unexpected has failed"
)]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::thread;

/// What standard error is.
fn standard_error() -> (u64, u64) {
    let own = io::stderr().as_fd().try_clone_to_owned();
    let metadata = File::from(own.expect("a descriptor")).metadata();
    let metadata = metadata.expect("what it is");
    (metadata.dev(), metadata.ino())
}

/// Earlier versions of the parser redirected it while they worked, and calls that overlapped left it pointing to a dead pipe.
#[test]
fn the_parser_leaves_standard_error_alone() {
    let before = standard_error();
    let parse = |thread: usize| {
        // Texts of many lengths: calls that begin one after the other end in another order.
        for n in 0..20 {
            let text = format!("select {thread}{}", ", 1".repeat(n * thread * 7));
            paceline_sql::parse(&text).expect("a statement");
            assert_eq!(standard_error(), before);
        }
    };
    thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || parse(thread));
        }
    });
    assert_eq!(standard_error(), before);
}
