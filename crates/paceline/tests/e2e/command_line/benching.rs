//! `paceline bench` as a user runs it: its measurements, its records, and its errors. No speed is asserted.

use std::fs::DirEntry;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::harness::caretaker;
use crate::harness::{Stage, until};

/// Long enough for a unit of work on a busy machine.
const SHORT: [&str; 4] = ["--duration", "1s", "--warmup", "50ms"];

pub(super) fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command.arg("bench").args(arguments).stdin(Stdio::null());
    command
}

pub(super) struct BenchOutput {
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
}

impl From<Output> for BenchOutput {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

fn run(arguments: &[&str]) -> BenchOutput {
    bench(arguments).output().unwrap().into()
}

pub(super) fn results() -> (PathBuf, String) {
    let file = caretaker::folder("b").join("results.jsonl");
    let text = file.to_str().unwrap().to_owned();
    (file, text)
}

/// A field of each line of results, by its name in JSON; good enough for names that occur once in a line.
pub(super) fn fields(results: &str, name: &str) -> Vec<String> {
    let mark = format!("\"{name}\":");
    let value = |line: &str| {
        let (_, rest) = line.split_once(&mark).unwrap();
        let end = rest.find([',', '}']).unwrap();
        rest[..end].trim_matches('"').to_owned()
    };
    results.lines().map(value).collect()
}

fn schemas(stage: &Stage) -> usize {
    let sql = "SELECT nspname FROM pg_namespace WHERE nspname = 'paceline_lab'";
    stage.direct().ok(sql).rows().len()
}

#[test]
fn targets_take_turns_are_checked_and_nothing_remains() {
    let stage = Stage::for_groups();
    let (file, json) = results();
    let direct = format!("direct={}", stage.direct_url());
    let paceline = format!("paceline={}", stage.url());
    let mut arguments = vec!["hot-row", "--against", &direct, "--against", &paceline];
    arguments.extend(["--clients", "2,5", "--rounds", "2", "--json", &json]);
    arguments.extend(SHORT);
    let output = run(&arguments);
    assert_eq!(output.code, Some(0), "{}\n{}", output.out, output.err);
    let results = std::fs::read_to_string(file).unwrap();
    // Even rounds go the other way.
    let rounds = ["direct", "paceline", "paceline", "direct"];
    assert_eq!(fields(&results, "target"), [rounds; 2].concat());
    assert_eq!(
        fields(&results, "clients"),
        ["2", "2", "2", "2", "5", "5", "5", "5"]
    );
    assert_eq!(
        fields(&results, "round"),
        ["1", "1", "2", "2", "1", "1", "2", "2"]
    );
    assert_eq!(fields(&results, "holds"), ["true"; 8]);
    let says = fields(&results, "says");
    assert!(!says.iter().any(|says| says.starts_with("0 ")), "{says:?}");
    assert!(output.out.contains("every check holds"), "{}", output.out);
    assert_eq!(schemas(&stage), 0);
}

#[test]
fn an_unreachable_target_is_reported_and_the_others_run() {
    let stage = Stage::for_groups();
    let direct = format!("direct={}", stage.direct_url());
    // Nothing listens on port 1 of loopback.
    let gone = "gone=postgres://postgres@127.0.0.1:1/postgres";
    let stranger = format!(
        "stranger={}",
        stage.direct_url().replace("postgres@", "nobody@")
    );
    let against = [
        "--against",
        gone,
        "--against",
        &stranger,
        "--against",
        &direct,
    ];
    let output = run(&[
        &["hot-row", "--clients", "2", "--rounds", "1"],
        &against[..],
        &SHORT,
    ]
    .concat());
    assert_eq!(output.code, Some(1), "{}\n{}", output.out, output.err);
    let line = |name: &str| {
        let line = output
            .out
            .lines()
            .find(|line| line.trim_start().starts_with(name));
        line.unwrap_or_else(|| panic!("no {name} in {}", output.out))
    };
    assert!(line("gone").contains("cannot connect"), "{}", output.out);
    assert!(
        line("stranger").contains("role \"nobody\" does not exist"),
        "{}",
        output.out
    );
    assert!(
        line("direct").contains("were acknowledged"),
        "{}",
        output.out
    );
}

#[test]
fn the_lab_keeps_a_schema_that_it_did_not_create() {
    let stage = Stage::for_groups();
    stage.direct().ok(
        "CREATE SCHEMA paceline_lab; CREATE TABLE paceline_lab.stock (id int); INSERT INTO paceline_lab.stock VALUES (7)",
    );
    let direct = format!("direct={}", stage.direct_url());
    let output = run(&[
        &["hot-row", "--clients", "2", "--against", &direct][..],
        &SHORT,
    ]
    .concat());
    assert_eq!(output.code, Some(1));
    assert!(
        output.out.contains("paceline bench did not make it"),
        "{}",
        output.out
    );
    let rows = stage
        .direct()
        .ok("SELECT id FROM paceline_lab.stock")
        .rows();
    assert_eq!(rows, [[Some("7".to_owned())]]);
}

#[test]
fn a_user_without_rights_gets_an_error() {
    let stage = Stage::for_groups();
    stage.direct().ok("CREATE ROLE lab_guest LOGIN");
    let url = stage.direct_url().replace("postgres@", "lab_guest@");
    let direct = format!("direct={url}");
    let output = run(&[
        &["hot-row", "--clients", "2", "--against", &direct][..],
        &SHORT,
    ]
    .concat());
    assert_eq!(output.code, Some(1));
    assert!(
        output.out.contains("permission denied for database"),
        "{}",
        output.out
    );
}

#[test]
fn more_clients_than_file_descriptors_are_refused_with_the_number_that_is_needed() {
    let program = env!("CARGO_BIN_EXE_paceline");
    let script = format!(
        "ulimit -n 128; exec {program} bench hot-row --clients 200 --against d=postgres://u@127.0.0.1:1/d"
    );
    let output = BenchOutput::from(Command::new("sh").args(["-c", &script]).output().unwrap());
    assert_eq!((output.code, output.out.as_str()), (Some(1), ""));
    let needed = "200 clients need 264 file descriptors, and this shell allows 128";
    assert!(output.err.contains(needed), "{}", output.err);
}

#[test]
fn an_interrupted_run_is_kept_and_cleaned_up() {
    let stage = Stage::for_groups();
    let (file, json) = results();
    let direct = format!("direct={}", stage.direct_url());
    let mut child = bench(&["hot-row", "--clients", "2", "--against", &direct])
        .args(["--duration", "10min", "--warmup", "0s", "--json", &json])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let adopted = caretaker::adopt("KILL", child.id());
    let mut observer = stage.direct();
    // With three takes, one of the two clients has got an answer.
    until("clients take from the stock", || {
        let there = "SELECT to_regclass('paceline_lab.stock') IS NOT NULL";
        observer.ok(there).rows()[0][0].as_deref() == Some("t") && {
            let taken = "SELECT count(*) FROM paceline_lab.stock WHERE qty <= 1000000000 - 3";
            observer.ok(taken).rows()[0][0].as_deref() == Some("1")
        }
    });
    caretaker::signal("INT", child.id());
    let mut out = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut out)
        .unwrap();
    let status = child.wait().unwrap();
    drop(adopted);
    assert_eq!((status.code(), status.signal()), (Some(130), None), "{out}");
    assert!(out.contains("were acknowledged"), "{out}");
    let results = std::fs::read_to_string(file).unwrap();
    assert_eq!(fields(&results, "interrupted"), ["true"]);
    assert_eq!(fields(&results, "holds"), ["true"]);
    assert_eq!(schemas(&stage), 0);
}

