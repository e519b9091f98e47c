//! Templates: a statement's text and parameter types, parsed once, and the bounded cache that finds them again.

mod bare_hints;
mod cache;
mod metrics_name;
mod pace;
mod parse_cost;

#[cfg(test)]
mod tests;

pub use bare_hints::without_bare_hints;
pub use metrics_name::{NAME_CHARS_MAX, shortened, text_id};
pub use pace::Pace;
pub use parse_cost::{BYTES_MAX, TOKENS_MAX, Unparsed};

use crate::show::Show;
use cache::{Generations, TextKey};
use paceline_sql::{Effect, Hints, Literal, LiteralKind, Name, Named, SequenceUse, Statement};
use paceline_wire::frontend;
use parse_cost::{Caller, Place, What};
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Templates kept by text; older ones are forgotten and parsed again when they come back.
pub const TEMPLATES_MAX: usize = 8_192;

/// A longer text of Paceline's own is hardly ever the same again, and not kept.
const OWN_BYTES_MAX: usize = 4 * 1024;

/// Texts with bare hints that are kept with what they are without.
const PLAIN_TEXTS_MAX: usize = 1_024;

/// A longer text that only changes rows is passed on as it is: to parse it would hold up others, it is hardly ever
/// the same again, and with so many values it travels with nobody.
pub const BULK_BYTES_MIN: usize = 32 * 1024;

/// Of a longer text only the beginning is looked at, …
pub const LOOKED_AT_BYTES_MAX: usize = 256 * 1024;
/// … this much of it.
const BEGINNING_BYTES: usize = 4 * 1024;

/// The part of a text that is looked at, if that is not all of it.
pub fn beginning_of_long(text: &str) -> Option<&str> {
    let is_long = text.len() > LOOKED_AT_BYTES_MAX;
    is_long.then(|| text.get(..text.floor_char_boundary(BEGINNING_BYTES)))?
}

/// A text with its parameter types.
#[derive(Debug)]
pub struct Template {
    /// Never used twice in a process.
    pub id: u64,
    /// Names the statement on servers: the same, unless every Parse has a statement of its own.
    pub statement_id: u64,
    /// The text, without bare hints; for simple queries with literals taken out where possible.
    pub text: String,
    /// Number and OIDs of declared parameter types, as in `Parse`.
    pub types: Vec<u8>,
    /// `None`: the parser refuses it, or is not asked (see [`BULK_BYTES_MIN`] and [`TOKENS_MAX`]).
    pub statement: Option<Statement>,
    /// Those of its last statement, as far as they are known.
    hints: Hints,
    /// The parser is not asked.
    unlooked: Option<Unlooked>,
    /// Paceline itself may answer it.
    shows: bool,
    /// How quickly it was answered when it ran alone.
    pub pace: Pace,
    /// What metrics call it, once they do.
    pub(crate) name: OnceLock<String>,
}

/// What a text does to its session of which the parser is not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unlooked {
    /// Not more than reading or changing rows does.
    Rows,
    /// It may set something that only its text tells.
    Sets,
    /// Something else.
    Other,
}

impl Unlooked {
    fn of(text: &str) -> Self {
        if paceline_sql::only_changes_rows(text) || paceline_sql::only_reads_rows(text) {
            return Self::Rows;
        }
        match paceline_sql::may_set(text) {
            true => Self::Sets,
            false => Self::Other,
        }
    }

    /// Of a text of which only the beginning is looked at.
    fn of_beginning(beginning: &str) -> Self {
        match paceline_sql::beginning_may_set(beginning) {
            true => Self::Sets,
            false => Self::Other,
        }
    }
}

impl Template {
    /// The hints of its last statement; of a text that is not looked at, those at its beginning.
    pub fn hints(&self) -> Hints {
        self.hints
    }

    /// What it means depends on when it was parsed.
    pub fn names_moment(&self) -> bool {
        self.statement.as_ref().is_some_and(|s| s.names_moment)
    }

    /// What it means depends on when, or under which settings, it is parsed.
    pub fn is_parsed_alone(&self) -> bool {
        let statement = self.statement.as_ref();
        statement.is_some_and(|s| s.names_moment || s.has_escapes)
    }

