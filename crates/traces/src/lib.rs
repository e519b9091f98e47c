//! Traces: the context that a client sends with a request, the spans of requests and groups, and their encoding for OpenTelemetry.
//!
//! This crate knows neither sockets nor clocks nor randomness: times and ids are arguments. It knows no SQL: a caller adds the query to
//! a span as an attribute.

mod context;
mod group;
mod otlp;
mod span;

pub use context::{SpanContext, SpanId, TraceId, Traceparent};
pub use group::{GROUPS_MAX, GroupTrace, MemberTrace, ServerName};
pub use otlp::{Resource, encode};
pub use span::{AttributeValue, Span};
