//! `paceline bench` with reads on replicas: variants on servers of their own, and the check that no read is older than its
//! client knows. No speed is asserted.

use std::process::Stdio;

use super::benching::{BenchOutput, bench, fields, on_own_servers, results};
use crate::failover::Pair;
use crate::harness::{caretaker, until};

/// Writes while replay is paused. About half of the requests are reads.
const WRITES: i64 = 200;

#[test]
fn edges_are_written_and_read_on_servers_of_their_own() {
    run_on_own_servers("edges", "planes");
}

#[test]
fn keys_are_changed_and_read_on_servers_of_their_own() {
    run_on_own_servers("keyed-read", "replicas");
}

fn run_on_own_servers(scenario: &str, variant: &str) {
    let work = [scenario, "--variant", variant, "--clients", "4"];
    let size = ["--rows", "2000", "--warmup", "0s", "--duration", "2s"];
    let (output, results) = on_own_servers(&[&work[..], &size].concat());
    assert_eq!(fields(&results, "target"), ["direct", "primary", "session"]);
    assert_eq!(fields(&results, "holds"), ["true"; 3]);
    assert_eq!(fields(&results, "stale"), ["0"; 3]);
    let numbers = |name: &str| {
        let numbers = fields(&results, name).into_iter();
        numbers
            .map(|text| text.parse().unwrap())
            .collect::<Vec<f64>>()
    };
    assert!(
        numbers("checked").iter().all(|reads| *reads > 0.0),
        "{results}"
    );
    let on_replicas = numbers("on_replicas");
    assert_eq!(on_replicas[..2], [0.0, 0.0]);
    assert!(on_replicas[2] > 0.0, "{results}");
    assert!(numbers("primary_cpu_micros")[0] > 0.0, "{results}");
    assert!(output.out.contains("primary CPU"), "{}", output.out);
}

/// Replay is paused under load. With `any` clients read what is older than what they wrote, and the check finds that; with
/// `session` they do not.
#[test]
fn the_check_finds_stale_reads() {
    for (reads, is_stale) in [("any", true), ("session", false)] {
        let Some(pair) = Pair::reading(&[&format!("reads={reads}"), "max_lag=0"]) else {
            return;
        };
        let (file, json) = results();
        let target = format!("{reads}={}", pair.url());
        let arguments = ["edges", "--variant", "planes", "--against", &target];
        let child = bench(&arguments)
            .args(["--clients", "4", "--rows", "100", "--warmup", "0s"])
            .args(["--duration", "10min", "--json", &json])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let adopted = caretaker::adopt("KILL", child.id());
        until("the replica answers reads of the lab", || pair.reads() > 20);
        pair.pause_replay();
        let mut primary = pair.primary.client("postgres");
        let mut edges = || primary.number("SELECT count(*) FROM paceline_lab.edge");
        let before = edges();
        until("clients have written", || edges() > before + WRITES);
        caretaker::signal("INT", child.id());
        let output = BenchOutput::from(child.wait_with_output().unwrap());
        drop(adopted);
        assert_eq!(output.code, Some(130), "{}\n{}", output.out, output.err);
        let results = std::fs::read_to_string(file).unwrap();
        let stale: i64 = fields(&results, "stale")[0].parse().unwrap();
        assert_eq!(stale > 0, is_stale, "{results}");
        assert_eq!(fields(&results, "holds"), [(!is_stale).to_string()]);
        let complaint = "were older than what their client knew";
        assert_eq!(output.out.contains(complaint), is_stale, "{}", output.out);
        assert_eq!(
            output.out.contains("CHECK FAILED"),
            is_stale,
            "{}",
            output.out
        );
        pair.resume_replay();
    }
}