    /// What it does with a prepared statement that it calls by name.
    pub fn named(&self) -> Option<&Named> {
        self.statement.as_ref()?.named.as_ref()
    }

    /// What it may do with sequences, by its text.
    pub fn sequences(&self) -> SequenceUse {
        let statement = self.statement.as_ref();
        statement.map_or(SequenceUse::ANY, |statement| statement.sequences)
    }

    /// Its text reads the last number of a sequence.
    pub fn reads_numbers(&self) -> bool {
        let statement = self.statement.as_ref();
        statement.is_none_or(|statement| statement.reads_numbers)
    }

    /// It may show `idle_session_timeout`, as far as its text tells.
    pub fn shows_idle_timeout(&self) -> bool {
        let statement = self.statement.as_ref();
        statement.is_some_and(|statement| statement.shows_idle_timeout)
    }

    /// It calls functions that may be a user's own, or nobody knows.
    pub fn calls_functions(&self) -> bool {
        let statement = self.statement.as_ref();
        let own = |name: &Name| {
            // Both are told by their arguments.
            let settings = ["set_config", "current_setting"].contains(&name.name.as_str());
            match name.schema.as_deref() {
                None => !settings,
                Some(schema) => schema != "pg_catalog",
            }
        };
        statement.is_none_or(|statement| statement.functions.iter().any(own))
    }

    /// A transaction block may be open after it.
    pub fn may_begin(&self) -> bool {
        self.statement.as_ref().is_none_or(|s| s.begins)
    }

    /// The database in which no other session may be, else it fails.
    pub fn exclusive(&self) -> Option<&str> {
        self.statement.as_ref()?.exclusive.as_deref()
    }

    /// It is not looked at, and only reads or changes rows (see [`BULK_BYTES_MIN`] and [`TOKENS_MAX`]).
    pub fn is_bulk(&self) -> bool {
        self.unlooked == Some(Unlooked::Rows)
    }

    /// It is not looked at, and may set something for its session.
    pub fn may_set_unseen(&self) -> bool {
        self.unlooked == Some(Unlooked::Sets)
    }

    /// Paceline itself may answer it (`SHOW hotspot…`).
    pub fn may_be_shown(&self) -> bool {
        self.shows
    }

    /// What it does.
    pub fn effect(&self) -> Option<&Effect> {
        self.statement.as_ref().map(|s| &s.effect)
    }
}

/// A template whose literals matter to what it does (a SET): it must be looked up by its whole text.
#[derive(Debug, Clone)]
enum Known {
    Template(Arc<Template>),
    ByWholeText,
}

/// All templates of a process.
#[derive(Debug)]
pub struct Templates {
    known: Mutex<Generations<TextKey, Known>>,
    /// Texts that may have bare hints, without them. `None`: they have none.
    plain: Mutex<Generations<TextKey, Option<Arc<str>>>>,
    next_id: AtomicU64,
    /// How often a text was parsed.
    parses: AtomicU64,
}

impl Default for Templates {
    fn default() -> Self {
        Self {
            known: Mutex::new(Generations::new(TEMPLATES_MAX)),
            plain: Mutex::new(Generations::new(PLAIN_TEXTS_MAX)),
            next_id: AtomicU64::new(1),
            parses: AtomicU64::new(0),
        }
    }
}

/// A simple query: its template and the literals that were taken out of it.
#[derive(Debug, Clone)]
pub struct Simple {
    /// Its template.
    pub template: Arc<Template>,
    /// Values of the template's parameters; empty when the text is its own template.
    pub literals: Vec<Literal>,
}

impl Templates {
    /// An id that no template or other prepared statement has.
    pub fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// How often a text was parsed so far.
    pub fn parses(&self) -> u64 {
        self.parses.load(Ordering::Relaxed)
    }

    fn understand(&self, text: &str) -> Option<Statement> {
        self.parses.fetch_add(1, Ordering::Relaxed);
        paceline_sql::parse(text).ok()
    }

