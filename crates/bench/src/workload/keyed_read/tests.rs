//! Answers that the verifier accepts and rejects.

use super::fares::{Fares, Layout};
use super::verifier::{Expected, Verifier, add};
use crate::workload::interface::Outcome;

fn sum(rows: &[&str]) -> u64 {
    let mut sum = 0;
    rows.iter().for_each(|row| add(&mut sum, row.as_bytes()));
    sum
}

fn outcome(acknowledged: u64) -> Outcome {
    Outcome {
        acknowledged,
        unknown: 0,
    }
}

fn verifier(sums: Option<Vec<u64>>) -> Verifier {
    Verifier::new(Expected { rows: 2, sums }, 0)
}

#[test]
fn the_order_of_rows_does_not_matter_but_every_byte_does() {
    assert_eq!(sum(&["berlin", "paris"]), sum(&["paris", "berlin"]));
    assert_ne!(sum(&["berlin", "paris"]), sum(&["berlin", "pariS"]));
    assert_ne!(sum(&["berlin", "paris"]), sum(&["berlinp", "aris"]));
    assert_ne!(sum(&["berlin", "berlin"]), sum(&["paris", "paris"]));
}

#[test]
fn right_answers_are_accepted() {
    let mut verifier = verifier(Some(vec![10, 20]));
    verifier.compare(1, 2, 10);
    verifier.compare(2, 2, 20);
    let check = verifier.check(outcome(2));
    assert!(check.holds, "{}", check.says);
    assert_eq!(
        check.says,
        "each of 2 reads had 2 rows, byte for byte those of its key"
    );
    assert!(!verifier.check(outcome(3)).holds, "a read was not compared");
}

#[test]
fn a_wrong_answer_is_reported() {
    let cases = [
        (1, 3, 10, "key 1 had 3 rows instead of 2"),
        (1, 2, 20, "key 1 had other bytes than its rows have"),
        (3, 2, 10, "key 3 had other bytes than its rows have"),
    ];
    for (key, rows, sum, mismatch) in cases {
        let mut verifier = verifier(Some(vec![10, 20]));
        verifier.compare(2, 2, 20);
        verifier.compare(key, rows, sum);
        let check = verifier.check(outcome(2));
        assert!(!check.holds);
        assert!(check.says.ends_with(mismatch), "{}", check.says);
    }
}

#[test]
fn only_the_number_is_checked_if_rows_change() {
    let mut verifier = verifier(None);
    verifier.compare(1, 2, 99);
    assert!(verifier.check(outcome(1)).holds);
    verifier.compare(1, 1, 99);
    assert!(!verifier.check(outcome(2)).holds);
}

#[test]
fn a_small_table_has_several_keys() {
    let of = |rows| {
        let fares = Fares::of(Layout::Clustered, rows);
        (fares.keys, fares.rows_of_answer())
    };
    assert_eq!(of(1_000_000), (100, 10_000));
    assert_eq!(of(2_000), (10, 200));
    assert_eq!(of(1), (1, 1));
}
