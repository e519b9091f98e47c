//! Requests that fit, with their row and group.

use super::{counter, stock};
use crate::line::{GroupId, LineKey, LineKeys};
use crate::strategy::GroupPlan;
use crate::strategy::Strategy;
use crate::testing::fold_statement::{
    FoldStatement, INT4, INT4_ARRAY, INT8, NUMERIC, TEXT, Type, UUID, table,
};
use paceline_relay::settings::SettingsInterner;
use paceline_testing::messages::server::column;

/// A statement whose key column and parameter have these types.
fn keyed(key: Type, parameter: Type) -> FoldStatement {
    let table = table(&[("id", key), ("a", INT4)], &["id"]);
    FoldStatement::prepared(
        "UPDATE t SET a = a + 1 WHERE id = $1",
        &table,
        &[parameter],
        Vec::new(),
    )
}

/// The group and row of a request with this key: whether binary, and the bytes.
fn place(
    folding: &mut FoldStatement,
    binary: bool,
    key: Option<&[u8]>,
) -> Option<(GroupId, LineKey)> {
    let request = folding.bound(&[(binary, key)], &[]);
    let (group, keys) = folding.plan.group_and_keys(&request)?;
    match keys {
        LineKeys::One(key) => Some((group, key)),
        other => panic!("not one row: {other:?}"),
    }
}

#[test]
fn an_integer_is_the_same_row_however_it_is_written() {
    let mut folding = keyed(INT8, INT8);
    let seven = place(&mut folding, false, Some(b"7"));
    assert!(seven.is_some());
    assert_eq!(place(&mut folding, true, Some(&7_i64.to_be_bytes())), seven);
    let mut short = keyed(INT8, INT4);
    let key = |place: Option<(GroupId, LineKey)>| place.map(|(_, key)| key);
    let in_four = place(&mut short, true, Some(&7_i32.to_be_bytes()));
    assert_eq!(
        key(in_four),
        key(seven),
        "the type of the parameter does not matter"
    );
    let other = place(&mut folding, false, Some(b"-7"));
    assert_eq!(
        other,
        place(&mut folding, true, Some(&(-7_i64).to_be_bytes()))
    );
    assert_ne!(other.map(|(_, key)| key), seven.map(|(_, key)| key));
    assert_eq!(
        other.map(|(group, _)| group),
        seven.map(|(group, _)| group),
        "rows share a group"
    );
}

#[test]
fn an_integer_in_an_unusual_form_or_out_of_range_runs_alone() {
    let mut folding = keyed(INT4, INT8);
    for key in [
        "+1",
        " 1",
        "1 ",
        "",
        "1.0",
        "0x1",
        "2147483648",
        "99999999999999999999",
    ] {
        assert_eq!(
            place(&mut folding, false, Some(key.as_bytes())),
            None,
            "{key:?}"
        );
    }
    assert_eq!(
        place(&mut folding, true, Some(&(1_i64 << 31).to_be_bytes())),
        None
    );
    for wrong_len in [0, 3, 4, 9] {
        assert_eq!(
            place(&mut folding, true, Some(&[0; 9][..wrong_len])),
            None,
            "{wrong_len} bytes"
        );
    }
    let mut narrow = keyed(INT8, INT4);
    assert_eq!(
        place(&mut narrow, false, Some(b"2147483648")),
        None,
        "PostgreSQL says so better"
    );
    assert_eq!(place(&mut folding, false, None), None, "NULL");
    assert!(place(&mut folding, false, Some(b"-2147483648")).is_some());
}

#[test]
fn a_uuid_is_the_same_row_in_text_of_any_case_and_in_binary() {
    let mut folding = keyed(UUID, UUID);
    let text = "00112233-4455-6677-8899-aabbccddeeff";
    let bytes = [
        0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
    ];
    let here = place(&mut folding, false, Some(text.as_bytes()));
    assert!(here.is_some());
    assert_eq!(
        place(&mut folding, false, Some(text.to_uppercase().as_bytes())),
        here
    );
    assert_eq!(place(&mut folding, true, Some(&bytes)), here);
    for odd in [
        format!("{{{text}}}"),
        text.replace('-', ""),
        text.replace('f', "g"),
        "é".repeat(18),
    ] {
        assert_eq!(
            place(&mut folding, false, Some(odd.as_bytes())),
            None,
            "{odd}"
        );
    }
    assert_eq!(place(&mut folding, true, Some(&bytes[..15])), None);
    assert_eq!(place(&mut folding, true, Some(&[0; 17])), None);
}

