//! One bench at a time works in the lab's schema.

use crate::trial::{Outsider, Short, Trial};
use paceline_bench::Protocol;

const HOT_ROW: Short = Short {
    scenario: "hot-row",
    variant: "hinted",
    clients: 2,
    rows: 1,
    protocol: Protocol::Prepared,
};
/// The schema is taken over in the middle of a run.
const TAKEN: Outsider =
    Outsider::Amid("UPDATE paceline_lab.bench_lock SET host = 'elsewhere', pid = 1");

#[test]
fn another_bench_is_left_alone() {
    let trial = Trial::start(30);
    trial.run_with(HOT_ROW, TAKEN);
    assert!(!trial.is_clean(), "another one's schema was dropped");
    let why = trial.refusal(HOT_ROW);
    assert!(why.contains("process 1 on elsewhere, since "), "{why}");
    assert!(!trial.is_clean(), "another one's schema was dropped");
}

#[test]
fn what_a_bench_left_that_is_gone_is_taken_over() {
    let trial = Trial::start(30);
    for gone in [
        "UPDATE paceline_lab.bench_lock SET since = pg_postmaster_start_time() - interval '1 s'",
        // No process of this machine has so high a number.
        "UPDATE paceline_lab.bench_lock SET host = (SELECT host FROM public.ours), pid = 2147483647",
        "DROP TABLE paceline_lab.bench_lock",
    ] {
        let note = "DROP TABLE IF EXISTS public.ours; \
             CREATE TABLE public.ours AS SELECT host FROM paceline_lab.bench_lock";
        trial.run_with(HOT_ROW, Outsider::Amid(note));
        trial.run_with(HOT_ROW, TAKEN);
        trial.execute(gone);
        trial.run(HOT_ROW);
        assert!(trial.is_clean(), "{gone}");
    }
}
