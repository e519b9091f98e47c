//! Spans as OpenTelemetry's collectors read them: a request of OTLP over HTTP in the JSON encoding (OpenTelemetry Protocol
//! Specification, "JSON Protobuf Encoding"). Ids are hexadecimal, and 64-bit integers are strings.

#[cfg(test)]
mod tests;

use crate::context::SpanContext;
use crate::span::{AttributeValue, Span};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// `SPAN_KIND_CLIENT`: the caller of a database.
const KIND_CLIENT: u8 = 3;

/// `STATUS_CODE_ERROR`.
const STATUS_ERROR: u8 = 2;

/// The flag of a span whose trace is recorded.
const FLAG_SAMPLED: u8 = 1;

/// The process that sends spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// `service.name`.
    pub service: String,
    /// `service.version`.
    pub version: &'static str,
    /// `process.pid`.
    pub process: u32,
}

/// The body of a request with these spans.
pub fn encode(resource: &Resource, spans: &[Span]) -> Vec<u8> {
    let attributes = [
        ("service.name", resource.service.clone().into()),
        ("service.version", resource.version.into()),
        (
            "process.pid",
            AttributeValue::Whole(resource.process.into()),
        ),
    ];
    let spans: Vec<Value> = spans.iter().map(span_json).collect();
    let body = json!({ "resourceSpans": [{
        "resource": { "attributes": attributes_json(&attributes) },
        "scopeSpans": [{
            "scope": { "name": "paceline", "version": resource.version },
            "spans": spans,
        }],
    }] });
    body.to_string().into_bytes()
}

fn span_json(span: &Span) -> Value {
    let links: Vec<Value> = span.links.iter().map(link_json).collect();
    let status = match span.failed {
        true => json!({ "code": STATUS_ERROR }),
        false => json!({}),
    };
    let mut value = json!({
        "traceId": span.context.trace.to_string(),
        "spanId": span.context.span.to_string(),
        "flags": FLAG_SAMPLED,
        "name": span.name,
        "kind": KIND_CLIENT,
        "startTimeUnixNano": nanoseconds(span.began),
        "endTimeUnixNano": nanoseconds(span.began + span.took),
        "attributes": attributes_json(&span.attributes),
        "links": links,
        "status": status,
    });
    if let (Some(parent), Some(fields)) = (span.parent, value.as_object_mut()) {
        fields.insert("parentSpanId".to_owned(), parent.to_string().into());
    }
    value
}

fn link_json(linked: &SpanContext) -> Value {
    json!({ "traceId": linked.trace.to_string(), "spanId": linked.span.to_string() })
}

fn attributes_json(attributes: &[(&'static str, AttributeValue)]) -> Value {
    let attribute = |(key, value): &(&'static str, AttributeValue)| {
        let value = match value {
            AttributeValue::Text(text) => json!({ "stringValue": text }),
            AttributeValue::Whole(number) => json!({ "intValue": number.to_string() }),
            AttributeValue::Fraction(number) => json!({ "doubleValue": number }),
        };
        json!({ "key": key, "value": value })
    };
    attributes.iter().map(attribute).collect()
}

fn nanoseconds(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_nanos().to_string()
}
