//! Known anomalies, and histories that only look like them.

use super::Level::{ReadCommitted, RepeatableRead, Serializable};
use super::Outcome::{Aborted, Committed, Unknown};
use super::{Effect, Key, Level, Name, Operation, Outcome, State, Tick, Transaction, Value, check};

const X: Key = 1;
const Y: Key = 2;

fn append(key: Key, value: Value) -> Effect {
    Effect::Write(key, value, None)
}

/// An append that returns the list.
fn returning(key: Key, list: &[Value]) -> Effect {
    Effect::Write(key, *list.last().unwrap(), Some(State::List(list.to_vec())))
}

fn read(key: Key, list: &[Value]) -> Effect {
    Effect::Read(vec![(key, State::List(list.to_vec()))])
}

fn register(number: usize, value: Option<Value>) -> Effect {
    Effect::Read(vec![(X, State::Register(number, value))])
}

/// A transaction that begins and ends at these ticks, each of its operations two ticks after the one before.
fn at(
    began: Tick,
    ended: Tick,
    level: Level,
    outcome: Outcome,
    effects: Vec<Effect>,
) -> Transaction {
    let operations = (0..).zip(effects).map(|(number, effect)| Operation {
        began: began + 2 * number,
        ended: began + 2 * number + 1,
        effect,
    });
    Transaction {
        level,
        outcome,
        operations: operations.collect(),
        ended,
    }
}

/// A transaction during all others: nothing is known of the time of any operation.
fn during(level: Level, effects: Vec<Effect>) -> Transaction {
    let mut transaction = at(0, 1_000, level, Committed, effects);
    for operation in &mut transaction.operations {
        (operation.began, operation.ended) = (0, 1_000);
    }
    transaction
}

/// A read of both keys that begins after all others have ended.
fn finally(x: &[Value], y: &[Value]) -> Transaction {
    let states = [(X, x), (Y, y)].map(|(key, list)| (key, State::List(list.to_vec())));
    let effects = vec![Effect::Read(states.to_vec())];
    at(2_000, 3_000, ReadCommitted, Committed, effects)
}

fn names(history: &[Transaction]) -> Vec<Name> {
    let anomalies = check(history);
    for anomaly in &anomalies {
        println!("{anomaly}");
    }
    anomalies.into_iter().map(|anomaly| anomaly.name).collect()
}

#[track_caller]
fn shows(history: &[Transaction], expected: Name) {
    assert!(names(history).contains(&expected), "no {expected:?}");
}

#[track_caller]
fn is_possible(history: &[Transaction]) {
    assert_eq!(names(history), []);
}

#[test]
fn a_serial_history_is_possible() {
    for level in [ReadCommitted, RepeatableRead, Serializable] {
        is_possible(&[
            at(
                0,
                9,
                level,
                Committed,
                vec![append(X, 1), read(X, &[1]), append(X, 2)],
            ),
            at(
                10,
                19,
                level,
                Committed,
                vec![returning(X, &[1, 2, 3]), append(Y, 4)],
            ),
            at(20, 29, level, Aborted, vec![returning(X, &[1, 2, 3, 5])]),
            at(30, 39, level, Committed, vec![returning(X, &[1, 2, 3, 6])]),
            finally(&[1, 2, 3, 6], &[4]),
        ]);
    }
}

#[test]
fn a_dirty_write_is_g0() {
    for level in [ReadCommitted, RepeatableRead] {
        let history = [
            during(level, vec![append(X, 1), append(Y, 2)]),
            during(level, vec![append(X, 3), append(Y, 4)]),
            finally(&[1, 3], &[4, 2]),
        ];
        shows(&history, Name::G0);
    }
}

#[test]
fn an_aborted_read_is_g1a() {
    let aborted = at(0, 10, ReadCommitted, Aborted, vec![append(X, 1)]);
    shows(
        &[aborted, during(ReadCommitted, vec![read(X, &[1])])],
        Name::G1a,
    );
}

