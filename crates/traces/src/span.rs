//! A span: one timed operation of a trace.

use crate::context::{SpanContext, SpanId};
use crate::group::{GroupTrace, ServerName};
use std::borrow::Cow;
use std::time::{Duration, SystemTime};

/// A span that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Its own ids.
    pub context: SpanContext,
    /// The span of the same trace that caused it.
    pub parent: Option<SpanId>,
    /// The name, which has no values.
    pub name: Cow<'static, str>,
    /// Its beginning.
    pub began: SystemTime,
    /// The time from its beginning to its end.
    pub took: Duration,
    /// Its attributes, by the keys of OpenTelemetry's semantic conventions and Paceline's own.
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// Spans that belong to it without being its parent or its children.
    pub links: Vec<SpanContext>,
    /// Whether the operation has failed.
    pub failed: bool,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    /// A text.
    Text(Cow<'static, str>),
    /// A whole number.
    Whole(u64),
    /// A number with a fraction.
    Fraction(f64),
}

impl From<&'static str> for AttributeValue {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl Span {
    /// Adds the attributes of the database.
    pub fn add_server(&mut self, server: &ServerName) {
        let ServerName {
            address,
            port,
            database,
        } = server;
        self.add("db.namespace", database.clone());
        self.add("server.address", address.clone());
        if let Some(port) = port {
            self.add("server.port", AttributeValue::Whole((*port).into()));
        }
    }

    /// Adds the attributes of a group: the same for its own span and for those of its members.
    pub fn add_group(&mut self, group: &GroupTrace) {
        self.add("paceline.strategy", group.strategy);
        if let Some(context) = &group.context {
            self.add("paceline.group.id", context.span.to_string());
            let members = u64::try_from(group.members).unwrap_or(u64::MAX);
            self.add("paceline.group.size", AttributeValue::Whole(members));
        }
    }

    /// Notes that the operation has failed; with the SQLSTATE, if one is known.
    pub fn fail(&mut self, sqlstate: Option<&str>) {
        self.failed = true;
        if let Some(state) = sqlstate {
            self.add("db.response.status_code", state.to_owned());
            self.add("error.type", state.to_owned());
        }
    }

    /// Adds an attribute.
    pub fn add(&mut self, key: &'static str, value: impl Into<AttributeValue>) {
        self.attributes.push((key, value.into()));
    }
}
