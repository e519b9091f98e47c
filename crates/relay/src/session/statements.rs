//! The prepared statements of a client.

use crate::parsed::{ClientParse, ColumnsId};
use crate::template::Template;
use foldhash::HashMap;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Maximum number of prepared statements of one client. Paceline rejects further ones.
pub const CLIENT_STATEMENTS_MAX: usize = 10_000;

/// Number of bytes of a name that PostgreSQL compares (`NAMEDATALEN` without the terminator).
const NAME_BYTES: usize = 63;

/// The name as PostgreSQL stores it.
fn stored(name: &[u8]) -> &[u8] {
    name.get(..NAME_BYTES).unwrap_or(name)
}

/// A client's prepared statements by its own names. The unnamed statement has the empty name.
#[derive(Debug, Default)]
pub struct ClientStatements {
    by_name: HashMap<Box<[u8]>, ClientStatement>,
    /// The number of names of each statement, by its [`Template::statement_id`]. The unnamed statement does not count.
    names: FxHashMap<u64, usize>,
}

/// A prepared statement of a client.
#[derive(Debug, Clone)]
pub struct ClientStatement {
    template: Arc<Template>,
    client_parse: ClientParse,
}

/// The state to which a change of a client's statements can be undone.
#[derive(Debug)]
pub enum Undo {
    /// The statement that the name had before, or none.
    Name {
        /// The name.
        name: Box<[u8]>,
        /// The statement before the change.
        previous: Option<Box<ClientStatement>>,
        /// [`ClientParse::written`] of the statement after the change.
        parse: u64,
    },
    /// All named statements before the change.
    All(Box<ClientStatements>),
}

impl Undo {
    /// The name. Empty if all were dropped.
    pub fn name(&self) -> &[u8] {
        match self {
            Self::Name { name, .. } => name,
            Self::All(_) => b"",
        }
    }

    /// [`ClientParse::written`] of the statement after the change. `None` if all were dropped.
    pub fn parse_written(&self) -> Option<u64> {
        match self {
            Self::Name { parse, .. } => Some(*parse),
            Self::All(_) => None,
        }
    }

    /// The server has rejected the `Parse`. PostgreSQL drops the previous unnamed statement before it parses the new one.
    pub fn is_refused(&mut self) {
        if let Self::Name { name, previous, .. } = self
            && name.is_empty()
        {
            *previous = None;
        }
    }
}

