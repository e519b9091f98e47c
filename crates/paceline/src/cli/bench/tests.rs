//! Command lines of `bench` and the commands that they resolve to.

use std::path::Path;
use std::time::Duration;

use super::LabCommand;
use crate::cli::Bench;
use crate::cli::Command;
use crate::cli::tests::{Folder, rejected, resolve};

fn bench(line: &[&str]) -> Bench {
    match resolve(&[&["bench"], line].concat()) {
        Ok(Command::Lab(LabCommand::Bench(bench))) => *bench,
        other => panic!("{line:?}: {other:?}"),
    }
}

#[test]
fn without_arguments_the_first_variant_of_every_scenario_runs_on_the_demo() {
    let bench = bench(&[]);
    assert_eq!(
        bench.demo_folder,
        Some("/home/rider/.local/share/paceline-bench".into())
    );
    let order = bench.plan;
    let chosen = order
        .choices
        .iter()
        .map(|choice| (choice.scenario.name, choice.work.name()));
    let first =
        paceline_bench::SCENARIOS.map(|scenario| (scenario.name, scenario.variants[0].name));
    assert_eq!(chosen.collect::<Vec<_>>(), first);
    assert_eq!((order.rounds, order.duration), (1, Duration::from_secs(3)));
    assert_eq!(order.command, "paceline bench");
}

#[test]
fn targets_clients_and_variants_are_resolved() {
    let line = [
        "hot-row",
        "--variant",
        "8-rows,hinted",
        "--clients",
        "1,64",
        "--against",
        "direct=postgres://a:s%40crét@h:1/d",
        "--against",
        "bouncer=postgres://b@[::1]:6432",
        "--think",
        "10ms",
    ];
    let bench = bench(&line);
    assert_eq!(bench.demo_folder, None);
    let order = bench.plan;
    assert_eq!(
        order
            .targets
            .iter()
            .map(|target| format!("{target:?}"))
            .collect::<Vec<_>>(),
        ["direct=h:1/d as a", "bouncer=[::1]:6432/b as b"]
    );
    assert_eq!(order.targets[0].password.as_deref(), Some("s@crét"));
    assert_eq!((order.rounds, order.think), (3, Duration::from_millis(10)));
    let names = order.choices.iter().map(|choice| choice.work.name());
    assert_eq!(names.collect::<Vec<_>>(), ["hinted", "8-rows"]);
    assert!(order.choices.iter().all(|choice| choice.clients == [1, 64]));
    assert!(!order.command.contains("s%40"), "{}", order.command);
    assert!(
        order.command.contains("direct=postgres://a@h:1/d"),
        "{}",
        order.command
    );
}

#[test]
fn unknown_arguments_are_rejected() {
    for (line, told) in [
        (
            &["cold-row"][..],
            "there is no scenario \"cold-row\"; there is hot-row",
        ),
        (
            &["hot-row", "--variant", "lukewarm"],
            "there is no variant \"lukewarm\"; there is hinted",
        ),
        (&["--against", "postgres://u@h/d"], "--against wants a name"),
        (&["--against", "d=postgres://h/d"], "names no user"),
        (
            &["direct=postgres://u:se%2Fcret@h/d"],
            "there is no scenario \"direct=postgres://u@h/d\"",
        ),
        (
            &["hot-row", "queue", "--variant", "hinted"],
            "queue has none of the variants that --variant names; it has c, a",
        ),
        (
            &[
                "--against",
                "d=postgres://u@h/d",
                "--against",
                "d=postgres://u@i/d",
            ],
            "--against names \"d\" twice",
        ),
        (&["--clients", "0"], "0 is not in 1..=100000"),
        (&["--duration", "soon"], "write seconds"),
        (&["--rate", "0"], "more than 0"),
        (&["--rate", "1e12"], "10000000 at most"),
        (
            &["--against", "d=postgres://u:se/cret@h/d"],
            "percent-encode",
        ),
    ] {
        let error = rejected(&[&["bench"], line].concat());
        assert!(error.contains(told), "{line:?}: {error}");
        assert!(!error.contains("cret"), "the password is shown: {error}");
    }
}

