//! Takes and merges without a server: which requests fit, what is sent, and the result of each member.

use crate::strategy::Invalidation;
use crate::strategy::PlannedRequest;
use crate::strategy::Prelude;
use crate::strategy::Strategy;
use crate::testing::fold_statement::{INT4, INT8, TEXT, table};
use crate::testing::group_run::{GroupRun, unchanged};
use crate::testing::planned_statement::PlannedStatement;
use paceline_relay::server::ServerSide;
use paceline_relay::settings::SettingsInterner;
use paceline_relay::template::Templates;
use paceline_sql::function::FunctionFacts;
use paceline_testing::messages::Wire;
use paceline_testing::messages::server::*;
use paceline_wire::Frames;
use paceline_wire::frontend::{BindNames, BindValues, tag};

/// Takes `$3` rows of lane `$1` for the worker `$2`.
fn claims() -> PlannedStatement {
    let columns = [("id", INT8), ("lane", INT4), ("worker", TEXT)];
    let queue = table(&columns, &["id"]);
    let text = "UPDATE t SET worker = $2, lane = 0 WHERE id IN \
        (SELECT id FROM t WHERE lane = $1 ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED) RETURNING id";
    let parameters = [INT4, TEXT, INT8];
    PlannedStatement::taking(text, &queue, &parameters, vec![column("id", 20)])
}

/// Takes one row.
fn pops() -> PlannedStatement {
    let queue = table(&[("id", INT8)], &["id"]);
    let text = "DELETE FROM t WHERE id = (SELECT id FROM t ORDER BY id LIMIT 1)";
    PlannedStatement::taking(text, &queue, &[], Vec::new())
}

/// Reads `$2` messages of queue `$1` by a function.
fn reads() -> PlannedStatement {
    let function = FunctionFacts {
        schema: "mq".to_owned(),
        name: "read".to_owned(),
        limit_argument: 2,
        limit_type: "integer".to_owned(),
        ..FunctionFacts::default()
    };
    let text = "SELECT id FROM mq.read($1, $2)";
    let fields = vec![column("id", 20)];
    PlannedStatement::calling(text, &function, &["id", "body"], &[TEXT, INT4], fields)
}

fn a_server() -> ServerSide {
    ServerSide::new(SettingsInterner::default().none(), 100)
}

fn leave<'a>(members: &[PlannedRequest], server: &'a mut ServerSide) -> GroupRun<'a> {
    let prelude = Prelude::new(&Templates::default());
    GroupRun::send(Strategy::Take, members, &prelude, server).expect("these members share a group")
}

/// A row of the result.
fn taken(number: i32, returning: &[Option<&[u8]>]) -> Wire {
    let number = number.to_be_bytes();
    let mut row = vec![unchanged(true), Some(&number[..])];
    row.extend_from_slice(returning);
    values(&row)
}

/// The only row of a result in which no member has one.
fn nothing(same_facts: bool) -> Wire {
    values(&[unchanged(same_facts), None])
}

