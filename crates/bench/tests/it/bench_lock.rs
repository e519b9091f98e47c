//! One bench at a time uses the schema of the lab.

use crate::trial::{Outsider, Short, Trial};
use paceline_bench::Protocol;

const HOT_ROW: Short = Short {
    scenario: "hot-row",
    variant: "hinted",
    clients: 2,
    rows: 1,
    protocol: Protocol::Prepared,
};
/// Another bench takes the lock during the run.
const TAKEN: Outsider =
    Outsider::Amid("UPDATE paceline_lab.bench_lock SET host = 'elsewhere', pid = 1");

#[test]
fn a_schema_locked_by_another_bench_is_left_alone() {
    let trial = Trial::start(30);
    trial.run_with(HOT_ROW, TAKEN);
    assert!(!trial.is_clean(), "another one's schema was dropped");
    let why = trial.refusal(HOT_ROW);
    assert!(why.contains("process 1 on elsewhere, since "), "{why}");
    assert!(!trial.is_clean(), "another one's schema was dropped");
}

#[test]
fn a_stale_lock_is_taken_over() {
    let trial = Trial::start(30);
    for gone in [
        "UPDATE paceline_lab.bench_lock SET since = pg_postmaster_start_time() - interval '1 s'",
        // No process has so high a number.
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
