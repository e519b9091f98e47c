//! The messages of a group.

use super::{a_server, counter, leave, stock};
use crate::testing::fold_statement::{FoldStatement, INT4, INT8, NUMERIC, TEXT, table};
use crate::testing::group_run::{have_analysis_time, unchanged};
use paceline_relay::parsed::AnalysisTime;
use paceline_testing::messages::Wire;
use paceline_testing::messages::server::{
    bound as bound_complete, complete, error, parsed, ready, values,
};
use paceline_wire::frontend::{BindNames, BindValues, tag};
use paceline_wire::reader::Reader;
use paceline_wire::{Frame, Frames};

/// The parameters of the `Bind`, as text, and its result formats.
fn bound(sent: &[u8]) -> (Vec<String>, Vec<i16>) {
    let bind = Frames::new(sent)
        .find(|f: &Frame<'_>| f.tag == tag::BIND)
        .expect("a Bind");
    let rest = BindNames::read(bind.body()).expect("a Bind").rest;
    let read = BindValues::read(rest, 0).expect("values");
    let values = read.values.iter().zip(&read.binary).map(|(range, binary)| {
        let bytes = &rest[range.clone().expect("no array is NULL")];
        match binary {
            false => String::from_utf8(bytes.to_vec()).expect("text"),
            true if bytes == AnalysisTime::UNKNOWN.bytes() => "not analyzed".to_owned(),
            true => integers(bytes),
        }
    });
    (values.collect(), read.result_formats)
}

/// A binary array of int4 after the OID of its element type.
fn integers(bytes: &[u8]) -> String {
    let mut r = Reader::new(bytes);
    let head: Vec<i32> = (0..5).map(|_| r.i32().expect("a header")).collect();
    let [1, has_null, element, len, 1] = head[..] else {
        panic!("not a plain array: {head:?}")
    };
    let value = |value: Option<&[u8]>| match value {
        None => "NULL".to_owned(),
        Some(bytes) => i32::from_be_bytes(bytes.try_into().expect("an int4")).to_string(),
    };
    let values: Vec<_> = (0..len)
        .map(|_| value(r.value().expect("a value")))
        .collect();
    assert!(r.rest().is_empty());
    assert_eq!(has_null == 1, values.iter().any(|v| v == "NULL"));
    format!("{element}:{{{}}}", values.join(","))
}

#[test]
fn members_are_sorted_by_row_and_arrival() {
    let mut folding = stock();
    let members: Vec<_> = [["1", "7"], ["2", "5"], ["3", "7"], ["4", "6"], ["5", "5"]]
        .iter()
        .map(|values| folding.texts(values))
        .collect();
    let mut server = a_server();
    let run = leave(&members, &mut server).expect("these members share a group");
    let (values, formats) = bound(&run.sent);
    let expected = [
        "{7,5,6}",
        "23:{0,2,4}",
        "23:{2,4,5}",
        "not analyzed",
        "{1,3,2,5,4}",
    ];
    assert_eq!(values, expected);
    assert_eq!(formats, [1, 1, 1, 1, 0]);
}

#[test]
fn a_group_is_one_statement_that_is_prepared_once() {
    let mut folding = stock();
    let rows = ["7", "8", "7"];
    let members: Vec<_> = rows.iter().map(|row| folding.texts(&["1", row])).collect();
    let mut server = a_server();
    let sent = leave(&members, &mut server)
        .expect("these members share a group")
        .sent();
    let [parse, bind, execute, sync] = sent.as_slice() else {
        panic!("{sent:?}")
    };
    assert!(parse.contains("SKIP LOCKED"), "{parse}");
    assert!(bind.starts_with("Bind paceline_"), "{bind}");
    assert_eq!((execute.as_str(), sync.as_str()), ("Execute", "Sync"));
    let sent = leave(&members, &mut server)
        .expect("these members share a group")
        .sent();
    assert_eq!(sent[0], *bind);
}

#[test]
fn a_group_on_one_row_waits_for_it() {
    let mut folding = stock();
    let members = [folding.texts(&["1", "7"]), folding.texts(&["2", "7"])];
    let mut server = a_server();
    let run = leave(&members, &mut server).expect("these members share a group");
    let parse = &run.sent()[0];
    assert!(
        parse.starts_with("Parse") && !parse.contains("SKIP LOCKED"),
        "{parse}"
    );
    assert_eq!(bound(&run.sent).0[..3], ["{7}", "23:{0}", "23:{2}"]);
}

#[test]
fn members_on_different_rows_need_no_order() {
    let mut folding = stock();
    let members = [folding.texts(&["1", "7"]), folding.texts(&["2", "5"])];
    let mut server = a_server();
    let run = leave(&members, &mut server).expect("these members share a group");
    let parse = &run.sent()[0];
    assert!(
        !parse.contains("RECURSIVE") && parse.contains("lock_timeout"),
        "{parse}"
    );
    let (values, formats) = bound(&run.sent);
    assert_eq!(values, ["{7,5}", "not analyzed", "{1,2}"]);
    assert_eq!(formats, [1, 1, 1, 1, 0]);
}

/// The row of the first member, whose row is updated.
fn updated(same_facts: bool) -> Wire {
    let first = 1_i32.to_be_bytes();
    values(&[unchanged(same_facts), Some(&first), Some(&[1]), Some(&[1])])
}

#[test]
fn the_next_group_on_the_connection_has_the_time_of_the_analysis() {
    let mut counter = counter("");
    let members = [counter.texts(&["1", "7"]), counter.texts(&["2", "7"])];
    let mut server = a_server();
    let mut run = leave(&members, &mut server).expect("these members share a group");
    assert_eq!(have_analysis_time(&run.sent), [false]);
    let row = || [updated(true), complete("SELECT 1"), ready('I')].concat();
    run.answer([parsed(), bound_complete(), row()]);
    let mut run = leave(&members, &mut server).expect("these members share a group");
    assert_eq!(have_analysis_time(&run.sent), [true]);
    run.answer([bound_complete(), row()]);
    let mut other = a_server();
    let run = leave(&members, &mut other).expect("these members share a group");
    assert_eq!(have_analysis_time(&run.sent), [false], "another connection");
    server.retire_all();
    let run = leave(&members, &mut server).expect("these members share a group");
    assert_eq!(have_analysis_time(&run.sent), [false], "another analysis");
}

#[test]
fn a_statement_that_has_failed_says_nothing_about_its_analysis() {
    let mut counter = counter("");
    let members = [counter.texts(&["1", "7"]), counter.texts(&["2", "7"])];
    let mut server = a_server();
    let mut run = leave(&members, &mut server).expect("these members share a group");
    let failed = [updated(true), error("40001", "a conflict"), ready('I')].concat();
    run.answer([parsed(), bound_complete(), failed]);
    let run = leave(&members, &mut server).expect("these members share a group");
    assert_eq!(have_analysis_time(&run.sent), [false]);
}

#[test]
fn binary_values_are_sent_in_binary_arrays_and_keys_as_text() {
    let mut folding = counter("");
    let (one, key) = (1_i32.to_be_bytes(), 7_i64.to_be_bytes());
    let members = [
        folding.bound(&[(true, Some(&one)), (true, Some(&key))], &[1]),
        folding.bound(&[(true, None), (false, Some(b"7"))], &[1]),
    ];
    let mut server = a_server();
    let (values, formats) = bound(
        &leave(&members, &mut server)
            .expect("these members share a group")
            .sent,
    );
    assert_eq!(
        (values[0].as_str(), values[4].as_str()),
        ("{7}", "23:{1,NULL}")
    );
    assert_eq!(formats, [1, 1, 1, 1]);
}

#[test]
fn text_values_are_quoted() {
    let table = table(&[("id", INT8), ("a", TEXT)], &["id"]);
    let text = "UPDATE t SET a = $2 WHERE id = $1";
    let mut folding = FoldStatement::prepared(text, &table, &[INT8, TEXT], Vec::new());
    let members = [
        folding.texts(&["1", "NULL"]),
        folding.texts(&["1", r#"a,"b"\"#]),
        folding.bound(&[(false, Some(b"1")), (false, None)], &[]),
    ];
    let mut server = a_server();
    let (values, _) = bound(
        &leave(&members, &mut server)
            .expect("these members share a group")
            .sent,
    );
    assert_eq!(values[4], r#"{"NULL","a,\"b\"\\",NULL}"#);
}

#[test]
fn a_composite_key_has_an_array_for_each_column() {
    let table = table(&[("a", INT4), ("b", TEXT), ("n", INT4)], &["a", "b"]);
    let text = "UPDATE t SET n = $3 WHERE b = $1 AND a = $2";
    let mut folding = FoldStatement::prepared(text, &table, &[TEXT, INT4, INT4], Vec::new());
    let members = [
        folding.texts(&["x", "1", "8"]),
        folding.texts(&["y", "1", "9"]),
        folding.texts(&["x", "1", "10"]),
    ];
    let mut server = a_server();
    let (values, _) = bound(
        &leave(&members, &mut server)
            .expect("these members share a group")
            .sent,
    );
    assert_eq!(
        values,
        [
            "{1,1}",
            r#"{"x","y"}"#,
            "23:{0,2}",
            "23:{2,3}",
            "not analyzed",
            "{8,10,9}"
        ]
    );
}

#[test]
fn different_opaque_keys_share_no_group() {
    let table = table(&[("id", NUMERIC), ("a", INT4)], &["id"]);
    let text = "UPDATE t SET a = a + 1 WHERE id = $1";
    let mut folding = FoldStatement::prepared(text, &table, &[NUMERIC], Vec::new());
    let members = [folding.texts(&["1.0"]), folding.texts(&["1.00"])];
    let mut server = a_server();
    assert!(leave(&members, &mut server).is_none());
    let members = [folding.texts(&["1.0"]), folding.texts(&["1.0"])];
    assert!(leave(&members, &mut server).is_some());
}
