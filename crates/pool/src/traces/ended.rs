//! A span that has ended, and what it shows of its statement.

use paceline_relay::template::Template;
use paceline_traces::Span;
use std::sync::Arc;

/// Maximum length of a statement in a span, in bytes; of a longer one the span has only the operation.
const QUERY_BYTES_MAX: usize = 8 * 1024;

/// A span that has ended, and its statement.
#[derive(Debug)]
pub struct EndedSpan {
    /// The span, without the attributes of the statement.
    pub span: Span,
    /// The statement; `None` if the request has none.
    pub template: Option<Arc<Template>>,
}

impl EndedSpan {
    /// The span with the attributes of its statement. No value of the statement is among them.
    pub(super) fn into_complete(self) -> Span {
        let Self { mut span, template } = self;
        span.add("db.system.name", "postgresql");
        let text = template.as_ref().map(|template| template.text.as_str());
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return span;
        };
        if let Some(operation) = operation(text) {
            span.add("db.operation.name", operation.clone());
            span.name = operation.into();
        }
        if text.len() <= QUERY_BYTES_MAX
            && let Some(query) = paceline_sql::masked(text)
        {
            span.add("db.query.text", query);
        }
        span
    }
}

/// The first word of a statement, in capitals. `None` if it begins with something else, such as a comment.
fn operation(text: &str) -> Option<String> {
    let text = text.trim_ascii_start();
    let end = text.find(|c: char| !c.is_ascii_alphabetic());
    let word = text.get(..end.unwrap_or(text.len()))?;
    (!word.is_empty()).then(|| word.to_ascii_uppercase())
}
