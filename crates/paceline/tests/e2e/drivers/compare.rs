//! Runs the same program against bare PostgreSQL, through Paceline, and through Paceline with all requests grouped that may be;
//! compares the output line by line.

use crate::harness::cluster;
use crate::harness::{Stage, stage};

/// Runs `program` with the URL of an empty database, three times, and expects the same lines. It keeps a server connection only on purpose:
/// `keeps` is the number of its statements that create state which cannot follow a client.
#[track_caller]
pub(super) fn check(keeps: u64, program: impl Fn(&str) -> String) {
    let cluster = cluster::shared();
    let expected = program(&stage::url(cluster.port(), &cluster.database()));
    assert!(expected.lines().count() > 3, "it says little: {expected}");
    for together in [false, true] {
        let stage = Stage::on_shared()
            .set("default_pool_size=2")
            .set("metrics_listen=127.0.0.1:0")
            .set(&format!("hotspot_for_autocommit={together}"))
            .open();
        let said = program(&stage.url());
        assert_same_lines(&expected, &said);
        let pins = stage.pins().unwrap_or_default();
        assert!(pins <= keeps, "{pins} pins instead of {keeps}");
    }
}

/// Shows the first lines that differ, not thousands that agree.
#[track_caller]
pub(super) fn assert_same_lines(expected: &str, said: &str) {
    let differ = expected.lines().zip(said.lines()).find(|(a, b)| a != b);
    if let Some((expected, said)) = differ {
        panic!("PostgreSQL:\n{expected}\nPaceline:\n{said}");
    }
    assert_eq!(expected.lines().count(), said.lines().count());
    assert!(expected == said, "the ends of lines differ");
}
