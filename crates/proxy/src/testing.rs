//! For tests: files of the repository that are made from the code, peers.

use paceline_net::Peer;
use std::net::SocketAddr;
use std::path::Path;

/// Fails unless the file at `path`, from the root of the repository on, is what `make` makes of its text. With `PACELINE_KEEP=1`
/// in the environment it is written instead.
#[track_caller]
pub(crate) fn kept(path: &str, make: impl FnOnce(&str) -> String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join(path);
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let made = make(&text);
    if text == made {
        return;
    }
    if std::env::var_os("PACELINE_KEEP").is_some() {
        return std::fs::write(&file, made).unwrap();
    }
    let (line, expected) = first_difference(&text, &made);
    panic!("{path}:{line} should be: {expected}\nrun the tests with PACELINE_KEEP=1 to write it");
}

/// A TCP peer with this IP address.
pub(crate) fn tcp_peer(ip: &str) -> Peer {
    let address = SocketAddr::new(ip.parse().unwrap(), 1);
    Peer::tcp(address, address).unwrap()
}

fn first_difference(text: &str, made: &str) -> (usize, String) {
    let mut lines = text.lines();
    for (number, expected) in (1..).zip(made.lines()) {
        if lines.next() != Some(expected) {
            return (number, expected.to_owned());
        }
    }
    (made.lines().count() + 1, "nothing more".to_owned())
}