    /// The template of a text that a client prepares. Parses the text if need be, however long that takes.
    pub fn prepared(&self, text: &str, types: &[u8]) -> Arc<Template> {
        let found = self.prepared_for(text, types, Caller::Waits);
        found.unwrap_or_else(|unparsed| self.create(&unparsed.text, types, None))
    }

    /// The same where nothing may take long.
    ///
    /// # Errors
    /// It must be parsed elsewhere first.
    pub fn try_prepared(&self, text: &str, types: &[u8]) -> Result<Arc<Template>, Unparsed> {
        self.prepared_for(text, types, Caller::CannotWait)
    }

    fn prepared_for(
        &self,
        text: &str,
        types: &[u8],
        caller: Caller,
    ) -> Result<Arc<Template>, Unparsed> {
        if let Some(beginning) = beginning_of_long(text) {
            return Ok(Arc::new(Template {
                text: text.to_owned(),
                types: types.to_vec(),
                ..self.long(beginning)
            }));
        }
        if is_bulk(text) {
            return Ok(self.create(text, types, None));
        }
        if let Some(Known::Template(template)) = self.find(text, types) {
            return Ok(template);
        }
        match Place::of(text) {
            Place::Nowhere => Ok(self.create(text, types, None)),
            Place::Elsewhere if caller == Caller::CannotWait => Err(Unparsed {
                text: text.to_owned(),
                what: What::Prepared(types.to_vec()),
            }),
            _ => Ok(self.insert(text, types, self.understand(text))),
        }
    }

    /// As [`Templates::try_prepared`] for a text that a client prepares now: if what it means depends on that, its statement is its
    /// own.
    ///
    /// # Errors
    /// It must be parsed elsewhere first.
    pub fn try_prepared_now(&self, text: &str, types: &[u8]) -> Result<Arc<Template>, Unparsed> {
        let template = self.try_prepared(text, types)?;
        Ok(match template.names_moment() {
            true => self.apart(&template),
            false => template,
        })
    }

    /// The same template with a statement of its own.
    pub fn apart(&self, template: &Template) -> Arc<Template> {
        Arc::new(Template {
            id: template.id,
            statement_id: self.new_id(),
            text: template.text.clone(),
            types: template.types.clone(),
            statement: template.statement.clone(),
            hints: template.hints,
            unlooked: template.unlooked,
            shows: template.shows,
            pace: Pace::default(),
            name: OnceLock::new(),
        })
    }

    /// A text of Paceline's own in place of a client's, which does what the client's does (under another name, say). It is not
    /// parsed.
    pub fn in_place_of(&self, template: &Template, text: &str) -> Arc<Template> {
        // A client that sends this text means something else by it.
        let key = [&template.types[..], b"own"].concat();
        if let Some(Known::Template(known)) = self.find(text, &key) {
            return known;
        }
        let own = self.create(text, &template.types, template.statement.clone());
        if text.len() <= OWN_BYTES_MAX {
            self.remember(text, &key, Known::Template(Arc::clone(&own)));
        }
        own
    }

    /// The template of a text that is not looked at beyond this beginning.
    pub fn long(&self, beginning: &str) -> Template {
        let id = self.new_id();
        Template {
            id,
            statement_id: id,
            text: beginning.to_owned(),
            types: frontend::parameter_types(&[]),
            statement: None,
            hints: paceline_sql::leading_hints(beginning),
            unlooked: Some(Unlooked::of_beginning(beginning)),
            shows: false,
            pace: Pace::default(),
            name: OnceLock::new(),
        }
    }

