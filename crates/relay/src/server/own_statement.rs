//! A client's own statement that the server has parsed under other settings than those that the client has now. PostgreSQL keeps the meaning
//! of its constants (`'2026-01-01 00:00'::timestamptz` under an earlier `TimeZone`), so a client that prepares the same text now gets another
//! one.

use super::unknown_settings::may_depend_on_settings;
use super::{ServerSide, StatementKey};
use crate::parsed::ClientParse;
use crate::request::Request;
use std::borrow::Cow;

impl ServerSide {
    /// The client's own statement, if the server has it and parsed it under other settings than those in force.
    pub(super) fn own(&self, id: u64, client_parse: &ClientParse) -> Option<StatementKey> {
        let key = StatementKey::new(id, client_parse.settings);
        if client_parse.written == 0 || key == self.key(id) {
            return None;
        }
        let there = self.prepared.get(&key)?;
        (there.written == client_parse.written).then_some(key)
    }

    /// The same for a client that executes it. From now on no other client uses it: PostgreSQL may analyse it again, under this client's
    /// settings.
    pub(super) fn use_own(&mut self, id: u64, client_parse: &ClientParse) -> Option<StatementKey> {
        let key = self.own(id, client_parse)?;
        self.prepared.get_mut(&key)?.private = true;
        Some(key)
    }
}

/// Whether a server has parsed the client's statement under other settings than those of the request.
fn was_parsed_otherwise(request: &Request) -> bool {
    let client_parse = request.client_parse.as_ref();
    client_parse.is_some_and(|parse| parse.written != 0 && parse.settings != request.settings.id)
}

/// The [`ClientParse::written`] of a statement that may mean something else than the same text of other clients with the settings of the
/// request.
pub fn own_meaning(request: &Request) -> Option<u64> {
    let is_own = was_parsed_otherwise(request) && may_depend_on_settings(&request.template.text);
    let client_parse = request.client_parse.as_ref().filter(|_| is_own);
    client_parse.map(|client_parse| client_parse.written)
}

/// The request as a group executes it whose members share a statement. If the client's own statement has no meaning of its own, a statement
/// that was parsed under the settings of the request takes its place.
pub fn for_sharing(request: &Request) -> Cow<'_, Request> {
    if !was_parsed_otherwise(request) || own_meaning(request).is_some() {
        return Cow::Borrowed(request);
    }
    let mut request = request.clone();
    if let Some(client_parse) = &mut request.client_parse {
        client_parse.written = 0;
    }
    Cow::Owned(request)
}
