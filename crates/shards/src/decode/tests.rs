//! Texts and bytes that PostgreSQL reads in one way only, and those that it may read in another.

use super::*;

/// The value of a text, as one number where it has one.
fn read(key_type: KeyType, input: &str) -> Option<i64> {
    match text(key_type, input)? {
        KeyValue::Int(value) | KeyValue::Timestamp(value) => Some(value),
        KeyValue::Date(value) => Some(value.into()),
        KeyValue::Bool(value) => Some(value.into()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn integers_fit_their_types() {
    assert_eq!(read(KeyType::Int2, "-32768"), Some(-32768));
    assert_eq!(read(KeyType::Int4, "+7"), Some(7));
    assert_eq!(read(KeyType::Int8, "9223372036854775807"), Some(i64::MAX));
    for (key_type, text) in [
        (KeyType::Int2, "32768"),
        (KeyType::Int4, "3000000000"),
        (KeyType::Int8, "9223372036854775808"),
        (KeyType::Int4, "1.5"),
        (KeyType::Int4, ""),
        (KeyType::Int4, "-"),
        (KeyType::Int4, "+-1"),
        (KeyType::Int4, " 1"),
        (KeyType::Int4, "0x1F"),
        (KeyType::Int4, "1_000"),
        (KeyType::Int4, "١"),
    ] {
        assert_eq!(read(key_type, text), None, "{text}");
    }
}

#[test]
fn dates_have_a_long_year_first() {
    for (text, days) in [
        ("2000-01-01", 0),
        ("1999-12-31", -1),
        ("2000-03-01", 60),
        ("2024-02-29", 8825),
        ("0001-01-01", -730_119),
        ("0001-12-31 BC", -730_120),
        ("4714-11-24 BC", -2_451_545),
        ("5874897-12-31", 2_145_031_948),
        ("infinity", i64::from(i32::MAX)),
        ("-infinity", i64::from(i32::MIN)),
    ] {
        assert_eq!(read(KeyType::Date, text), Some(days), "{text}");
    }
    for text in [
        "2023-02-29",
        "1900-02-29",
        "2000-13-01",
        "2000-00-01",
        "2000-01-00",
        "0000-01-01",
        "01-02-2000",
        "20-01-02",
        "2000-1-1",
        "20000101",
        "2000-01-01 ",
        "2000-01-01 00:00:00",
        "4714-11-23 BC",
        "5874898-01-01",
        "now",
        "today",
    ] {
        assert_eq!(read(KeyType::Date, text), None, "{text}");
    }
}

#[test]
fn timestamps_have_no_offset() {
    for (text, microseconds) in [
        ("2000-01-01", 0),
        ("2000-01-01 00:00:00", 0),
        ("2000-01-01T00:01", 60_000_000),
        ("1999-12-31 23:59:59.5", -500_000),
        ("2000-01-01 00:00:00.000001", 1),
        ("4714-11-24 00:00:00 BC", -211_813_488_000_000_000),
        ("294276-12-31 23:59:59.999999", 9_223_371_331_199_999_999),
        ("infinity", i64::MAX),
        ("-infinity", i64::MIN),
    ] {
        assert_eq!(read(KeyType::Timestamp, text), Some(microseconds), "{text}");
    }
    for text in [
        "2000-01-01 24:00:00",
        "2000-01-01 00:60:00",
        "2000-01-01 00:00:60",
        "2000-01-01 00:00:00.0000001",
        "2000-01-01 00:00.5",
        "2000-01-01 00",
        "2000-01-01 00:00:00+01",
        "2000-01-01 00:00:00Z",
        "2000-01-01 12:00:00 PM",
        "294277-01-01 00:00:00",
        "4714-11-23 23:59:59 BC",
    ] {
        assert_eq!(read(KeyType::Timestamp, text), None, "{text}");
    }
}

#[test]
fn timestamps_with_time_zone_need_an_offset() {
    for (text, microseconds) in [
        ("2000-01-01 00:00:00+00", 0),
        ("2000-01-01T00:00:00Z", 0),
        ("2000-01-01 01:00:00+01:00", 0),
        ("1999-12-31 18:30:00.5-05:30", 500_000),
        ("0001-12-31 00:00:00+00 BC", -730_120 * 86_400_000_000),
    ] {
        assert_eq!(
            read(KeyType::Timestamptz, text),
            Some(microseconds),
            "{text}"
        );
    }
    for text in [
        "2000-01-01",
        "2000-01-01+01",
        "2000-01-01 00:00:00",
        "2000-01-01 00:00:00 UTC",
        "2000-01-01 00:00:00+1",
        "2000-01-01 00:00:00+15",
        "2000-01-01 00:00:00+01:60",
        "2000-01-01 00:00:00 Europe/Berlin",
        "4714-11-24 00:00:00+01 BC",
    ] {
        assert_eq!(read(KeyType::Timestamptz, text), None, "{text}");
    }
}

#[test]
fn other_types_have_their_usual_forms() {
    let bytes = [
        0x12, 0x3e, 0x45, 0x67, 0xe8, 0x9b, 0x12, 0xd3, 0xa4, 0x56, 0x42, 0x66, 0x14, 0x17, 0x40,
        0x00,
    ];
    for usual in [
        "123e4567-e89b-12d3-a456-426614174000",
        "123E4567E89B12D3A456426614174000",
    ] {
        assert_eq!(
            text(KeyType::Uuid, usual),
            Some(KeyValue::Uuid(bytes)),
            "{usual}"
        );
    }
    for other in [
        "{123e4567-e89b-12d3-a456-426614174000}",
        "123e-4567e89b12d3a456426614174000-",
        "123e4567-e89b-12d3-a456-42661417400",
        "123e4567-e89b-12d3-a456-42661417400g",
        "",
    ] {
        assert_eq!(text(KeyType::Uuid, other), None, "{other}");
    }
    assert_eq!(read(KeyType::Bool, "TRUE"), Some(1));
    assert_eq!(read(KeyType::Bool, "0"), Some(0));
    assert_eq!(read(KeyType::Bool, "tr"), None);
    assert_eq!(text(KeyType::Text, ""), Some(KeyValue::Text("".into())));
}

#[test]
fn bytes_have_the_width_of_their_type() {
    assert_eq!(
        binary(KeyType::Int2, &[0xff, 0xfe]),
        Some(KeyValue::Int(-2))
    );
    assert_eq!(
        binary(KeyType::Int4, &[0, 0, 1, 0]),
        Some(KeyValue::Int(256))
    );
    assert_eq!(binary(KeyType::Int8, &[0, 0, 1, 0]), None);
    assert_eq!(binary(KeyType::Bool, &[2]), Some(KeyValue::Bool(true)));
    assert_eq!(
        binary(KeyType::Date, &i32::MAX.to_be_bytes()),
        Some(KeyValue::Date(i32::MAX))
    );
    assert_eq!(binary(KeyType::Date, &(i32::MAX - 1).to_be_bytes()), None);
    let last = 9_223_371_331_199_999_999_i64;
    assert_eq!(
        binary(KeyType::Timestamp, &last.to_be_bytes()),
        Some(KeyValue::Timestamp(last))
    );
    assert_eq!(
        binary(KeyType::Timestamptz, &(last + 1).to_be_bytes()),
        None
    );
    assert_eq!(binary(KeyType::Text, b"a\0"), None);
    assert_eq!(binary(KeyType::Text, &[0xff]), None);
    assert_eq!(binary(KeyType::Text, b""), Some(KeyValue::Text("".into())));
}
