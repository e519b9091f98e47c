//! Requests that a probe answers.

use super::{Probe, ProbeOutcome};
use crate::strategy::PlannedRequest;
use crate::testing::fold_statement::{FoldStatement, INT4, INT8, table};
use crate::testing::group_run::unchanged;
use bytes::BytesMut;
use paceline_relay::server::ServerSide;
use paceline_relay::settings::SettingsInterner;
use paceline_testing::messages::Wire;
use paceline_testing::messages::server::*;
use paceline_testing::read_out;
use paceline_wire::Frames;

const TAKE: &str = "UPDATE t SET qty = qty - $1 WHERE id = $2 AND qty >= $1";

fn folding(text: &str) -> FoldStatement {
    let table = table(&[("id", INT8), ("qty", INT4)], &["id"]);
    FoldStatement::prepared(text, &table, &[INT4, INT8], Vec::new())
}

fn a_server() -> ServerSide {
    ServerSide::new(SettingsInterner::default().none(), 8)
}

/// Whether the catalog version is unchanged, and the number of a request that met its row.
fn met(same: bool, number: Option<u32>) -> Wire {
    let number = number.map(u32::to_be_bytes);
    values(&[unchanged(same), number.as_ref().map(|number| &number[..])])
}

/// The outcome of these requests for this answer of the server.
fn probed(requests: &[PlannedRequest], server: &mut ServerSide, answer: &[Wire]) -> Vec<String> {
    let requests: Vec<&PlannedRequest> = requests.iter().collect();
    let probe = Probe::build(&requests, server, &mut BytesMut::new());
    let mut probe = probe.expect("they can be asked about");
    let mut over = false;
    for frame in Frames::new(&answer.concat()) {
        assert!(!over);
        over = probe.receive(frame, server);
    }
    assert!(over);
    let word = |outcome: &ProbeOutcome| match outcome {
        ProbeOutcome::Waits => "waits".to_owned(),
        ProbeOutcome::Leaves => "leaves".to_owned(),
        ProbeOutcome::Answer(answer) => read_out::to_client(answer).join(", "),
    };
    probe.results().iter().map(word).collect()
}

#[test]
fn a_request_that_meets_no_row_is_answered() {
    let mut folding = folding(TAKE);
    let requests = [folding.texts(&["1", "7"]), folding.texts(&["5", "7"])];
    let answer = [
        parsed(),
        bound(),
        met(true, Some(1)),
        complete("SELECT 1"),
        ready('I'),
    ];
    let said = probed(&requests, &mut a_server(), &answer);
    assert_eq!(said, ["waits", "parsed, bound, no data, UPDATE 0, ready I"]);
}

#[test]
fn changed_tables_and_failed_probes_answer_no_request() {
    let mut folding = folding(TAKE);
    let requests = [folding.texts(&["1", "7"]), folding.texts(&["5", "7"])];
    let changed = [
        parsed(),
        bound(),
        met(false, None),
        complete("SELECT 1"),
        ready('I'),
    ];
    assert_eq!(
        probed(&requests, &mut a_server(), &changed),
        ["leaves", "leaves"]
    );
    let failed = [error("57014", "canceling statement"), ready('I')];
    assert_eq!(
        probed(&requests, &mut a_server(), &failed),
        ["waits", "waits"]
    );
    let renamed = [error("42703", "column \"qty\" does not exist"), ready('I')];
    assert_eq!(
        probed(&requests, &mut a_server(), &renamed),
        ["leaves", "leaves"]
    );
    let refused = [error("22012", "division by zero"), ready('I')];
    let alone = probed(&requests[..1], &mut a_server(), &refused);
    assert_eq!(alone, ["leaves"]);
}

/// PostgreSQL may raise an error that the probe does not raise.
#[test]
fn a_request_that_may_fail_without_a_row_leaves() {
    let mut folding = folding("UPDATE t SET qty = 100 / $1 WHERE id = $2 AND qty >= 1");
    let requests = [folding.texts(&["0", "7"])];
    let answer = [
        parsed(),
        bound(),
        met(true, None),
        complete("SELECT 1"),
        ready('I'),
    ];
    assert_eq!(probed(&requests, &mut a_server(), &answer), ["leaves"]);
}

#[test]
fn a_probe_has_the_key_and_the_parameters_of_each_request() {
    let mut folding = folding(TAKE);
    let requests = [folding.texts(&["1", "7"]), folding.texts(&["5", "8"])];
    let requests: Vec<&PlannedRequest> = requests.iter().collect();
    let mut out = BytesMut::new();
    Probe::build(&requests, &mut a_server(), &mut out).unwrap();
    let sent = read_out::to_server(&out);
    assert!(sent[0].contains("unnest($1::bigint[])"), "{}", sent[0]);
    let bound = String::from_utf8_lossy(&out);
    assert!(
        bound.contains("{7,8}") && bound.contains("{1,5}"),
        "{bound}"
    );
}
