//! Valid and invalid values of `traceparent`.

use super::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn header(version: &str, trace: &str, span: &str, flags: &str) -> String {
    format!("{version}-{trace}-{span}-{flags}")
}

#[test]
fn a_valid_header_is_read() {
    for (flags, sampled) in [("00", false), ("01", true), ("02", false), ("ff", true)] {
        let read = Traceparent::parse(&header("00", TRACE, SPAN, flags)).unwrap();
        assert_eq!(read.sampled, sampled, "{flags}");
        assert_eq!(read.context.trace.to_string(), TRACE);
        assert_eq!(read.context.span.to_string(), SPAN);
    }
}

#[test]
fn an_invalid_header_is_no_context() {
    let zero = "0".repeat(32);
    let upper = TRACE.to_uppercase();
    let good = header("00", TRACE, SPAN, "01");
    let invalid = [
        String::new(),
        "00".to_owned(),
        good[..54].to_owned(),
        format!("{good}0"),
        format!("{good}-00"),
        format!("{good} "),
        format!(" {good}"),
        good.replace('-', "_"),
        header("00", &zero, SPAN, "01"),
        header("00", TRACE, "0000000000000000", "01"),
        header("00", &upper, SPAN, "01"),
        header("00", TRACE, "00F067AA0BA902B7", "01"),
        header("00", TRACE, SPAN, "0A"),
        header("00", TRACE, SPAN, "0g"),
        header("0", &format!("{TRACE}0"), SPAN, "01"),
        header("00", &TRACE[1..], &format!("{SPAN}0"), "01"),
        header("00", &format!("{}-", &TRACE[1..]), SPAN, "01"),
        header("ff", TRACE, SPAN, "01"),
        header(
            "00",
            &TRACE.replace('4', "ä").replacen('b', "", 1),
            SPAN,
            "01",
        ),
    ];
    for text in invalid {
        assert_eq!(Traceparent::parse(&text), None, "{text}");
    }
}

#[test]
fn a_future_version_may_have_more_fields() {
    let good = header("01", TRACE, SPAN, "01");
    for text in [&good, &format!("{good}-more"), &format!("{good}-")] {
        let read = Traceparent::parse(text);
        assert!(read.is_some_and(|read| read.sampled), "{text}");
    }
    assert_eq!(Traceparent::parse(&format!("{good}0")), None);
}

#[test]
fn ids_from_random_bits_are_never_zero() {
    assert_eq!(SpanId::from_random(0).to_string(), "0000000000000001");
    assert_eq!(
        TraceId::from_random(1, 2).to_string(),
        format!("{}1{}2", "0".repeat(15), "0".repeat(15))
    );
    assert!(TraceId::from_random(0, 0).to_string().ends_with("01"));
}