    /// The text without the bare words of the older hint spelling, where nothing may take long.
    ///
    /// # Errors
    /// It must be parsed elsewhere first.
    pub fn try_plain<'a>(&self, text: &'a str) -> Result<Cow<'a, str>, Unparsed> {
        self.plain_for(text, Caller::CannotWait)
    }

    fn plain_for<'a>(&self, text: &'a str, caller: Caller) -> Result<Cow<'a, str>, Unparsed> {
        if text.len() > BYTES_MAX || !paceline_sql::may_have_bare_hints(text) {
            return Ok(Cow::Borrowed(text));
        }
        let lock = || self.plain.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(text, &[]);
        let plain = match (known, Place::of(text)) {
            (Some(known), _) => known,
            // PostgreSQL says what it thinks of them.
            (None, Place::Nowhere) => None,
            (None, Place::Elsewhere) if caller == Caller::CannotWait => {
                return Err(Unparsed {
                    text: text.to_owned(),
                    what: What::Plain,
                });
            }
            (None, _) => {
                self.parses.fetch_add(1, Ordering::Relaxed);
                let plain = match without_bare_hints(text) {
                    Cow::Borrowed(_) => None,
                    Cow::Owned(plain) => Some(Arc::from(plain)),
                };
                lock().insert(TextKey(text.to_owned(), Vec::new()), plain.clone());
                plain
            }
        };
        Ok(match plain {
            None => Cow::Borrowed(text),
            Some(plain) => Cow::Owned(plain.to_string()),
        })
    }

    /// A text of which the server may make something else than the parser here: what it does is not known.
    pub fn unread(&self, text: &str, types: &[u8]) -> Arc<Template> {
        self.create(text, types, None)
    }

    /// Parses a text, however long that takes. Then what could not be said of it can be.
    pub fn parse(&self, unparsed: &Unparsed) {
        let text = &unparsed.text;
        match &unparsed.what {
            What::Plain => drop(self.plain_for(text, Caller::Waits)),
            What::Simple => drop(self.simple_for(text, Caller::Waits)),
            What::Prepared(types) => drop(self.prepared_for(text, types, Caller::Waits)),
        }
    }

    /// Nothing will be said of a text: the parser does not come to an end with it.
    pub fn give_up(&self, unparsed: &Unparsed) {
        let text = &unparsed.text;
        match &unparsed.what {
            What::Plain => {
                let mut plain = self.plain.lock().unwrap_or_else(PoisonError::into_inner);
                plain.insert(TextKey(text.clone(), Vec::new()), None);
            }
            What::Simple => {
                if let Some(normal) = paceline_sql::take_out_literals(text, false) {
                    let types = literal_types(&normal.literals);
                    self.remember(&normal.text, &types, Known::ByWholeText);
                }
                self.insert(text, &frontend::parameter_types(&[]), None);
            }
            What::Prepared(types) => drop(self.insert(text, types, None)),
        }
    }

    /// Its text is parsed anew when it comes again, and gets a new id: servers prepare it anew too.
    pub fn retire(&self, template: &Template) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(&template.text, &template.types);
    }

    /// The template of a simple query. Parses the text if need be, however long that takes.
    pub fn simple(&self, text: &str) -> Simple {
        let found = self.simple_for(text, Caller::Waits);
        found.unwrap_or_else(|unparsed| Simple {
            template: self.create(&unparsed.text, &frontend::parameter_types(&[]), None),
            literals: Vec::new(),
        })
    }

    /// The same where nothing may take long.
    ///
    /// # Errors
    /// It must be parsed elsewhere first.
    pub fn try_simple(&self, text: &str) -> Result<Simple, Unparsed> {
        self.simple_for(text, Caller::CannotWait)
    }

    fn simple_for(&self, text: &str, caller: Caller) -> Result<Simple, Unparsed> {
        if is_bulk(text) {
            return self.whole(text, caller);
        }
        // A backslash in a plain string means what standard_conforming_strings says: such texts stay whole.
        let Some(normal) = paceline_sql::take_out_literals(text, false) else {
            return self.whole(text, caller);
        };
        if normal.literals.is_empty() {
            return self.whole(text, caller);
        }
        let types = literal_types(&normal.literals);
        let template = match self.find(&normal.text, &types) {
            Some(Known::Template(template)) => Some(template),
            Some(Known::ByWholeText) => None,
            None => self.classify(text, &normal.text, &types, caller)?,
        };
        match template {
            None => self.whole(text, caller),
            Some(template) => Ok(Simple {
                template,
                literals: normal.literals,
            }),
        }
    }

    /// Parses a text whose template is new. `None`: its literals matter, it must be looked up whole.
    fn classify(
        &self,
        text: &str,
        normal: &str,
        types: &[u8],
        caller: Caller,
    ) -> Result<Option<Arc<Template>>, Unparsed> {
        let parse = |part: &str| match Place::of(part) {
            Place::Nowhere => Ok(None),
            Place::Elsewhere if caller == Caller::CannotWait => Err(Unparsed {
                text: text.to_owned(),
                what: What::Simple,
            }),
            _ => Ok(self.understand(part)),
        };
        // Where a literal cannot become a parameter (interval '1 day'), the text itself tells what it does, but
        // it cannot be rewritten.
        let statement = match parse(normal)? {
            Some(statement) => Some(statement),
            None => parse(text)?.map(|statement| Statement {
                update: None,
                ..statement
            }),
        };
        let statement = statement.map(|statement| Statement {
            update: statement.update.filter(|_| !statement.needs_constants),
            ..statement
        });
        let literals_matter = match statement.as_ref() {
            Some(s) if matches!(s.effect, Effect::Session(_)) => true,
            Some(s) => moves_name(s, normal, text),
            None => true,
        };
        if literals_matter {
            self.remember(normal, types, Known::ByWholeText);
            return Ok(None);
        }
        Ok(Some(self.insert(normal, types, statement)))
    }

    fn whole(&self, text: &str, caller: Caller) -> Result<Simple, Unparsed> {
        let types = frontend::parameter_types(&[]);
        let template = self.prepared_for(text, &types, caller);
        let template = template.map_err(|unparsed| Unparsed {
            what: What::Simple,
            ..unparsed
        });
        Ok(Simple {
            template: template?,
            literals: Vec::new(),
        })
    }

    fn find(&self, text: &str, types: &[u8]) -> Option<Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(text, types)
    }

    fn create(&self, text: &str, types: &[u8], statement: Option<Statement>) -> Arc<Template> {
        let id = self.new_id();
        let unlooked = statement.is_none()
            && (text.len() >= BULK_BYTES_MIN || Place::of(text) == Place::Nowhere);
        let leading = || match unlooked && !paceline_sql::cost(text).several {
            true => paceline_sql::leading_hints(text),
            false => Hints::default(),
        };
        Arc::new(Template {
            id,
            statement_id: id,
            hints: statement.as_ref().map_or_else(leading, |s| s.hints),
            unlooked: unlooked.then(|| Unlooked::of(text)),
            shows: Show::parse(text).is_some(),
            text: text.to_owned(),
            types: types.to_vec(),
            statement,
            pace: Pace::default(),
            name: OnceLock::new(),
        })
    }

    fn insert(&self, text: &str, types: &[u8], statement: Option<Statement>) -> Arc<Template> {
        let template = self.create(text, types, statement);
        self.remember(text, types, Known::Template(Arc::clone(&template)));
        template
    }

    fn remember(&self, text: &str, types: &[u8], what: Known) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(TextKey(text.to_owned(), types.to_vec()), what);
    }
}

/// Does a literal stand before the name of the statement that is executed?
fn moves_name(statement: &Statement, normal: &str, text: &str) -> bool {
    match &statement.named {
        Some(Named::Execute { at, .. }) => normal.get(..at.end) != text.get(..at.end),
        _ => false,
    }
}

/// See [`BULK_BYTES_MIN`].
fn is_bulk(text: &str) -> bool {
    text.len() >= BULK_BYTES_MIN && !text.contains("/*+") && paceline_sql::only_changes_rows(text)
}

/// The types that PostgreSQL gives literals, as in `Parse`.
fn literal_types(literals: &[Literal]) -> Vec<u8> {
    const INT4: u32 = 23;
    const INT8: u32 = 20;
    const NUMERIC: u32 = 1700;
    let oids: Vec<u32> = literals
        .iter()
        .map(|literal| match literal.kind {
            LiteralKind::Int4 => INT4,
            LiteralKind::Int8 => INT8,
            LiteralKind::Numeric => NUMERIC,
            LiteralKind::Unknown => 0,
        })
        .collect();
    frontend::parameter_types(&oids)
}