#[test]
fn limits_are_added_up_and_rows_have_the_numbers_of_their_members() {
    let mut claims = claims();
    let members = [
        claims.texts(&["7", "ann", "2"]),
        claims.texts(&["7", "bob", "1"]),
        claims.texts(&["7", "cy", "3"]),
    ];
    let mut server = a_server();
    let run = leave(&members, &mut server);
    let bind = Frames::new(&run.sent).find(|f| f.tag == tag::BIND);
    let bind = bind.expect("a Bind");
    let rest = BindNames::read(bind.body()).expect("a Bind").rest;
    let read = BindValues::read(rest, 0).expect("values");
    let value = |n: usize| &rest[read.values[n].clone().expect("not NULL")];
    assert_eq!(value(0), 6_i64.to_be_bytes());
    assert_eq!(value(2), b"7");
    assert_eq!(
        &value(3)[20..],
        [1, 1, 2, 3, 3, 3]
            .map(|n| [0, 0, 0, 4, 0, 0, 0, n])
            .concat()
    );
    assert_eq!(value(4), br#"{"ann","bob","cy"}"#);
    assert_eq!(read.result_formats, [1, 1, 0]);
}

#[test]
fn rows_are_distributed_in_order_while_there_are_any() {
    let mut claims = claims();
    let members = [
        claims.texts(&["7", "ann", "2"]),
        claims.texts(&["7", "bob", "2"]),
        claims.texts(&["7", "cy", "2"]),
    ];
    let mut server = a_server();
    let mut run = leave(&members, &mut server);
    let rows = [
        parsed(),
        bound(),
        taken(1, &[Some(b"11")]),
        taken(2, &[Some(b"12")]),
        taken(3, &[Some(b"13")]),
    ];
    assert!(
        run.answer(rows).is_empty(),
        "no member is answered before the commit"
    );
    let results = run.answer([complete("SELECT 3"), ready('I')]);
    let expected = [
        "0: parsed, bound, columns id, row 11, row 12, UPDATE 2, ready I",
        "1: parsed, bound, columns id, row 13, UPDATE 1, ready I",
        "2: parsed, bound, columns id, UPDATE 0, ready I",
    ];
    assert_eq!(results, expected);
    assert!(!run.batch.failed() && run.batch.invalidation().is_none());
}

#[test]
fn without_returning_rows_are_counted() {
    let mut pops = pops();
    let members = [pops.texts(&[]), pops.texts(&[])];
    let mut server = a_server();
    let mut run = leave(&members, &mut server);
    let results = run.answer([
        parsed(),
        bound(),
        taken(1, &[]),
        complete("SELECT 1"),
        ready('I'),
    ]);
    let expected = [
        "0: parsed, bound, no data, DELETE 1, ready I",
        "1: parsed, bound, no data, DELETE 0, ready I",
    ];
    assert_eq!(results, expected);
    let mut run = leave(&members, &mut server);
    let results = run.answer([bound(), nothing(true), complete("SELECT 1"), ready('I')]);
    assert!(
        results.iter().all(|line| line.contains("DELETE 0")),
        "{results:?}"
    );
}

#[test]
fn changed_tables_invalidate_the_plan() {
    let mut pops = pops();
    let members = [pops.texts(&[]), pops.texts(&[])];
    let mut server = a_server();
    let mut run = leave(&members, &mut server);
    let results = run.answer([
        parsed(),
        bound(),
        nothing(false),
        complete("SELECT 1"),
        ready('I'),
    ]);
    assert_eq!(results, ["0: retry Alone", "1: retry Alone"]);
    assert_eq!(run.batch.invalidation(), Some(Invalidation::Changed));
}

#[test]
fn an_uncertain_result_ends_the_use_of_the_statement() {
    let mut pops = pops();
    let members = [pops.texts(&[]), pops.texts(&[])];
    let mut server = a_server();
    for (error, results, invalidates) in [
        (
            error(
                "22P02",
                "invalid input syntax for type boolean: \"paceline: true\"",
            ),
            ["0: retry Alone", "1: retry Alone"],
            true,
        ),
        (
            error("42501", "permission denied for table t"),
            ["0: retry Alone", "1: retry Alone"],
            true,
        ),
        (
            error("55P03", "canceling statement due to lock timeout"),
            ["0: retry Alone", "1: retry Alone"],
            false,
        ),
        (
            error("23503", "a foreign key"),
            ["0: retry FirstHalf", "1: retry SecondHalf"],
            false,
        ),
    ] {
        let mut run = leave(&members, &mut server);
        assert_eq!(run.answer([error, ready('I')]), results);
        assert!(run.batch.failed());
        let refused = matches!(run.batch.invalidation(), Some(Invalidation::Refused(_)));
        assert_eq!(refused, invalidates);
    }
}

#[test]
fn only_requests_for_the_same_rows_share_a_group() {
    let mut claims = claims();
    let plan = claims.plan.clone();
    let mut id = |values: &[&str]| plan.group_and_keys(&claims.texts(values));
    let (group, key) = id(&["7", "ann", "1"]).expect("these members share a group");
    assert_eq!(id(&["7", "bob", "9"]), Some((group, key.clone())));
    assert_ne!(id(&["8", "ann", "1"]), Some((group, key.clone())));
    for limit in ["0", "-1", "1001", "all"] {
        assert_eq!(id(&["7", "ann", limit]), None, "{limit}");
    }
    let text = |text: &'static str| (false, Some(text.as_bytes()));
    let one = 1_i64.to_be_bytes();
    let binary = claims.bound(&[text("7"), text("ann"), (true, Some(&one))]);
    assert_eq!(plan.group_and_keys(&binary), Some((group, key.clone())));
    let one = 1_i32.to_be_bytes();
    let shorter = claims.bound(&[text("7"), text("ann"), (true, Some(&one))]);
    assert_eq!(plan.group_and_keys(&shorter), Some((group, key.clone())));
    let none = claims.bound(&[text("7"), text("ann"), (false, None)]);
    assert_eq!(plan.group_and_keys(&none), None);
}

#[test]
fn rows_of_a_function_are_distributed_like_those_of_a_table() {
    let mut reads = reads();
    let members = [reads.texts(&["q", "2"]), reads.texts(&["q", "1"])];
    let mut server = a_server();
    let mut run = leave(&members, &mut server);
    let results = run.answer([
        parsed(),
        bound(),
        taken(1, &[Some(b"11")]),
        taken(2, &[Some(b"12")]),
        complete("SELECT 2"),
        ready('I'),
    ]);
    let expected = [
        "0: parsed, bound, columns id, row 11, row 12, SELECT 2, ready I",
        "1: parsed, bound, columns id, SELECT 0, ready I",
    ];
    assert_eq!(results, expected);
}

/// `undefined_table` is a refusal of the statement. Raised by a function of the user's, it is an error of the member.
#[test]
fn an_error_raised_by_a_function_is_no_refusal_of_the_statement() {
    let mut reads = reads();
    let members = [reads.texts(&["q", "2"]), reads.texts(&["q", "1"])];
    let refused = || error("42P01", "relation \"mq.q_q\" does not exist");
    let mut server = a_server();
    let mut run = leave(&members, &mut server);
    let results = run.answer([parsed(), bound(), refused(), ready('I')]);
    assert_eq!(results, ["0: retry FirstHalf", "1: retry SecondHalf"]);
    assert!(run.batch.invalidation().is_none());
    let mut run = leave(&members, &mut server);
    let results = run.answer([refused(), ready('I')]);
    assert_eq!(results, ["0: retry Alone", "1: retry Alone"]);
    assert!(run.batch.invalidation().is_some());
}
