//! An error in a group reaches the member that made it, with PostgreSQL's own SQLSTATE and text, and nobody else.

use crate::harness::message::unit;
use crate::harness::raw::RawClient;
use crate::harness::{Gate, Reply, Stage};

const SETUP: &str = "
    CREATE DOMAIN small AS int CONSTRAINT is_small CHECK (VALUE < 1000);
    CREATE TABLE account (
        id int PRIMARY KEY,
        n int NOT NULL CONSTRAINT not_negative CHECK (n >= 0),
        d small, share int2, code varchar(4));
    INSERT INTO account SELECT i, 100, 0, 10, 'c' FROM generate_series(1, 9) i";
const MEMBERS: usize = 9;
/// The member in the middle of the group that fails.
const CULPRIT: usize = 4;

/// A template of which each value but one works.
struct Trial {
    sql: &'static str,
    good: &'static str,
    bad: Option<&'static str>,
    sqlstate: &'static str,
    text: &'static str,
}

const TRIALS: [Trial; 8] = [
    Trial {
        sql: "UPDATE account SET n = n / $1 WHERE id = $2 RETURNING n",
        good: "1",
        bad: Some("0"),
        sqlstate: "22012",
        text: "division by zero",
    },
    Trial {
        sql: "UPDATE account SET n = n + $1 WHERE id = $2 RETURNING n",
        good: "1",
        bad: Some("2147483647"),
        sqlstate: "22003",
        text: "integer out of range",
    },
    Trial {
        sql: "UPDATE account SET n = n - $1 WHERE id = $2 RETURNING n",
        good: "1",
        bad: Some("5000"),
        sqlstate: "23514",
        text: "new row for relation \"account\" violates check constraint \"not_negative\"",
    },
    Trial {
        sql: "UPDATE account SET d = d + $1 WHERE id = $2 RETURNING d",
        good: "1",
        bad: Some("1000"),
        sqlstate: "23514",
        text: "value for domain small violates check constraint \"is_small\"",
    },
    Trial {
        sql: "UPDATE account SET n = $1 WHERE id = $2 RETURNING n",
        good: "7",
        bad: None,
        sqlstate: "23502",
        text: "null value in column \"n\" of relation \"account\" violates not-null constraint",
    },
    Trial {
        sql: "UPDATE account SET share = share + $1 WHERE id = $2 RETURNING share",
        good: "1",
        bad: Some("not a number"),
        sqlstate: "22P02",
        text: "invalid input syntax for type smallint: \"not a number\"",
    },
    Trial {
        sql: "UPDATE account SET code = $1 WHERE id = $2 RETURNING code",
        good: "four",
        bad: Some("five!"),
        sqlstate: "22001",
        text: "value too long for type character varying(4)",
    },
    Trial {
        sql: "UPDATE account SET n = n + 1 WHERE id = $2 RETURNING 100 / ($1::int - 5)",
        good: "4",
        bad: Some("5"),
        sqlstate: "22012",
        text: "division by zero",
    },
];

/// Forces `MEMBERS` units into one group; the culprit sends the bad value. Rows by `row`.
fn ride(
    stage: &Stage,
    clients: &mut [RawClient],
    trial: &Trial,
    row: impl Fn(usize) -> usize,
) -> Vec<Reply> {
    // Paceline learns the template on a row that does not exist.
    clients[0].ask(&unit(trial.sql, &[Some(trial.good), Some("99")]));
    let mut gate = Gate::close(stage);
    for (number, client) in clients.iter_mut().enumerate() {
        let value = if number == CULPRIT {
            trial.bad
        } else {
            Some(trial.good)
        };
        let id = row(number).to_string();
        gate.submit(client, &unit(trial.sql, &[value, Some(&id)]));
    }
    gate.open();
    clients.iter_mut().map(RawClient::reply).collect()
}

fn check(row: impl Fn(usize) -> usize + Copy) {
    let stage = Stage::for_groups();
    stage.direct().ok(SETUP);
    let mut clients = stage.clients(MEMBERS);
    for trial in &TRIALS {
        println!("{}", trial.sql);
        for (number, reply) in ride(&stage, &mut clients, trial, row).iter().enumerate() {
            if number == CULPRIT {
                let error = reply
                    .error()
                    .unwrap_or_else(|| panic!("no error in {reply:#?}"));
                assert_eq!(
                    (error.sqlstate(), error.text()),
                    (trial.sqlstate, trial.text)
                );
                assert_eq!(error.get('S'), "ERROR");
            } else {
                assert_eq!(reply.tag(), "UPDATE 1", "member {number}: {reply:#?}");
            }
            assert_eq!(reply.status(), 'I');
        }
    }
}

#[test]
fn on_one_row() {
    check(|_| 1);
}

#[test]
fn on_several_rows() {
    check(|number| 1 + number % 3);
}

#[test]
fn on_rows_of_their_own() {
    check(|number| 1 + number);
}

/// Members before and after the culprit count, in order; the culprit does not.
#[test]
fn the_others_counted() {
    let stage = Stage::for_groups();
    stage.direct().ok(SETUP);
    let mut clients = stage.clients(MEMBERS);
    let replies = ride(&stage, &mut clients, &TRIALS[1], |_| 1);
    let values: Vec<String> = replies
        .iter()
        .filter(|reply| reply.error().is_none())
        .map(Reply::value)
        .collect();
    let expected: Vec<String> = (101..=108).map(|n| n.to_string()).collect();
    assert_eq!(values, expected);
    assert_eq!(
        stage.direct().number("SELECT n FROM account WHERE id = 1"),
        108
    );
}
