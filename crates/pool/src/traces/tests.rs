//! The choice of traced requests, dropped spans, and the statement in a span.

use super::*;
use paceline_traces::{AttributeValue, Span};
use std::time::{Duration, SystemTime};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn traces(ratio: f64) -> Traces {
    Traces::new(&paceline_config::Traces {
        otlp_endpoint: "http://127.0.0.1:4318/v1/traces".to_owned(),
        otlp_sample_ratio: ratio,
        ..paceline_config::Traces::default()
    })
}

fn with_context(flags: &str) -> String {
    format!("SELECT 1 /*traceparent='00-{TRACE}-{SPAN}-{flags}'*/")
}

fn span(traces: &Traces) -> Span {
    Span {
        context: traces.new_trace(),
        parent: None,
        name: "request".into(),
        began: SystemTime::UNIX_EPOCH,
        took: Duration::ZERO,
        attributes: Vec::new(),
        links: Vec::new(),
        failed: false,
    }
}

#[test]
fn the_context_of_a_request_decides() {
    let traces = traces(0.0);
    let sampled = traces.sample(Some(&with_context("01"))).unwrap();
    assert_eq!(sampled.context.trace.to_string(), TRACE);
    assert_eq!(sampled.parent.unwrap().to_string(), SPAN);
    assert_ne!(Some(sampled.context.span), sampled.parent);
    for text in [Some("SELECT 1"), Some(&with_context("00")), None] {
        assert_eq!(traces.sample(text), None, "{text:?}");
    }
}

#[test]
fn without_a_valid_context_the_ratio_decides() {
    let all = traces(1.0);
    for text in [
        Some("SELECT 1"),
        Some("SELECT 1 /*traceparent='00'*/"),
        None,
    ] {
        assert_eq!(all.sample(text).unwrap().parent, None);
    }
    assert_eq!(all.sample(Some(&with_context("00"))), None);
    let half = traces(0.5);
    let chosen = (0..10_000).filter(|_| half.sample(None).is_some()).count();
    // Of 10,000 fair coins, more than 1,000 too many or too few is less likely than one in 10^80.
    assert!((4_000..6_000).contains(&chosen), "{chosen}");
}

#[test]
fn ids_differ() {
    let traces = traces(1.0);
    let (one, other) = (traces.new_trace(), traces.new_trace());
    assert_ne!(one.trace, other.trace);
    assert_ne!(one.span, other.span);
}

#[test]
fn an_endpoint_turns_traces_on() {
    let traces = Traces::new(&paceline_config::Traces::default());
    assert!(!traces.is_on());
    traces.set_config(&paceline_config::Traces {
        otlp_endpoint: "http://collector/v1/traces".to_owned(),
        ..paceline_config::Traces::default()
    });
    assert!(traces.is_on());
}

#[test]
fn a_span_that_finds_the_queue_full_is_dropped_and_counted() {
    let traces = traces(1.0);
    for _ in 0..QUEUE_MAX + 3 {
        let span = span(&traces);
        traces.send(EndedSpan {
            span,
            template: None,
        });
    }
    assert_eq!(traces.dropped(), 3);
}

#[test]
fn a_span_shows_no_value_of_its_statement() {
    let traces = traces(1.0);
    let templates = paceline_relay::template::Templates::default();
    let text = "update t set a = 'secret', b = 7 where id = $1";
    let complete = EndedSpan {
        span: span(&traces),
        template: Some(templates.prepared(text, &[0, 0])),
    }
    .into_complete();
    assert_eq!(complete.name, "UPDATE");
    let expected = [
        ("db.system.name", "postgresql"),
        ("db.operation.name", "UPDATE"),
        ("db.query.text", "update t set a = ?, b = ? where id = $1"),
    ];
    let expected = expected.map(|(key, value)| (key, AttributeValue::from(value)));
    assert_eq!(complete.attributes, expected);
}

#[test]
fn a_collector_may_reject_some_spans() {
    let rejects = |answer: &str| collector::rejected(answer.as_bytes());
    assert_eq!(rejects(r#"{"partialSuccess": {"rejectedSpans": "3"}}"#), 3);
    assert_eq!(rejects(r#"{"partialSuccess": {"rejectedSpans": 2}}"#), 2);
    assert_eq!(rejects(r#"{"partialSuccess": {}}"#), 0);
    assert_eq!(rejects("{}") + rejects("") + rejects("[1"), 0);
}