#[test]
fn without_a_target_it_brings_its_own() {
    let data = caretaker::folder("d").join("data");
    let mut arguments = vec![
        "hot-row",
        "--clients",
        "4",
        "--data-dir",
        data.to_str().unwrap(),
    ];
    let (file, json) = results();
    arguments.extend(["--json", &json]);
    arguments.extend(SHORT);
    let output = run(&arguments);
    assert_eq!(output.code, Some(0), "{}\n{}", output.out, output.err);
    let results = std::fs::read_to_string(file).unwrap();
    let stand = "\"stand\":[\"hotspot_for_autocommit=true\",";
    assert_eq!(results.matches(stand).count(), 2, "{results}");
    for target in ["direct", "paceline"] {
        let is_of = |line: &str| line.trim_start().starts_with(target) && line.contains('✓');
        assert!(output.out.lines().any(is_of), "{}", output.out);
    }
    assert!(
        !data.join("pgdata/postmaster.pid").exists(),
        "PostgreSQL still runs"
    );
}

#[test]
fn a_variant_with_settings_has_a_paceline_of_its_own() {
    let data = caretaker::folder("d").join("data");
    let (file, json) = results();
    let mut arguments = vec!["queue", "--variant", "c,pinned", "--clients", "4"];
    arguments.extend(["--rows", "2000", "--data-dir", data.to_str().unwrap()]);
    arguments.extend(["--json", &json]);
    arguments.extend(SHORT);
    let output = run(&arguments);
    assert_eq!(output.code, Some(0), "{}\n{}", output.out, output.err);
    let results = std::fs::read_to_string(file).unwrap();
    assert_eq!(fields(&results, "variant"), ["c", "c", "pinned", "pinned"]);
    let targets = ["direct", "paceline"];
    assert_eq!(fields(&results, "target"), [targets; 2].concat());
    let addresses = fields(&results, "address");
    assert_eq!(addresses[0], addresses[2]);
    assert_ne!(addresses[1], addresses[3]);
    let settings: Vec<bool> = results
        .lines()
        .map(|line| line.contains("\"queue_reorder_time=30s\"]"))
        .collect();
    assert_eq!(settings, [false, false, true, true]);
    let trends = output.out.matches("pinned, first and last tenth").count();
    assert_eq!(trends, 1, "{}", output.out);
}

