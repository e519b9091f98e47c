//! The statements that a client has prepared.

use crate::analysis::{Analysis, ColumnsId};
use crate::template::Template;
use foldhash::HashMap;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Most prepared statements of one client; one more is refused.
pub const CLIENT_STATEMENTS_MAX: usize = 10_000;

/// PostgreSQL tells names apart by so many bytes (`NAMEDATALEN` without the end).
const NAME_BYTES: usize = 63;

/// The name under which PostgreSQL stores a statement of this one.
fn stored(name: &[u8]) -> &[u8] {
    name.get(..NAME_BYTES).unwrap_or(name)
}

/// A client's statements by its own names; the unnamed one under the empty name.
#[derive(Debug, Default)]
pub struct ClientStatements {
    by_name: HashMap<Box<[u8]>, ClientStatement>,
    /// How many names each statement has, by its [`Template::statement_id`]. The unnamed one does not count.
    names: FxHashMap<u64, usize>,
}

/// A statement of a client.
#[derive(Debug, Clone)]
pub struct ClientStatement {
    template: Arc<Template>,
    analysis: Analysis,
}

/// How to take back what an error has made void.
#[derive(Debug)]
pub enum Undo {
    /// The client had this statement, or none, under the name.
    Name {
        /// The name.
        name: Box<[u8]>,
        /// What it was.
        previous: Option<Box<ClientStatement>>,
        /// [`Analysis::parse`] of the statement that has the name now.
        parse: u64,
    },
    /// It had these, the unnamed one left out.
    All(Box<ClientStatements>),
}

impl Undo {
    /// The name; empty for all.
    pub fn name(&self) -> &[u8] {
        match self {
            Self::Name { name, .. } => name,
            Self::All(_) => b"",
        }
    }

    /// The server has refused the `Parse`. PostgreSQL drops the unnamed statement before it looks at the next one.
    pub fn is_refused(&mut self) {
        if let Self::Name { name, previous, .. } = self
            && name.is_empty()
        {
            *previous = None;
        }
    }
}

impl ClientStatements {
    /// The statement of that name.
    pub(super) fn get(&self, name: &[u8]) -> Option<&Arc<Template>> {
        self.by_name
            .get(stored(name))
            .map(|statement| &statement.template)
    }

    /// Its analysis.
    pub(super) fn analysis(&self, name: &[u8]) -> Option<&Analysis> {
        self.prepared(name).map(|(_, analysis)| analysis)
    }

    /// Both.
    pub(super) fn prepared(&self, name: &[u8]) -> Option<(&Arc<Template>, &Analysis)> {
        let statement = self.by_name.get(stored(name))?;
        Some((&statement.template, &statement.analysis))
    }

    /// The client has this statement under a name, by its [`Template::statement_id`].
    pub(super) fn has(&self, statement: u64) -> bool {
        self.names.contains_key(&statement)
    }

    /// A name of a statement, by its [`Template::statement_id`].
    pub(super) fn name_of(&self, statement: u64) -> Option<&[u8]> {
        let mut all = self.by_name.iter();
        all.find(|(_, known)| known.template.statement_id == statement)
            .map(|(name, _)| &**name)
    }

    /// There is no room for another statement.
    pub(super) fn is_full(&self) -> bool {
        self.by_name.len() >= CLIENT_STATEMENTS_MAX
    }

    /// How many have a name.
    pub(super) fn named(&self) -> usize {
        let all = self.by_name.len();
        all - usize::from(all > 0 && self.by_name.contains_key(&b""[..]))
    }

    /// The client prepared a statement.
    pub(super) fn insert(
        &mut self,
        name: &[u8],
        template: Arc<Template>,
        analysis: Analysis,
    ) -> Undo {
        let parse = analysis.parse;
        let statement = ClientStatement { template, analysis };
        let name = stored(name);
        Undo::Name {
            name: name.into(),
            previous: self.put(name.into(), Some(statement)).map(Box::new),
            parse,
        }
    }

    /// The client closed a statement.
    pub(super) fn remove(&mut self, name: &[u8]) -> Undo {
        let name = stored(name);
        Undo::Name {
            name: name.into(),
            previous: self.put(name.into(), None).map(Box::new),
            parse: 0,
        }
    }

    /// What has returned this has not taken place.
    pub(super) fn undo(&mut self, undo: Undo) {
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

    /// A server has taken the `Parse` that has returned this, before the time `now`.
    pub(super) fn is_analysed(&mut self, undo: &Undo, now: u64) {
        if let Undo::Name { name, parse, .. } = undo
            && let Some(analysis) = self.analysis_of(name, *parse)
        {
            analysis.since = now;
        }
    }

    /// The server sends the client the types of a statement's parameters; `types` has them as `Parse` does.
    pub(super) fn note_types(&mut self, name: &[u8], parse: u64, types: &[u8]) {
        if let Some(analysis) = self.analysis_of(name, parse) {
            analysis.types = Some(types.into());
        }
    }

    /// The server sends the client the columns of a statement.
    pub(super) fn note_columns(&mut self, name: &[u8], parse: u64, columns: ColumnsId) {
        if let Some(analysis) = self.analysis_of(name, parse) {
            analysis.columns = Some(columns);
        }
    }

    fn analysis_of(&mut self, name: &[u8], parse: u64) -> Option<&mut Analysis> {
        let statement = self.by_name.get_mut(stored(name))?;
        (statement.analysis.parse == parse).then_some(&mut statement.analysis)
    }

    /// The client drops all statements that have names. However many there are, it takes no longer.
    pub(super) fn remove_named(&mut self) -> Undo {
        let mut all = std::mem::take(self);
        let unnamed = all.by_name.remove(&b""[..]);
        self.by_name
            .extend(unnamed.map(|unnamed| (Box::default(), unnamed)));
        Undo::All(Box::new(all))
    }

    /// The client dropped all statements.
    pub(super) fn clear(&mut self) {
        self.by_name.clear();
        self.names.clear();
    }

    /// A simple query destroys the unnamed statement.
    pub(super) fn remove_unnamed(&mut self) {
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
    fn a_statement_is_there_as_long_as_it_has_a_name() {
        let templates = Templates::default();
        let template = templates.prepared("select 1", &[0, 0]);
        let mut all = ClientStatements::default();
        let insert = |all: &mut ClientStatements, name: &[u8]| {
            all.insert(name, Arc::clone(&template), Analysis::default())
        };
        insert(&mut all, b"");
        assert!(!all.has(template.statement_id));
        insert(&mut all, b"a");
        let undo = insert(&mut all, b"b");
        all.undo(undo);
        insert(&mut all, b"a");
        assert!(all.has(template.statement_id));
        let undo = all.remove(b"a");
        assert!(!all.has(template.statement_id));
        all.undo(undo);
        assert!(all.has(template.statement_id));
        all.remove_named();
        assert!(!all.has(template.statement_id) && all.get(b"").is_some());
    }

    #[test]
    fn an_answer_is_that_of_its_own_parse() {
        let templates = Templates::default();
        let template = templates.prepared("select 1", &[0, 0]);
        let mut all = ClientStatements::default();
        let first = all.insert(b"a", Arc::clone(&template), Analysis::begun(3, 0));
        all.insert(b"a", template, Analysis::begun(5, 0));
        all.is_analysed(&first, 8);
        all.note_types(b"a", 3, &[0, 0]);
        assert_eq!(all.analysis(b"a"), Some(&Analysis::begun(5, 0)));
    }
}
