//! A release that was fetched from the network or found in the cache, initialised and run.

use paceline_postgres::{Server, default_cache_dir, fetch};

use crate::replication::check_replica;
use crate::support::{Scratch, ask, block_on};

#[test]
fn a_fetched_release_runs() {
    let cache = default_cache_dir().unwrap();
    // Callers may be inside an async runtime; that must not panic.
    let installation = block_on(async { fetch(&cache) }).unwrap();
    assert!(
        installation
            .bin_dir
            .starts_with(cache.canonicalize().unwrap()),
        "{installation:?}"
    );
    assert!(installation.version.major >= 18, "{installation:?}");
    assert_eq!(fetch(&cache).unwrap(), installation);

    let scratch = Scratch::new();
    let mut options = scratch.options();
    options.bin_dir = Some(installation.bin_dir.clone());
    let server = Server::start(options).unwrap();
    assert_eq!(server.version(), &installation.version);
    let text = ask(&server, "select version()");
    assert!(
        text.starts_with(&format!("PostgreSQL {}.", installation.version.major)),
        "{text}"
    );
    server.stop().unwrap();

    // A later start selects the matching version, whatever else is installed on the machine.
    let server = Server::start(scratch.options()).unwrap();
    assert_eq!(server.version().major, installation.version.major);
}

/// The fetched release has no client programs.
#[test]
fn a_fetched_release_has_replicas() {
    let installation = fetch(&default_cache_dir().unwrap()).unwrap();
    assert!(!installation.bin_dir.join("pg_basebackup").exists());
    check_replica(installation.bin_dir);
}
