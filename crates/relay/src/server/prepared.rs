//! The prepared statements of a server, and which of them may serve which client.

use super::{Closed, Ensured, Preparable, ServerSide, StatementKey};
use crate::analysis::{Analysed, Analysis, ColumnsId, TypesId};
use crate::request::Request;
use bytes::BytesMut;
use paceline_wire::frontend::{self, Target, tag};

impl ServerSide {
    /// Writes a `Parse` of the statement, unless the server has it. The time of its analysis does not matter.
    pub fn ensure(&mut self, statement: Preparable<'_>, out: &mut BytesMut) -> Ensured {
        self.ensure_for(statement, &Analysis::default(), 0, out)
    }

    /// Writes a `Parse` of a client's statement at the time `now`, unless the server has one that was analysed late enough.
    pub fn ensure_for(
        &mut self,
        statement: Preparable<'_>,
        analysis: &Analysis,
        now: u64,
        out: &mut BytesMut,
    ) -> Ensured {
        let own = self.own(statement.id, analysis);
        let key = own.unwrap_or(self.key(statement.id));
        if let Some(prepared) = self.prepared.to_back(&key)
            && prepared.serves(analysis, statement.types)
        {
            return Ensured {
                key,
                closed: None,
                parsed: false,
            };
        }
        let types = analysis.other_types(statement.types);
        let statement = Preparable {
            types: types.unwrap_or(statement.types),
            ..statement
        };
        self.parse(statement, now, out)
    }

    /// The client's own statement, if the server has it and analysed it under other settings than those in force. From now
    /// on no other client uses it: PostgreSQL may analyse it again, under this client's settings.
    fn own(&mut self, id: u64, analysis: &Analysis) -> Option<StatementKey> {
        let key = StatementKey {
            id,
            settings: analysis.settings,
        };
        if analysis.parse == 0 || key == self.key(id) {
            return None;
        }
        let there = self.prepared.get_mut(&key)?;
        if there.parse != analysis.parse {
            return None;
        }
        there.private = true;
        Some(key)
    }

    /// Whether the server has a statement that a client with this analysis may execute.
    pub fn has_for(&self, id: u64, analysis: &Analysis, types: &[u8]) -> bool {
        let key = StatementKey {
            id,
            settings: analysis.settings,
        };
        let own = self.prepared.get(&key).filter(|_| analysis.parse != 0);
        let there = self.prepared.get(&self.key(id));
        own.is_some_and(|own| own.parse == analysis.parse)
            || there.is_some_and(|there| there.serves(analysis, types))
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
        let analysed = Analysed {
            parse: now,
            types: TypesId::declared(statement.types),
            columns: None,
            private: false,
        };
        self.prepared.insert(key, analysed);
        self.parses += 1;
        Ensured {
            key,
            closed,
            parsed: true,
        }
    }

    pub(super) fn close_prepared(
        &mut self,
        key: StatementKey,
        out: &mut BytesMut,
    ) -> Option<Closed> {
        let prepared = self.prepared.remove(&key);
        prepared?;
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

    /// Whether the server may execute the request's own statement: either the request parses it, or its columns are those
    /// that were described to the client.
    pub fn has_described_columns(&self, request: &Request) -> bool {
        let Some(analysis) = &request.analysis else {
            return true;
        };
        let columns = self.serving(request).and_then(|there| there.columns);
        analysis.columns.is_none() || columns == analysis.columns
    }

    /// Whether the server has a statement that may be executed for the request, or the request parses it.
    pub fn serves(&self, request: &Request) -> bool {
        request.analysis.is_none() || self.serving(request).is_some()
    }

    fn serving(&self, request: &Request) -> Option<&Analysed> {
        let analysis = request.analysis.as_ref()?;
        let key = self.key(request.template.statement_id);
        let there = self.prepared.get(&key)?;
        there
            .serves(analysis, &request.template.types)
            .then_some(there)
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

    /// A `Parse` of the unnamed statement was written for the client with this [`Analysis::parse`]. 0: for no client.
    pub fn parse_unnamed(&mut self, parse: u64) {
        self.unnamed = (parse != 0).then_some(parse);
        self.unnamed_columns = None;
    }
}