#[test]
fn an_intermediate_read_is_g1b() {
    let writer = during(ReadCommitted, vec![append(X, 1), append(X, 2)]);
    let reader = during(ReadCommitted, vec![read(X, &[1])]);
    shows(&[writer.clone(), reader], Name::G1b);
    let register = Transaction {
        operations: during(ReadCommitted, vec![register(1, Some(1))]).operations,
        ..writer.clone()
    };
    shows(&[writer, register], Name::G1b);
}

#[test]
fn transactions_that_read_each_others_writes_are_g1c() {
    let history = [
        during(ReadCommitted, vec![append(X, 1), read(Y, &[2])]),
        during(ReadCommitted, vec![append(Y, 2), read(X, &[1])]),
    ];
    shows(&history, Name::G1c);
}

/// Read committed permits a read skew of two statements, not of one.
#[test]
fn a_read_skew_is_g_single() {
    let writer = |level| during(level, vec![append(X, 1), append(Y, 2)]);
    let reads = || vec![read(X, &[]), read(Y, &[2])];
    for level in [RepeatableRead, Serializable] {
        let history = [writer(level), during(level, reads()), finally(&[1], &[2])];
        shows(&history, Name::GSingle);
    }
    let by_two = [
        writer(ReadCommitted),
        at(0, 1_000, ReadCommitted, Committed, reads()),
        finally(&[1], &[2]),
    ];
    is_possible(&by_two);
    let states = [(X, State::List(vec![])), (Y, State::List(vec![2]))];
    let by_one = during(ReadCommitted, vec![Effect::Read(states.to_vec())]);
    let history = [writer(ReadCommitted), by_one, finally(&[1], &[2])];
    shows(&history, Name::GSingle);
}

#[test]
fn a_lost_update_is_g_single() {
    let writer = |value| vec![read(X, &[]), append(X, value)];
    let history = |level| {
        [
            during(level, writer(1)),
            during(level, writer(2)),
            finally(&[1, 2], &[]),
        ]
    };
    shows(&history(RepeatableRead), Name::GSingle);
    is_possible(&history(ReadCommitted));
}

/// Snapshot isolation, PostgreSQL's REPEATABLE READ, permits a write skew.
#[test]
fn a_write_skew_is_g2_item() {
    let history = |level| {
        [
            during(level, vec![read(X, &[]), append(Y, 1)]),
            during(level, vec![read(Y, &[]), append(X, 2)]),
            finally(&[2], &[1]),
        ]
    };
    shows(&history(Serializable), Name::G2Item);
    is_possible(&history(RepeatableRead));
}

#[test]
fn a_stale_read_is_g_single() {
    let writer = || at(0, 10, ReadCommitted, Committed, vec![append(X, 1)]);
    let reader = |began, effect| at(began, 30, ReadCommitted, Committed, vec![effect]);
    let end = || finally(&[1], &[]);
    shows(&[writer(), reader(20, read(X, &[])), end()], Name::GSingle);
    is_possible(&[writer(), reader(5, read(X, &[])), end()]);
    is_possible(&[writer(), reader(20, read(X, &[1])), end()]);
    let versions = [register(0, None), register(1, Some(1))];
    shows(
        &[
            writer(),
            reader(20, versions[0].clone()),
            reader(5, versions[1].clone()),
        ],
        Name::GSingle,
    );
}

/// Reads that go back in time, one after another.
#[test]
fn reads_that_go_backwards_are_g_single() {
    let history = |first: &[Value], second: &[Value]| {
        [
            during(ReadCommitted, vec![append(X, 1)]),
            at(20, 30, ReadCommitted, Committed, vec![read(X, first)]),
            at(40, 50, ReadCommitted, Committed, vec![read(X, second)]),
            finally(&[1], &[]),
        ]
    };
    shows(&history(&[1], &[]), Name::GSingle);
    is_possible(&history(&[], &[1]));
}