#[test]
fn text_is_the_same_row_byte_by_byte() {
    let mut folding = keyed(TEXT, TEXT);
    let here = place(&mut folding, false, Some("é".as_bytes()));
    assert_eq!(
        place(&mut folding, true, Some("é".as_bytes())),
        here,
        "text looks the same in binary"
    );
    for other in ["É", "e\u{301}", "", "é "] {
        let (group, key) = place(&mut folding, false, Some(other.as_bytes())).expect("it fits");
        assert_eq!(Some(group), here.map(|(group, _)| group));
        assert_ne!(Some(key), here.map(|(_, key)| key), "{other}");
    }
}

#[test]
fn opaque_keys_share_a_group_only_with_equal_bytes() {
    let mut folding = keyed(NUMERIC, NUMERIC);
    let (group, key) = place(&mut folding, false, Some(b"1.0")).expect("it fits");
    assert_eq!(place(&mut folding, false, Some(b"1.0")), Some((group, key)));
    let (other, _) = place(&mut folding, false, Some(b"1.00")).expect("it fits");
    assert_ne!(group.cohort, other.cohort);
    assert_ne!((group.cohort, other.cohort), (0, 0));
    let (binary, _) = place(&mut folding, true, Some(b"1.0")).expect("it fits");
    assert_ne!(
        binary.cohort, group.cohort,
        "the same bytes mean something else in binary"
    );
}

#[test]
fn a_composite_key_is_one_row_only_if_all_its_columns_agree() {
    let table = table(&[("a", INT4), ("b", TEXT), ("n", INT4)], &["a", "b"]);
    let mut folding = FoldStatement::prepared(
        "UPDATE t SET n = n + 1 WHERE b = $1 AND a = $2",
        &table,
        &[TEXT, INT4],
        Vec::new(),
    );
    let mut key = |values: [&str; 2]| {
        let request = folding.texts(&values);
        folding.plan.group_and_keys(&request).expect("it fits").1
    };
    let here = key(["x", "1"]);
    assert_eq!(key(["x", "01"]), here);
    assert_ne!(key(["x", "2"]), here);
    assert_ne!(key(["y", "1"]), here);
    assert_ne!(key(["x1", "1"]), key(["x", "11"]));
}

#[test]
fn a_key_may_be_a_constant_of_the_template() {
    let table = table(&[("id", INT8), ("a", INT4)], &["id"]);
    let text = "UPDATE t SET a = a + $1 WHERE id = 5";
    let mut folding = FoldStatement::prepared(text, &table, &[INT4], Vec::new());
    let (one, two) = (folding.texts(&["1"]), folding.texts(&["2"]));
    assert_eq!(
        folding.plan.group_and_keys(&one),
        folding.plan.group_and_keys(&two)
    );
    let mut parameter = keyed(INT8, INT8);
    let by_parameter = place(&mut parameter, false, Some(b"5")).map(|(_, key)| key);
    assert_eq!(
        folding.plan.group_and_keys(&one).map(|(_, key)| key),
        by_parameter.map(LineKeys::One),
        "rows are known across templates"
    );
}

#[test]
fn literals_of_a_simple_query_are_parameters() {
    let table = table(&[("id", INT8), ("a", INT4)], &["id"]);
    let text = "UPDATE t SET a = a + 1 WHERE id = 5";
    let mut folding = FoldStatement::simple(text, &table, &[INT4, INT4], Vec::new());
    let (one, two) = (
        folding.query(text),
        folding.query("UPDATE t SET a = a + 2 WHERE id = 6"),
    );
    let (one, two) = (
        folding.plan.group_and_keys(&one).expect("fits"),
        folding.plan.group_and_keys(&two).expect("fits"),
    );
    assert_eq!(one.0, two.0);
    assert_ne!(one.1, two.1);
}

