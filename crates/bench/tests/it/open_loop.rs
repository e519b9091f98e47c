//! Output about turns at a fixed rate.

use crate::sample;
use paceline_bench::{OpenLoop, Record, RunResult, read_lines, report, table};

/// A round with `behind` turns of 1,000 without an answer at its end.
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
fn the_table_shows_late_turns() {
    let text = table(&[round(1, 700), round(2, 20)], false);
    assert!(
        text.contains("720 of 2,000 due had no answer at the end"),
        "{text}"
    );
    let text = table(&[round(1, 0)], false);
    assert!(!text.contains("due had no answer"), "{text}");
}

#[test]
fn the_page_shows_late_turns() {
    let page = report(&[round(1, 700), round(2, 20)]);
    assert!(page.contains("<td>720 of 2,000</td>"), "{page}");
    assert!(!report(&[sample::ran("direct", 64, 1, 100.0)]).contains("720 of"));
}

#[test]
fn records_without_late_turns_are_read() {
    let line = round(1, 7).to_line().unwrap();
    let older = line.replace(r#","open_loop":{"offered":1000,"behind":7}"#, "");
    assert_ne!(older, line);
    let read = read_lines(&older).unwrap();
    assert_eq!(read[0].ran().unwrap().open_loop, None);
}
