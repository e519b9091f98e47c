//! Texts that the server may split into other tokens than Paceline's parser, because the meaning of a backslash or a
//! character depends on its settings. The effect of such a text is unknown.

use super::state::{RelayContext, RelayState};
use crate::parsed::ClientParse;
use crate::template::Template;
use std::sync::Arc;

impl RelayState {
    /// Whether the server splits the text as the parser does. Decided by the settings that it reported, unless it is
    /// executing something that may change them.
    fn tokenizes_alike(&self, text: &str, context: &RelayContext<'_>) -> bool {
        let plain = text.is_ascii() && !paceline_sql::hides_quotes(text);
        plain || (context.server.tokenizes_alike(text) && !self.expect.may_change_settings())
    }

    /// The template of a text that the server is about to parse. If the tokens may differ, a template with unknown effect.
    pub(super) fn as_read(
        &self,
        text: &str,
        template: Arc<Template>,
        context: &RelayContext<'_>,
    ) -> Arc<Template> {
        match self.tokenizes_alike(text, context) {
            true => template,
            false => context.templates.unknown(&template.text, &template.types),
        }
    }

    /// The same for a text that the server may have parsed earlier, under this name of the client's.
    pub(super) fn as_prepared(
        &self,
        name: &[u8],
        template: Arc<Template>,
        client_parse: &ClientParse,
        context: &RelayContext<'_>,
    ) -> Arc<Template> {
        let server = &*context.server;
        let there = match name.is_empty() {
            true => server.unnamed == Some(client_parse.written),
            false => server.has_for((&*template).into(), client_parse),
        };
        // A statement with unknown effect remains the same statement.
        let unknown = template.statement.is_none();
        match there || unknown || self.tokenizes_alike(&template.text, context) {
            true => template,
            false => context.templates.unknown(&template.text, &template.types),
        }
    }
}