impl ClientStatements {
    /// The statement with this name.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<Template>> {
        self.by_name
            .get(stored(name))
            .map(|statement| &statement.template)
    }

    /// The `Parse` of the statement with this name.
    pub fn client_parse(&self, name: &[u8]) -> Option<&ClientParse> {
        self.prepared(name).map(|(_, client_parse)| client_parse)
    }

    /// The statement with this name, and its `Parse`.
    pub fn prepared(&self, name: &[u8]) -> Option<(&Arc<Template>, &ClientParse)> {
        let statement = self.by_name.get(stored(name))?;
        Some((&statement.template, &statement.client_parse))
    }

    /// Whether the client has a named statement with this [`Template::statement_id`].
    pub fn has(&self, statement: u64) -> bool {
        self.names.contains_key(&statement)
    }

    /// A name under which the client has the statement with this [`Template::statement_id`].
    pub fn name_of(&self, statement: u64) -> Option<&[u8]> {
        let mut all = self.by_name.iter();
        all.find(|(_, known)| known.template.statement_id == statement)
            .map(|(name, _)| &**name)
    }

    /// Whether the client has [`CLIENT_STATEMENTS_MAX`] statements.
    pub fn is_full(&self) -> bool {
        self.by_name.len() >= CLIENT_STATEMENTS_MAX
    }

    /// Number of named statements.
    pub fn named(&self) -> usize {
        let all = self.by_name.len();
        // Usually each statement has one name, and none is unnamed.
        match all == self.names.len() {
            true => all,
            false => all - usize::from(self.by_name.contains_key(&b""[..])),
        }
    }

    /// The client has prepared a statement, and no server has parsed it.
    pub fn prepare(&mut self, name: &[u8], template: Arc<Template>) -> Undo {
        self.parse(name, template, ClientParse::default())
    }

    /// The client's `Parse` is being written to a server.
    pub fn parse(
        &mut self,
        name: &[u8],
        template: Arc<Template>,
        client_parse: ClientParse,
    ) -> Undo {
        let parse = client_parse.written;
        let statement = ClientStatement {
            template,
            client_parse,
        };
        let name = stored(name);
        Undo::Name {
            name: name.into(),
            previous: self.put(name.into(), Some(statement)).map(Box::new),
            parse,
        }
    }

    /// The client has closed a statement.
    pub fn close(&mut self, name: &[u8]) -> Undo {
        let name = stored(name);
        Undo::Name {
            name: name.into(),
            previous: self.put(name.into(), None).map(Box::new),
            parse: 0,
        }
    }

    /// Undoes the call that returned `undo`. The caller undoes the last call first.
    pub fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Name { name, previous, .. } => {
                self.put(name, previous.map(|previous| *previous));
            }
            Undo::All(all) => {
                let unnamed = self.by_name.remove(&b""[..]);
                *self = *all;
                self.by_name
                    .extend(unnamed.map(|unnamed| (Box::default(), unnamed)));
            }
        }
    }

    /// A server accepted the `Parse` for which `undo` was returned, before the time `now`.
    pub fn parse_answered(&mut self, undo: &Undo, now: u64) {
        if let Undo::Name { name, parse, .. } = undo
            && let Some(client_parse) = self.client_parse_of(name, *parse)
        {
            client_parse.answered = now;
        }
    }

    /// The server describes the parameters of a statement to the client. `parse`: the [`ClientParse::written`] of that statement.
    /// `types`: in the format of `Parse`.
    pub fn note_types(&mut self, name: &[u8], parse: u64, types: &[u8]) {
        if let Some(client_parse) = self.client_parse_of(name, parse) {
            client_parse.types = Some(types.into());
        }
    }

    /// The server describes the columns of a statement to the client. `parse`: as of [`ClientStatements::note_types`].
    pub fn note_columns(&mut self, name: &[u8], parse: u64, columns: ColumnsId) {
        if let Some(client_parse) = self.client_parse_of(name, parse) {
            client_parse.columns = Some(columns);
        }
    }

    fn client_parse_of(&mut self, name: &[u8], parse: u64) -> Option<&mut ClientParse> {
        let statement = self.by_name.get_mut(stored(name))?;
        (statement.client_parse.written == parse).then_some(&mut statement.client_parse)
    }

    /// The client drops all named statements. The cost does not depend on their number.
    pub fn close_named(&mut self) -> Undo {
        let mut all = std::mem::take(self);
        let unnamed = all.by_name.remove(&b""[..]);
        self.by_name
            .extend(unnamed.map(|unnamed| (Box::default(), unnamed)));
        Undo::All(Box::new(all))
    }

    /// The client has dropped all statements.
    pub fn close_all(&mut self) {
        self.by_name.clear();
        self.names.clear();
    }

    /// A simple query drops the unnamed statement.
    pub fn close_unnamed(&mut self) {
        if !self.by_name.is_empty() {
            self.by_name.remove(&b""[..]);
        }
    }

    fn put(
        &mut self,
        name: Box<[u8]>,
        statement: Option<ClientStatement>,
    ) -> Option<ClientStatement> {
        let (new, named) = (
            statement.as_ref().map(|new| new.template.statement_id),
            !name.is_empty(),
        );
        let previous = match statement {
            Some(statement) => self.by_name.insert(name, statement),
            None => self.by_name.remove(&name),
        };
        if named {
            new.into_iter()
                .for_each(|id| *self.names.entry(id).or_default() += 1);
            if let Some(previous) = &previous {
                self.loses_name(previous.template.statement_id);
            }
        }
        previous
    }

    fn loses_name(&mut self, statement: u64) {
        if let Some(names) = self.names.get_mut(&statement) {
            *names -= 1;
            if *names == 0 {
                self.names.remove(&statement);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Templates;

    #[test]
    fn a_statement_exists_as_long_as_it_has_a_name() {
        let templates = Templates::default();
        let template = templates.prepared("select 1", &[0, 0]);
        let mut all = ClientStatements::default();
        let insert = |all: &mut ClientStatements, name: &[u8]| {
            all.parse(name, Arc::clone(&template), ClientParse::default())
        };
        insert(&mut all, b"");
        assert!(!all.has(template.statement_id));
        insert(&mut all, b"a");
        let undo = insert(&mut all, b"b");
        all.undo(undo);
        insert(&mut all, b"a");
        assert!(all.has(template.statement_id));
        let undo = all.close(b"a");
        assert!(!all.has(template.statement_id));
        all.undo(undo);
        assert!(all.has(template.statement_id));
        all.close_named();
        assert!(!all.has(template.statement_id) && all.get(b"").is_some());
    }

    #[test]
    fn an_answer_belongs_to_its_own_parse() {
        let templates = Templates::default();
        let template = templates.prepared("select 1", &[0, 0]);
        let mut all = ClientStatements::default();
        let first = all.parse(b"a", Arc::clone(&template), ClientParse::begun(3, 0));
        all.parse(b"a", template, ClientParse::begun(5, 0));
        all.parse_answered(&first, 8);
        all.note_types(b"a", 3, &[0, 0]);
        assert_eq!(all.client_parse(b"a"), Some(&ClientParse::begun(5, 0)));
    }
}