#[test]
fn formats_and_settings_distinguish_groups_and_the_format_of_a_key_does_not() {
    let mut folding = stock();
    let (one, key) = (1_i32.to_be_bytes(), 7_i64.to_be_bytes());
    let mut group = |values: [(bool, &[u8]); 2], results: &[i16]| {
        let values = values.map(|(binary, bytes)| (binary, Some(bytes)));
        let request = folding.bound(&values, results);
        folding.plan.group_and_keys(&request).expect("it fits").0
    };
    let text = group([(false, b"1"), (false, b"7")], &[]);
    assert_eq!(text.strategy, Strategy::Fold);
    assert_eq!(group([(false, b"1"), (true, &key)], &[0]), text);
    assert_eq!(
        group([(true, &one), (true, &key)], &[]).parameter_formats,
        1
    );
    assert_eq!(
        group([(false, b"1"), (false, b"7")], &[1]).result_formats,
        1
    );
    let mut request = folding.texts(&["1", "7"]);
    request.settings = SettingsInterner::default().intern([("a".into(), "b".into())].into());
    assert_ne!(
        folding.plan.group_and_keys(&request).expect("it fits").0,
        text
    );
}

#[test]
fn one_format_for_all_results_is_the_same_as_one_each() {
    let table = table(&[("id", INT8), ("a", INT4)], &["id"]);
    let fields = vec![column("id", 20), column("a", 23)];
    let text = "UPDATE t SET a = a + 1 WHERE id = $1 RETURNING id, a";
    let mut folding = FoldStatement::prepared(text, &table, &[INT8], fields);
    let mut formats = |results: &[i16]| {
        let request = folding.bound(&[(false, Some(b"1"))], results);
        folding
            .plan
            .group_and_keys(&request)
            .map(|(group, _)| group.result_formats)
    };
    assert_eq!((formats(&[]), formats(&[0, 0])), (Some(0), Some(0)));
    assert_eq!((formats(&[1]), formats(&[1, 1])), (Some(3), Some(3)));
    assert_eq!((formats(&[0, 1]), formats(&[1, 0])), (Some(2), Some(1)));
    assert_eq!(formats(&[1, 1, 1]), None, "PostgreSQL says so better");
}

#[test]
fn a_request_that_a_fold_cannot_answer_runs_alone() {
    let mut wrong_count = counter("");
    let request = wrong_count.texts(&["1"]);
    assert_eq!(wrong_count.plan.group_and_keys(&request), None);
    let mut one = counter("/*+ TARGET_AFFECT_ROW(1) */");
    let request = one.texts(&["1", "7"]);
    assert!(one.plan.group_and_keys(&request).is_some());
    let mut two = counter("/*+ TARGET_AFFECT_ROW(2) */");
    let request = two.texts(&["1", "7"]);
    assert_eq!(two.plan.group_and_keys(&request), None);
    let mut request = one.texts(&["1", "7"]);
    let latin = [(
        "client_encoding".to_owned(),
        "SET client_encoding TO 'LATIN1'".to_owned(),
    )];
    request.settings = SettingsInterner::default().intern(latin.into());
    assert_eq!(
        one.plan.group_and_keys(&request),
        None,
        "text that is not UTF-8"
    );
}

#[test]
fn a_key_whose_conversion_may_make_it_another_one_runs_alone() {
    let mut table = table(&[("name", TEXT), ("qty", INT4)], &["name"]);
    let text = "UPDATE t SET qty = qty + 1 WHERE name = $1";
    for converted in [false, true] {
        table.columns[0].converted = converted;
        let mut folding = FoldStatement::prepared(text, &table, &[TEXT], Vec::new());
        for name in ["a", "Z \u{7f}", "é", "a\u{ffe4}"] {
            let request = folding.texts(&[name]);
            let grouped = folding.plan.group_and_keys(&request).is_some();
            assert_eq!(grouped, name.is_ascii() || !converted, "{name}");
        }
    }
}

#[test]
fn an_array_is_sent_as_text_only() {
    let table = table(&[("id", INT8), ("a", INT4_ARRAY)], &["id"]);
    let text = "UPDATE t SET a = $2 WHERE id = $1";
    let mut folding = FoldStatement::prepared(text, &table, &[INT8, INT4_ARRAY], Vec::new());
    let request = folding.texts(&["1", "{1,2}"]);
    assert!(folding.plan.group_and_keys(&request).is_some());
    let request = folding.bound(&[(false, Some(b"1")), (true, Some(&[0; 12]))], &[]);
    assert_eq!(folding.plan.group_and_keys(&request), None);
}