#[test]
fn a_thin_link_has_a_paceline_at_each_end() {
    let data = caretaker::folder("d").join("data");
    let (file, json) = results();
    let mut arguments = vec!["keyed-read", "--variant", "thin-link", "--clients", "2"];
    arguments.extend(["--rows", "2000", "--data-dir", data.to_str().unwrap()]);
    arguments.extend(["--json", &json]);
    arguments.extend(SHORT);
    let output = run(&arguments);
    assert_eq!(output.code, Some(0), "{}\n{}", output.out, output.err);
    let results = std::fs::read_to_string(file).unwrap();
    let targets = ["direct", "paceline", "zstd"];
    assert_eq!(fields(&results, "target"), targets);
    assert_eq!(fields(&results, "holds"), ["true"; 3]);
}

/// Runs a bench that starts servers of its own, and returns what it has written: its output, and its records. Nothing of the
/// servers may remain.
pub(super) fn on_own_servers(arguments: &[&str]) -> (BenchOutput, String) {
    let (file, json) = results();
    let temporary = caretaker::folder("t");
    let mut bench = bench(arguments);
    bench.args(["--json", &json]).env("TMPDIR", &temporary);
    let output = BenchOutput::from(bench.output().unwrap());
    assert_eq!(output.code, Some(0), "{}\n{}", output.out, output.err);
    assert_eq!(std::fs::read_dir(temporary).unwrap().count(), 0);
    (output, std::fs::read_to_string(file).unwrap())
}

/// Synchronous replication: nothing that was acknowledged may be missing.
#[test]
fn a_failover_is_checked_and_nothing_remains() {
    let kind = ["failover", "--replication", "synchronous"];
    let load = ["--clients", "8", "--rate", "100"];
    let time = ["--warmup", "0s", "--duration", "6s"];
    let (output, results) = on_own_servers(&[&kind[..], &load, &time].concat());
    assert_eq!(fields(&results, "target"), ["direct", "paceline"]);
    for (name, value) in [
        ("variant", "synchronous"),
        ("holds", "true"),
        ("missing", "0"),
        ("twice", "0"),
        ("stale", "0"),
    ] {
        assert_eq!(fields(&results, name), [value; 2], "{name} in {results}");
    }
    for name in [
        "acknowledged",
        "checked",
        "pause",
        "longest_wait",
        "requests",
        "answered",
    ] {
        let numbers = fields(&results, name);
        let is_positive = |number: &String| number.parse::<u64>().is_ok_and(|number| number > 0);
        assert!(numbers.iter().all(is_positive), "{name} in {results}");
    }
    // Without Paceline, each client loses its connection.
    let [direct, _] = results.lines().collect::<Vec<_>>()[..] else {
        panic!("{results}");
    };
    assert!(!direct.contains("\"errors\":{}"), "{direct}");
    let head = "around the failover";
    assert!(output.out.contains(head), "{}", output.out);
}