#[test]
fn an_acknowledged_write_that_is_missing_is_lost() {
    let write = |outcome| at(0, 10, ReadCommitted, outcome, vec![append(X, 1)]);
    shows(&[write(Committed), finally(&[], &[])], Name::Lost);
    is_possible(&[write(Unknown), finally(&[], &[])]);
    is_possible(&[write(Unknown), finally(&[1], &[])]);
    is_possible(&[write(Aborted), finally(&[], &[])]);
}

#[test]
fn a_write_that_was_done_twice_is_a_duplicate() {
    let write = during(ReadCommitted, vec![append(X, 1)]);
    shows(&[write, finally(&[1, 1], &[])], Name::Duplicate);
}

#[test]
fn a_value_of_no_client_is_unwritten() {
    shows(&[finally(&[1], &[])], Name::Unwritten);
}

#[test]
fn answers_of_other_clients_are_seen() {
    // The answers of two appends, exchanged.
    let history = [
        during(
            ReadCommitted,
            vec![Effect::Write(X, 1, Some(State::List(vec![1, 2])))],
        ),
        during(
            ReadCommitted,
            vec![Effect::Write(X, 2, Some(State::List(vec![1])))],
        ),
        finally(&[1, 2], &[]),
    ];
    shows(&history, Name::Internal);
}

#[test]
fn reads_that_disagree_have_no_order() {
    let history = [
        during(ReadCommitted, vec![append(X, 1)]),
        during(ReadCommitted, vec![append(X, 2)]),
        during(ReadCommitted, vec![read(X, &[1, 2])]),
        during(ReadCommitted, vec![read(X, &[2])]),
    ];
    shows(&history, Name::IncompatibleOrder);
}

#[test]
fn a_transaction_that_does_not_see_its_own_write_is_internal() {
    let writer = during(ReadCommitted, vec![append(X, 1), read(X, &[])]);
    shows(&[writer], Name::Internal);
}

/// The version numbers of an aborted transaction are given again.
#[test]
fn registers_are_checked_by_their_numbers() {
    let write = |value, number| Effect::Write(X, value, Some(State::Register(number, Some(value))));
    let writer = |began, value, number, outcome| {
        at(
            began,
            began + 5,
            ReadCommitted,
            outcome,
            vec![write(value, number)],
        )
    };
    let history = |last| {
        [
            writer(0, 1, 1, Committed),
            writer(10, 2, 2, Aborted),
            writer(20, 3, 2, Committed),
            at(40, 50, ReadCommitted, Committed, vec![last]),
        ]
    };
    is_possible(&history(register(2, Some(3))));
    shows(&history(register(1, Some(1))), Name::GSingle);
    shows(&history(register(2, Some(2))), Name::G1a);
}

/// The writes do not return the state of the register, and no read shows the versions in between.
#[test]
fn the_writes_of_registers_are_counted() {
    let writer = |began, value, outcome| {
        let ended = if outcome == Unknown {
            Tick::MAX
        } else {
            began + 5
        };
        at(began, ended, ReadCommitted, outcome, vec![append(X, value)])
    };
    let history = |number, value| {
        [
            writer(0, 1, Committed),
            writer(10, 2, Aborted),
            writer(20, 3, Committed),
            writer(30, 4, Unknown),
            at(
                40,
                50,
                ReadCommitted,
                Committed,
                vec![register(number, Some(value))],
            ),
        ]
    };
    shows(&history(1, 3), Name::Lost);
    is_possible(&history(2, 3));
    is_possible(&history(3, 4));
    shows(&history(4, 4), Name::Duplicate);
}

#[test]
fn long_histories_are_checked() {
    let list: Vec<Value> = (1..=20_000).collect();
    let appends = list.iter().map(|value| {
        let began = 10 * u64::from(*value);
        at(
            began,
            began + 5,
            ReadCommitted,
            Committed,
            vec![append(X, *value)],
        )
    });
    let end = |list| {
        at(
            300_000,
            300_010,
            ReadCommitted,
            Committed,
            vec![read(X, list)],
        )
    };
    let mut history: Vec<Transaction> = appends.collect();
    history.push(end(&list));
    is_possible(&history);
    history.push(end(&list[..19_990]));
    shows(&history, Name::GSingle);
}
