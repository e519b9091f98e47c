//! Texts of which the server may make other tokens than the parser here, because a backslash or a character means
//! something else under its settings. What such a text does is not known.

use super::state::{RelayContext, RelayState};
use crate::analysis::Analysis;
use crate::template::Template;
use std::sync::Arc;

impl RelayState {
    /// Does the server read the text as the parser here does? Its settings are known as it has reported them, so while it
    /// carries something out nothing is known of them.
    fn reads(&self, text: &str, context: &RelayContext<'_>) -> bool {
        let plain = text.is_ascii() && !paceline_sql::hides_quotes(text);
        plain || (context.server.reads(text) && !self.expect.may_change_settings())
    }

    /// The template of a text that is about to be parsed on the server, or one of which nothing is known.
    pub(super) fn as_read(
        &self,
        text: &str,
        template: Arc<Template>,
        context: &RelayContext<'_>,
    ) -> Arc<Template> {
        match self.reads(text, context) {
            true => template,
            false => context.templates.unknown(&template.text, &template.types),
        }
    }

    /// The same for a text that the server may have parsed before, under this name of the client's.
    pub(super) fn as_prepared(
        &self,
        name: &[u8],
        template: Arc<Template>,
        analysis: &Analysis,
        context: &RelayContext<'_>,
    ) -> Arc<Template> {
        let server = &*context.server;
        let there = match name.is_empty() {
            true => server.unnamed == Some(analysis.parse),
            false => server.has_for(template.statement_id, analysis, &template.types),
        };
        // One of which nothing is known stays the statement that it is.
        let unknown = template.statement.is_none();
        match there || unknown || self.reads(&template.text, context) {
            true => template,
            false => context.templates.unknown(&template.text, &template.types),
        }
    }
}