/// The postmasters of servers with data in this folder.
fn postmasters(folder: &Path) -> Vec<u32> {
    let pid = |folder: std::io::Result<DirEntry>| {
        let file = folder.ok()?.path().join("pgdata/postmaster.pid");
        let text = std::fs::read_to_string(file).ok()?;
        text.lines().next()?.parse().ok()
    };
    std::fs::read_dir(folder).unwrap().filter_map(pid).collect()
}

#[test]
fn an_interrupted_failover_ends_its_servers() {
    let temporary = caretaker::folder("t");
    let mut child = bench(&["failover", "--clients", "2", "--duration", "10min"])
        .env("TMPDIR", &temporary)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let adopted = caretaker::adopt("KILL", child.id());
    let mut running = Vec::new();
    until("three servers run", || {
        running = postmasters(&temporary);
        running.len() == 3
    });
    caretaker::signal("INT", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(adopted);
    let exists = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
    assert!(!running.iter().any(exists), "{running:?}");
    assert_eq!(std::fs::read_dir(temporary).unwrap().count(), 0);
}

#[test]
fn an_interrupt_while_the_stand_starts_ends_both() {
    let data = caretaker::folder("i").join("data");
    let mut child = bench(&["hot-row", "--data-dir", data.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let adopted = caretaker::adopt("KILL", child.id());
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = said.next().unwrap().unwrap();
    assert_eq!(first, "starting PostgreSQL and Paceline");
    caretaker::signal("INT", child.id());
    let said: Vec<String> = said.map_while(Result::ok).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said:?}");
    drop(adopted);
    assert!(
        said.iter()
            .any(|line| line.contains("as soon as they have started")),
        "{said:?}"
    );
    assert!(
        !data.join("pgdata/postmaster.pid").exists(),
        "PostgreSQL still runs"
    );
}

#[test]
fn a_closed_pipe_changes_neither_the_page_nor_the_exit_code() {
    let stage = Stage::for_groups();
    let page = caretaker::folder("p").join("page.html");
    let direct = format!("direct={}", stage.direct_url());
    let mut child = bench(&["hot-row", "--clients", "2", "--against", &direct])
        .args(["--rounds", "1", "--html", page.to_str().unwrap()])
        .args(SHORT)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(
        std::fs::read_to_string(page)
            .unwrap()
            .contains("Nothing lost")
    );
}

/// The checks of each scenario hold through Paceline as without it, in every variant, with statements of both kinds.
#[test]
fn every_variant_holds_through_paceline() {
    let stage = Stage::on_shared()
        .set("default_pool_size=2")
        .set("hotspot_for_autocommit=true")
        .open();
    for protocol in ["prepared", "simple"] {
        let (file, json) = results();
        let paceline = format!("paceline={}", stage.url());
        let mut arguments = vec!["all", "--variant", "all", "--against", &paceline];
        arguments.extend(["--clients", "12", "--rounds", "1", "--rows", "2000"]);
        arguments.extend(["--protocol", protocol, "--json", &json]);
        arguments.extend(["--duration", "300ms", "--warmup", "0s"]);
        let output = run(&arguments);
        assert_eq!(output.code, Some(0), "{}\n{}", output.out, output.err);
        let results = std::fs::read_to_string(file).unwrap();
        let holding = fields(&results, "holds");
        assert!(holding.len() > 25, "{results}");
        assert!(holding.iter().all(|holds| holds == "true"), "{results}");
    }
    stage.assert_grouped(100, 2);
}
