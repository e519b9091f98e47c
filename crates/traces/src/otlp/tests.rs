//! The JSON of spans.

use super::*;
use crate::context::{SpanId, TraceId};
use crate::group::ServerName;

fn context(bits: u64) -> SpanContext {
    SpanContext {
        trace: TraceId::from_random(bits, bits),
        span: SpanId::from_random(bits),
    }
}

fn span() -> Span {
    Span {
        context: context(10),
        parent: None,
        name: "SELECT".into(),
        began: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        took: Duration::from_nanos(1_500),
        attributes: Vec::new(),
        links: Vec::new(),
        failed: false,
    }
}

fn encoded(spans: &[Span]) -> Value {
    let resource = Resource {
        service: "pace \"line\"".to_owned(),
        version: "1.2.3",
        process: 7,
    };
    serde_json::from_slice(&encode(&resource, spans)).unwrap()
}

#[test]
fn a_request_names_its_process() {
    let body = encoded(&[]);
    let resource = &body["resourceSpans"][0]["resource"]["attributes"];
    assert_eq!(
        *resource,
        json!([
            { "key": "service.name", "value": { "stringValue": "pace \"line\"" } },
            { "key": "service.version", "value": { "stringValue": "1.2.3" } },
            { "key": "process.pid", "value": { "intValue": "7" } },
        ])
    );
    let scope = &body["resourceSpans"][0]["scopeSpans"][0];
    assert_eq!(
        scope["scope"],
        json!({ "name": "paceline", "version": "1.2.3" })
    );
    assert_eq!(scope["spans"], json!([]));
}

#[test]
fn a_span_has_ids_times_and_no_parent() {
    let body = encoded(&[span()]);
    assert_eq!(
        body["resourceSpans"][0]["scopeSpans"][0]["spans"],
        json!([{
            "traceId": "000000000000000a000000000000000a",
            "spanId": "000000000000000a",
            "flags": 1,
            "name": "SELECT",
            "kind": 3,
            "startTimeUnixNano": "1700000000000000000",
            "endTimeUnixNano": "1700000000000001500",
            "attributes": [],
            "links": [],
            "status": {},
        }])
    );
}

#[test]
fn a_failed_member_has_a_parent_a_link_and_a_status() {
    let mut member = span();
    member.parent = Some(SpanId::from_random(255));
    member.links.push(context(3));
    member.fail(Some("23505"));
    member.add_server(&ServerName {
        address: "db".to_owned(),
        port: Some(5432),
        database: "shop".to_owned(),
    });
    member.add("paceline.wait_seconds", AttributeValue::Fraction(0.25));
    let body = encoded(&[member]);
    let sent = &body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(sent["parentSpanId"], "00000000000000ff");
    assert_eq!(sent["status"], json!({ "code": 2 }));
    let link =
        json!({ "traceId": "00000000000000030000000000000003", "spanId": "0000000000000003" });
    assert_eq!(sent["links"], json!([link]));
    let text = |text: &str| json!({ "stringValue": text });
    let expected = [
        ("db.response.status_code", text("23505")),
        ("error.type", text("23505")),
        ("db.namespace", text("shop")),
        ("server.address", text("db")),
        ("server.port", json!({ "intValue": "5432" })),
        ("paceline.wait_seconds", json!({ "doubleValue": 0.25 })),
    ];
    let expected: Vec<Value> = expected
        .into_iter()
        .map(|(key, value)| json!({ "key": key, "value": value }))
        .collect();
    assert_eq!(sent["attributes"], json!(expected));
}
