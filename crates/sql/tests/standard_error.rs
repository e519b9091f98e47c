//! This test has a process of its own, in which no other test parses.

#![expect(clippy::expect_used, reason = "an unexpected value fails the test")]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::thread;

/// Device and inode of standard error.
fn standard_error() -> (u64, u64) {
    let own = io::stderr().as_fd().try_clone_to_owned();
    let metadata = File::from(own.expect("a descriptor")).metadata();
    let metadata = metadata.expect("metadata");
    (metadata.dev(), metadata.ino())
}

/// Earlier versions of the parser redirected standard error while they parsed, and concurrent calls left it connected
/// to a closed pipe.
#[test]
fn the_parser_does_not_redirect_standard_error() {
    let before = standard_error();
    let parse = |thread: usize| {
        // Texts of different lengths, so that the calls end in another order than they start.
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
