//! What is told of turns that come at a fixed rate.

use crate::sample;
use paceline_bench::{OpenLoop, Record, RunResult, read_lines, report, table};

/// A round at the end of which so many turns of 1,000 had no answer.
fn round(number: usize, behind: u64) -> Record {
    let mut record = sample::ran("direct", 64, number, 100.0);
    let RunResult::Ran(ran) = &mut record.result else {
        panic!("{record:?}");
    };
    let offered = 1_000;
    ran.open_loop = Some(OpenLoop { offered, behind });
    record
}

#[test]
fn a_table_says_what_had_no_answer() {
    let told = table(&[round(1, 700), round(2, 20)], false);
    assert!(
        told.contains("720 of 2,000 due had no answer at the end"),
        "{told}"
    );
    let told = table(&[round(1, 0)], false);
    assert!(!told.contains("due had no answer"), "{told}");
}

#[test]
fn so_does_the_page() {
    let page = report(&[round(1, 700), round(2, 20)]);
    assert!(page.contains("<td>720 of 2,000</td>"), "{page}");
    assert!(!report(&[sample::ran("direct", 64, 1, 100.0)]).contains("720 of"));
}

#[test]
fn records_from_before_are_read() {
    let line = round(1, 7).to_line().unwrap();
    let older = line.replace(r#","open_loop":{"offered":1000,"behind":7}"#, "");
    assert_ne!(older, line);
    let read = read_lines(&older).unwrap();
    assert_eq!(read[0].ran().unwrap().open_loop, None);
}
