//! pgbench in all its modes: it ends well, and its books balance.

use crate::harness::Stage;
use crate::harness::caretaker;
use crate::harness::programs::{output, program};

const CLIENTS: i64 = 8;
const TRANSACTIONS: i64 = 25;
const ALL_TRANSACTIONS: i64 = CLIENTS * TRANSACTIONS;

/// A pipeline of two units, the second with a transaction of its own.
const PIPELINE: &str = "\\set id random(1, 1000)
\\startpipeline
SELECT abalance FROM pgbench_accounts WHERE aid = :id;
UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;
BEGIN;
UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 1;
COMMIT;
\\endpipeline
";

/// With tables of scale 1, `together` or as it is by default.
fn stage(together: bool) -> Stage {
    let stage = Stage::on_shared()
        .set("default_pool_size=2")
        .set(&format!("hotspot_for_autocommit={together}"))
        .open();
    output(program("pgbench").args(["-i", "-q", &stage.url()]));
    stage
}

#[track_caller]
fn run(stage: &Stage, arguments: &[&str]) {
    let (clients, transactions) = (CLIENTS.to_string(), TRANSACTIONS.to_string());
    let mut command = program("pgbench");
    command.args(["-n", "-c", &clients, "-t", &transactions, "-j", "2"]);
    let said = output(command.args(arguments).arg(stage.url()));
    let all = format!("transactions actually processed: {ALL_TRANSACTIONS}/{ALL_TRANSACTIONS}");
    assert!(said.contains(&all), "{said}");
}

/// The sums over all accounts, tellers, branches and entries of the history.
fn sums(stage: &Stage) -> [i64; 4] {
    [
        "SELECT sum(abalance) FROM pgbench_accounts",
        "SELECT sum(tbalance) FROM pgbench_tellers",
        "SELECT sum(bbalance) FROM pgbench_branches",
        "SELECT coalesce(sum(delta), 0) FROM pgbench_history",
    ]
    .map(|sum| stage.direct().number(sum))
}

#[test]
fn its_own_transactions_in_every_protocol() {
    for together in [false, true] {
        let stage = stage(together);
        for protocol in ["simple", "extended", "prepared"] {
            for script in ["tpcb-like", "simple-update", "select-only"] {
                run(&stage, &["-M", protocol, "-b", script]);
            }
        }
        let history = stage
            .direct()
            .number("SELECT count(*) FROM pgbench_history");
        assert_eq!(history, 3 * 2 * ALL_TRANSACTIONS);
        let [accounts, tellers, branches, deltas] = sums(&stage);
        // The second script has neither tellers nor branches.
        assert_eq!((accounts, tellers), (deltas, branches));
    }
}

#[test]
fn a_connection_for_every_transaction() {
    let stage = stage(false);
    run(&stage, &["-C", "-M", "prepared"]);
    run(&stage, &["-C", "-S"]);
    let [accounts, tellers, branches, deltas] = sums(&stage);
    assert_eq!([accounts, tellers, branches], [deltas; 3]);
}

#[test]
fn pipelines_of_a_script() {
    let file = caretaker::folder("pgbench").join("pipeline.sql");
    std::fs::write(&file, PIPELINE).unwrap();
    for together in [false, true] {
        let stage = stage(together);
        for protocol in ["extended", "prepared"] {
            run(&stage, &["-M", protocol, "-f", file.to_str().unwrap()]);
        }
        assert_eq!(
            sums(&stage),
            [0, 2 * ALL_TRANSACTIONS, 2 * ALL_TRANSACTIONS, 0]
        );
    }
}