#[test]
fn full_sizes_have_their_own_clients() {
    let clients = |line: &[&str]| bench(line).plan.choices[0].clients.clone();
    assert_eq!(clients(&["storm"]), [64, 300]);
    assert_eq!(clients(&["storm", "--full"]), [10, 64, 256, 1_000, 8_000]);
    assert_eq!(clients(&["storm", "--full", "--clients", "7"]), [7]);
}

#[test]
fn report_and_compare_are_resolved() {
    match resolve(&["bench", "report", "results.jsonl", "--html", "page.html"]) {
        Ok(Command::Lab(LabCommand::Report(report))) => {
            assert_eq!(report.records, Path::new("results.jsonl"));
            assert_eq!(report.html, Path::new("page.html"));
        }
        other => panic!("{other:?}"),
    }
    let compare = |line: &[&str]| match resolve(line) {
        Ok(Command::Lab(LabCommand::Compare(compare))) => compare,
        other => panic!("{other:?}"),
    };
    let plain = compare(&["bench", "compare", "a.jsonl", "b.jsonl"]);
    assert_eq!(
        (plain.before, plain.after),
        ("a.jsonl".into(), "b.jsonl".into())
    );
    assert!(!plain.fail_on_slower);
    assert!(compare(&["bench", "compare", "a", "b", "--fail-on-slower"]).fail_on_slower);
    assert!(rejected(&["bench", "report", "results.jsonl"]).contains("--html"));
    assert!(
        rejected(&["bench", "--rounds", "3", "compare", "a", "b"]).contains("there is no scenario")
    );
}

