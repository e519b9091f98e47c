//! The hot row: the check of every variant holds and detects changes to single articles.

use crate::trial::{Outsider, Short, Trial};
use paceline_bench::{Protocol, Ran};

fn hot_row(variant: &'static str, protocol: Protocol) -> Short {
    Short {
        scenario: "hot-row",
        variant,
        clients: 8,
        rows: 1,
        protocol,
    }
}

fn check(ran: &Ran) -> (bool, &str) {
    let check = ran.check.as_ref().unwrap();
    (check.holds, &check.says)
}

#[test]
fn every_variant_takes_the_acknowledged_pieces() {
    let trial = Trial::start(30);
    for protocol in [Protocol::Prepared, Protocol::Simple] {
        for variant in ["hinted", "un-hinted", "guarded", "8-rows", "64-rows"] {
            let ran = trial.run(hot_row(variant, protocol));
            assert!(check(&ran).0, "{variant}: {}", check(&ran).1);
            assert!(ran.units > 0 && ran.errors.is_empty(), "{variant}: {ran:?}");
        }
    }
    assert!(trial.is_clean());
}

#[test]
fn the_check_detects_changes_by_an_outsider() {
    let trial = Trial::start(30);
    for (variant, outsider, complaint) in [
        (
            "8-rows",
            // The sum does not change.
            Outsider::After(
                "UPDATE paceline_lab.stock SET qty = CASE id WHEN 1 THEN 1000000000 \
                 ELSE qty - (SELECT 1000000000 - qty FROM paceline_lab.stock WHERE id = 1) END WHERE id IN (1, 2)",
            ),
            "; of article 1 0 are gone, ",
        ),
        (
            "hinted",
            Outsider::After("DELETE FROM paceline_lab.stock WHERE id = 1"),
            "; article 1 is not there",
        ),
        (
            "64-rows",
            // The stock does not change; updates affect no row.
            Outsider::Amid(
                "CREATE FUNCTION paceline_lab.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
                 CREATE TRIGGER nothing BEFORE UPDATE ON paceline_lab.stock \
                 FOR EACH ROW EXECUTE FUNCTION paceline_lab.nothing()",
            ),
            " updates hit no row",
        ),
        (
            "guarded",
            Outsider::Amid("UPDATE paceline_lab.stock SET qty = qty + 1"),
            " updates returned a stock that cannot be theirs, or not theirs alone",
        ),
    ] {
        let ran = trial.run_with(hot_row(variant, Protocol::Prepared), outsider);
        let (holds, says) = check(&ran);
        assert!(!holds && says.contains(complaint), "{variant}: {says}");
    }
}
