//! The prepared statements of a server, and which of them may serve which client.

use super::{Closed, Ensured, Preparable, ServerSide, StatementKey};
use crate::parsed::{AnalysisTime, ClientParse, ColumnsId, ServerParse, TypesId};
use crate::request::Request;
use crate::template::Template;
use bytes::BytesMut;
use paceline_wire::frontend::{self, Target, tag};

impl ServerSide {
    /// Writes a `Parse` of the statement, unless the server has it. The time of its parsing does not matter.
    pub fn ensure(&mut self, statement: Preparable<'_>, out: &mut BytesMut) -> Ensured {
        self.ensure_for(statement, &ClientParse::default(), 0, out)
    }

    /// Writes a `Parse` of a client's statement at the time `now`, unless the server has one that it parsed late enough.
    pub fn ensure_for(
        &mut self,
        statement: Preparable<'_>,
        client_parse: &ClientParse,
        now: u64,
        out: &mut BytesMut,
    ) -> Ensured {
        let own = self.use_own(statement.id, client_parse);
        let key = own.unwrap_or(self.key(statement.id));
        if let Some(prepared) = self.prepared.to_back(&key)
            && prepared.serves(client_parse, statement.types)
        {
            return Ensured {
                key,
                closed: None,
                parsed: false,
            };
        }
        if let Some(key) = self.of_session(statement, client_parse) {
            self.use_of_session(key, statement.text);
            return Ensured {
                key,
                closed: None,
                parsed: false,
            };
        }
        let types = client_parse.other_types(statement.types);
        let statement = Preparable {
            types: types.unwrap_or(statement.types),
            ..statement
        };
        let ensured = self.parse(statement, now, out);
        self.note_prepared(ensured.key);
        ensured
    }

    /// Whether the server has a statement that the client of this `Parse` may execute.
    pub fn has_for(&self, statement: Preparable<'_>, client_parse: &ClientParse) -> bool {
        let key = StatementKey {
            id: statement.id,
            settings: client_parse.settings,
        };
        let own = self
            .prepared
            .get(&key)
            .filter(|_| client_parse.written != 0);
        let there = self.prepared.get(&self.key(statement.id));
        own.is_some_and(|own| own.written == client_parse.written)
            || there.is_some_and(|there| there.serves(client_parse, statement.types))
            || self.of_session(statement, client_parse).is_some()
    }

    /// Writes the `Parse` of a statement at the time `now`. Closes the statement of the same name first.
    pub fn parse(&mut self, statement: Preparable<'_>, now: u64, out: &mut BytesMut) -> Ensured {
        let key = self.key(statement.id);
        let closed = self
            .close_if_pending(key, out)
            .or_else(|| self.close_prepared(key, out))
            .or_else(|| self.make_room(out));
        frontend::Parse {
            name: key.name().as_bytes(),
            text: statement.text.as_bytes(),
            types: statement.types,
        }
        .write(out);
        let parsed = ServerParse {
            written: now,
            types: TypesId::declared(statement.types),
            columns: None,
            private: false,
            analyzed: AnalysisTime::UNKNOWN,
        };
        self.prepared.insert(key, parsed);
        self.parses += 1;
        Ensured {
            key,
            closed,
            parsed: true,
        }
    }

    /// The time at which the server has analyzed the statement with this id, under the settings in force.
    pub fn analyzed(&self, id: u64) -> AnalysisTime {
        let prepared = self.prepared.get(&self.key(id));
        prepared.map_or(AnalysisTime::UNKNOWN, |prepared| prepared.analyzed)
    }

    /// A statement has compared all its facts. The server had analyzed it at this time, in an earlier transaction.
    pub fn set_analyzed(&mut self, statement: StatementKey, time: AnalysisTime) {
        if let Some(prepared) = self.prepared.get_mut(&statement) {
            prepared.analyzed = time;
        }
    }

    pub(super) fn close_prepared(
        &mut self,
        key: StatementKey,
        out: &mut BytesMut,
    ) -> Option<Closed> {
        let prepared = self.prepared.remove(&key);
        prepared?;
        self.forget_prepared(key);
        Target::Statement(key.name().as_bytes()).write(out, tag::CLOSE);
        Some(Closed { key, prepared })
    }

    /// The columns of a prepared statement (`None`: the unnamed one), if known.
    pub fn columns(&self, key: Option<StatementKey>) -> Option<ColumnsId> {
        match key {
            Some(key) => self.prepared.get(&key)?.columns,
            None => self.unnamed_columns,
        }
    }

    /// Whether the columns of the request's own statement are those that were described to the client; `None` if the server must
    /// describe them first.
    pub fn has_described_columns(&self, request: &Request) -> Option<bool> {
        self.has_columns_of(&request.template, request.client_parse.as_ref())
    }

    fn has_columns_of(
        &self,
        template: &Template,
        client_parse: Option<&ClientParse>,
    ) -> Option<bool> {
        let Some(known) = client_parse.and_then(|parse| parse.columns) else {
            return Some(true);
        };
        let there = self.serving(template, client_parse);
        there?.columns.map(|columns| columns == known)
    }

    /// Whether the server has a statement that may be executed for the request, or the request parses it.
    pub fn serves(&self, request: &Request) -> bool {
        let client_parse = request.client_parse.as_ref();
        client_parse.is_none() || self.serving(&request.template, client_parse).is_some()
    }

    /// The statement for a request that does not parse it, if no message must precede the request. It counts as used.
    pub(crate) fn use_prepared(
        &mut self,
        template: &Template,
        client_parse: Option<&ClientParse>,
    ) -> Option<StatementKey> {
        let own = client_parse?;
        let may_have_own = own.written != 0 && own.settings != self.settings.id;
        let has_own = may_have_own && {
            let own = StatementKey::new(template.statement_id, own.settings);
            self.prepared.contains_key(&own)
        };
        if has_own
            || self.unknown_settings.is_some()
            || self.serving(template, client_parse).is_none()
            || self.has_columns_of(template, client_parse) != Some(true)
        {
            return None;
        }
        let key = self.key(template.statement_id);
        self.prepared.to_back(&key);
        Some(key)
    }

    /// The statement that [`ServerSide::ensure_for`] returns without a `Parse`, if the settings are known.
    fn serving(
        &self,
        template: &Template,
        client_parse: Option<&ClientParse>,
    ) -> Option<&ServerParse> {
        let client_parse = client_parse?;
        if let Some(own) = self.own(template.statement_id, client_parse) {
            return self.prepared.get(&own);
        }
        let there = self.prepared.get(&self.key(template.statement_id))?;
        there.serves(client_parse, &template.types).then_some(there)
    }

    /// The server has described the columns of a prepared statement (`None`: the unnamed one).
    pub fn set_columns(&mut self, key: Option<StatementKey>, columns: ColumnsId) {
        match key.and_then(|key| self.prepared.get_mut(&key)) {
            Some(prepared) => prepared.columns = Some(columns),
            None if key.is_none() => self.unnamed_columns = Some(columns),
            None => {}
        }
    }

    /// The server has described the parameters of a prepared statement.
    pub fn set_types(&mut self, key: Option<StatementKey>, types: &[u8]) {
        if let Some(prepared) = key.and_then(|key| self.prepared.get_mut(&key)) {
            prepared.types = Some(TypesId::of(types));
        }
    }

    /// A `Parse` of the unnamed statement was written for the client with this [`ClientParse::written`]. 0: for no client.
    pub fn parse_unnamed(&mut self, parse: u64) {
        self.unnamed = (parse != 0).then_some(parse);
        self.unnamed_columns = None;
    }
}