#[test]
fn a_report_may_be_written() {
    match resolve(&["bench", "hot-row", "--html", "page.html"]) {
        Ok(Command::Lab(LabCommand::Bench(bench))) => {
            assert_eq!(bench.html, Some("page.html".into()))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_script_runs_on_named_targets_or_on_the_demo() {
    let folder = Folder::new("script");
    let file = folder.file("SELECT :x;");
    let real = bench(&[
        "sql",
        &file,
        "--define",
        "x=1",
        "--against",
        "direct=postgres://a:secret@b/c",
        "--clients",
        "3,5",
    ]);
    assert!(real.demo_folder.is_none() && real.setup.is_none());
    let [choice] = real.plan.choices.as_slice() else {
        panic!("{:?}", real.plan.choices);
    };
    assert_eq!(
        (choice.work.name(), choice.clients.as_slice()),
        ("paceline.toml", &[3, 5][..])
    );
    assert_eq!(real.plan.targets.len(), 1);
    let stand = bench(&["sql", &file, "--define", "x=1", "--setup", &file]);
    assert!(stand.demo_folder.is_some() && stand.setup.is_some());
}

#[test]
fn scripts_with_errors_are_rejected() {
    let folder = Folder::new("refused-script");
    let file = folder.file("SELECT 1;\nSELECT :x;");
    assert!(
        rejected(&["bench", "sql", &file])
            .starts_with("paceline.toml:2: nothing has set the variable x")
    );
    assert!(rejected(&["bench", "sql", "/nowhere.sql"]).starts_with("cannot read /nowhere.sql: "));
    let setup_of_real = [
        "bench",
        "sql",
        &file,
        "--setup",
        &file,
        "--against",
        "a=postgres://a@b",
    ];
    assert!(rejected(&setup_of_real).contains("cannot be used with"));
    assert!(rejected(&["bench", "sql", &file, "--define", "x"]).contains("write NAME=VALUE"));
}

#[test]
fn calibration_excludes_other_arguments() {
    let line = [
        "bench",
        "--calibrate",
        "--clients",
        "1,64",
        "--threads",
        "2",
    ];
    match resolve(&line) {
        Ok(Command::Lab(LabCommand::Calibrate(calibration))) => {
            assert_eq!(
                (calibration.clients.as_slice(), calibration.threads),
                (&[1, 64][..], 2)
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(rejected(&["bench", "--calibrate", "hot-row"]).contains("cannot be used with"));
    assert_eq!(bench(&["hot-row"]).plan.choices.len(), 1);
}

#[test]
fn a_failover_has_servers_of_its_own_and_a_rate() {
    let both = bench(&["failover"]);
    assert_eq!(both.demo_folder, None);
    let plan = both.plan;
    let names = plan.choices.iter().map(|choice| choice.work.name());
    assert_eq!(names.collect::<Vec<_>>(), ["asynchronous", "synchronous"]);
    assert!(plan.targets.is_empty() && plan.rate.is_some());
    for choice in &plan.choices {
        assert_eq!(own_targets(choice), ["direct", "paceline"]);
    }
    assert_eq!(plan.deadline, Some(Duration::from_secs(1)));
    let line = ["failover", "--replication", "synchronous", "--think", "0s"];
    let plan = bench(&[&line[..], &["--deadline", "200ms", "--clients", "7"]].concat()).plan;
    assert_eq!((plan.choices.len(), plan.rate), (1, None));
    assert_eq!(plan.choices[0].clients, [7]);
    assert_eq!(plan.deadline, Some(Duration::from_millis(200)));
    for stranger in ["--against", "--data-dir", "--rows"] {
        let error = rejected(&["bench", "failover", stranger, "1"]);
        assert!(error.contains("unexpected argument"), "{error}");
    }
    assert_eq!(bench(&["hot-row"]).plan.deadline, None);
}

fn own_targets(choice: &paceline_bench::Choice) -> Vec<&str> {
    let targets = choice.own_targets.iter();
    targets.map(|target| target.name.as_str()).collect()
}

#[test]
fn variants_with_replicas_have_servers_of_their_own_unless_targets_are_named() {
    for line in [
        ["edges", "--variant", "planes"],
        ["keyed-read", "--variant", "replicas"],
    ] {
        let alone = bench(&line);
        assert_eq!(alone.demo_folder, None);
        let [choice] = alone.plan.choices.as_slice() else {
            panic!("{:?}", alone.plan.choices);
        };
        assert_eq!(own_targets(choice), ["direct", "primary", "session"]);
        let named = bench(&[&line[..], &["--against", "a=postgres://b@c/d"]].concat());
        assert!(!named.plan.starts_servers() && named.plan.targets.len() == 1);
    }
    // The other variants run on the demo.
    let all = bench(&["edges", "--variant", "upsert,planes"]);
    assert!(all.demo_folder.is_some());
    let starting = all
        .plan
        .choices
        .iter()
        .map(|choice| choice.starts_servers());
    assert_eq!(starting.collect::<Vec<_>>(), [false, true]);
}

#[test]
fn variants_on_shards_have_servers_of_their_own() {
    for scenario in ["hot-row", "keyed-read", "edges"] {
        let bench = bench(&[scenario, "--variant", "sharded"]);
        let [choice] = bench.plan.choices.as_slice() else {
            panic!("{:?}", bench.plan.choices);
        };
        assert_eq!(own_targets(choice), ["coordinator", "paceline"]);
    }
}

#[test]
fn the_number_of_rows_is_limited_by_scenario() {
    let order = bench(&["queue", "--rows", "1000"]).plan;
    assert_eq!(order.sizes.rows, Some(1_000));
    // Scenarios that are not named keep their own sizes.
    assert_eq!(bench(&["--rows", "5000"]).plan.choices.len(), 5);
    for (line, complaint) in [
        (
            ["queue", "--rows", "999"],
            "--rows 999: queue takes 1000 to 1000000000",
        ),
        (
            ["edges", "--rows", "10000001"],
            "--rows 10000001: edges takes 1 to 10000000",
        ),
        (
            ["hot-row", "--rows", "5"],
            "--rows: hot-row has no rows to choose; its variants define their number",
        ),
    ] {
        assert_eq!(rejected(&[&["bench"], &line[..]].concat()), complaint);
    }
    let too_many = rejected(&["bench", "storm", "--rows", "1000000001"]);
    assert!(too_many.contains("1..=1000000000"), "{too_many}");
}
