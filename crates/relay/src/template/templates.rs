//! The templates of a process: a bounded cache of parsed texts.

use super::cache::{Generations, TextKey, new_version};
use super::literals::{
    hidden_literals_matter, literal_types, literals_matter, write_literal_types,
};
use super::parse_cost::{MayBlock, ParseCost, ParseGoal};
use super::{
    BULK_BYTES_MIN, BYTES_MAX, GuessedEffect, Pace, Template, Unparsed, beginning_of_long,
    without_bare_hints,
};
use crate::local_show::LocalShow;
use paceline_sql::{Hints, Literal, Normalized, Statement};
use paceline_wire::frontend::NO_PARAMETER_TYPES;
use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Maximum number of templates in the cache. Others are parsed again when they return.
pub const TEMPLATES_MAX: usize = 8_192;

/// A longer text that Paceline makes is not cached: it rarely repeats.
const OWN_BYTES_MAX: usize = 4 * 1024;

/// Maximum number of texts with bare hints in the cache.
const PLAIN_TEXTS_MAX: usize = 1_024;

/// A longer text is looked up with memory of its own.
const SCRATCH_BYTES_MAX: usize = 16 * 1024;

thread_local! {
    /// The text without literals and the types of the literals that were looked up last: most texts are known, and their look-up
    /// allocates nothing.
    static SCRATCH: RefCell<(Normalized, Vec<u8>)> = RefCell::default();
}

/// `ByWholeText`: the literals decide what the statement does (SET), so the cache must find it by its text with the
/// literals.
#[derive(Debug, Clone)]
pub(super) enum CachedTemplate {
    Template(Arc<Template>),
    ByWholeText,
}

impl CachedTemplate {
    /// The template of a simple query with this text, which is `normal` without its literals. `None` if the literals matter: a client may
    /// have prepared `normal`.
    fn for_query(self, normal: &str, text: &str) -> Option<Arc<Template>> {
        match self {
            Self::Template(template) => {
                let matter = literals_matter(template.statement.as_ref(), normal, text);
                (!matter).then_some(template)
            }
            Self::ByWholeText => None,
        }
    }
}

/// The templates of a process.
#[derive(Debug)]
pub struct Templates {
    pub(super) known: Mutex<Generations<TextKey, CachedTemplate>>,
    /// Texts that may have bare hints, by their spelling. `None`: a text has none.
    plain: Mutex<Generations<TextKey, Option<Arc<str>>>>,
    next_id: AtomicU64,
    /// Number of texts that were parsed.
    parses: AtomicU64,
    /// See [`new_version`]. Changes when templates are dropped from `known`.
    pub(super) version: AtomicU64,
}

impl Default for Templates {
    fn default() -> Self {
        Self {
            known: Mutex::new(Generations::new(TEMPLATES_MAX)),
            plain: Mutex::new(Generations::new(PLAIN_TEXTS_MAX)),
            next_id: AtomicU64::new(1),
            parses: AtomicU64::new(0),
            version: AtomicU64::new(new_version()),
        }
    }
}

/// A simple query: its template, and the literals that parameters replace.
#[derive(Debug, Clone)]
pub struct Simple {
    /// The template.
    pub template: Arc<Template>,
    /// The values of the template's parameters. Empty if the text is its own template.
    pub literals: Vec<Literal>,
}

impl Templates {
    /// A number that is used for no other template, prepared statement or time.
    pub fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Number of texts that were parsed so far.
    pub fn parses(&self) -> u64 {
        self.parses.load(Ordering::Relaxed)
    }

    fn understand(&self, text: &str) -> Option<Statement> {
        self.parses.fetch_add(1, Ordering::Relaxed);
        paceline_sql::parse(text).ok()
    }

    /// The template of a text that a client prepares. Blocks while the text is parsed.
    pub fn prepared(&self, text: &str, types: &[u8]) -> Arc<Template> {
        let found = self.prepared_for(text, types, MayBlock::Yes);
        found.unwrap_or_else(|unparsed| self.create(&unparsed.text, types, None))
    }

    /// As [`Templates::prepared`], without blocking.
    ///
    /// # Errors
    /// The text must be parsed first.
    pub fn try_prepared(&self, text: &str, types: &[u8]) -> Result<Arc<Template>, Unparsed> {
        self.prepared_for(text, types, MayBlock::No)
    }

    fn prepared_for(
        &self,
        text: &str,
        types: &[u8],
        may_block: MayBlock,
    ) -> Result<Arc<Template>, Unparsed> {
        if let Some(beginning) = beginning_of_long(text) {
            return Ok(Arc::new(Template {
                text: text.to_owned(),
                types: types.to_vec(),
                ..self.long(beginning)
            }));
        }
        let text = paceline_sql::without_trace_comment(text);
        if is_bulk(text) {
            return Ok(self.create(text, types, None));
        }
        if let Some(CachedTemplate::Template(template)) = self.find(text, types) {
            return Ok(template);
        }
        match ParseCost::of(text) {
            ParseCost::TooHigh => Ok(self.create(text, types, None)),
            ParseCost::High if may_block == MayBlock::No => Err(Unparsed {
                text: text.to_owned(),
                goal: ParseGoal::Prepared(types.to_vec()),
            }),
            _ => Ok(self.insert(text, types, self.understand(text))),
        }
    }

    /// As [`Templates::try_prepared`], for a `Parse` that is being sent. If the meaning of the text depends on the time, the
    /// statement is not shared.
    ///
    /// # Errors
    /// The text must be parsed first.
    pub fn try_prepared_now(&self, text: &str, types: &[u8]) -> Result<Arc<Template>, Unparsed> {
        let template = self.try_prepared(text, types)?;
        Ok(match template.depends_on_parse_time() {
            true => self.with_own_statement(&template),
            false => template,
        })
    }

    /// The same template, with a statement of its own.
    pub fn with_own_statement(&self, template: &Template) -> Arc<Template> {
        Arc::new(Template {
            id: template.id,
            statement: template.statement.clone(),
            hints: template.hints,
            guessed_effect: template.guessed_effect,
            local_show: template.local_show,
            ..self.unparsed(&template.text, &template.types)
        })
    }

    /// A template for a text that Paceline sends in place of a client's, and that does the same. It is not parsed.
    pub fn in_place_of(&self, template: &Template, text: &str) -> Arc<Template> {
        // If a client sends this text, it means something else.
        let key = [&template.types[..], b"own"].concat();
        if let Some(CachedTemplate::Template(known)) = self.find(text, &key) {
            return known;
        }
        let own = self.create(text, &template.types, template.statement.clone());
        if text.len() <= OWN_BYTES_MAX {
            self.remember(text, &key, CachedTemplate::Template(Arc::clone(&own)));
        }
        own
    }

    /// The template of a text that Paceline sends in place of a client's: the same statement on another table.
    pub fn on_other_table(&self, template: &Template, text: &str) -> Arc<Template> {
        // If a client sends this text, it means a table of its own server.
        let key = [&template.types[..], b"other"].concat();
        if let Some(CachedTemplate::Template(known)) = self.find(text, &key) {
            return known;
        }
        let statement = self.understand(text).map(|statement| Statement {
            update: statement.update.filter(|_| !statement.needs_constants),
            ..statement
        });
        let other = self.create(text, &template.types, statement);
        self.remember(text, &key, CachedTemplate::Template(Arc::clone(&other)));
        other
    }

    /// The template of a text of which Paceline reads only this beginning.
    pub fn long(&self, beginning: &str) -> Template {
        Template {
            hints: paceline_sql::leading_hints(beginning),
            guessed_effect: Some(GuessedEffect::of_beginning(beginning)),
            ..self.unparsed(beginning, NO_PARAMETER_TYPES)
        }
    }

    /// The text with its bare hints as a comment, without blocking.
    ///
    /// # Errors
    /// The text must be parsed first.
    pub fn try_plain<'a>(&self, text: &'a str) -> Result<Cow<'a, str>, Unparsed> {
        self.plain_for(text, MayBlock::No)
    }

    fn plain_for<'a>(&self, text: &'a str, may_block: MayBlock) -> Result<Cow<'a, str>, Unparsed> {
        if text.len() > BYTES_MAX || !paceline_sql::may_have_bare_hints(text) {
            return Ok(Cow::Borrowed(text));
        }
        let known = lock(&self.plain).get(text, &[]);
        let plain = match (known, ParseCost::of(text)) {
            (Some(known), _) => known,
            // PostgreSQL reports the error.
            (None, ParseCost::TooHigh) => None,
            (None, ParseCost::High) if may_block == MayBlock::No => {
                return Err(Unparsed {
                    text: text.to_owned(),
                    goal: ParseGoal::Plain,
                });
            }
            (None, _) => {
                self.parses.fetch_add(1, Ordering::Relaxed);
                let plain = match without_bare_hints(text) {
                    Cow::Borrowed(_) => None,
                    Cow::Owned(plain) => Some(Arc::from(plain)),
                };
                lock(&self.plain).insert(TextKey(text.to_owned(), Vec::new()), plain.clone());
                plain
            }
        };
        Ok(match plain {
            None => Cow::Borrowed(text),
            Some(plain) => Cow::Owned(plain.to_string()),
        })
    }

    /// A template for a text that the server may split into other tokens than Paceline's parser. Its effect is unknown.
    pub fn unknown(&self, text: &str, types: &[u8]) -> Arc<Template> {
        self.create(text, types, None)
    }

    /// Parses a text, and blocks as long as that takes. Then the call that returned `unparsed` succeeds.
    pub fn parse(&self, unparsed: &Unparsed) {
        let text = &unparsed.text;
        match &unparsed.goal {
            ParseGoal::Plain => drop(self.plain_for(text, MayBlock::Yes)),
            ParseGoal::Simple => drop(self.simple_for(text, MayBlock::Yes)),
            ParseGoal::Prepared(types) => drop(self.prepared_for(text, types, MayBlock::Yes)),
        }
    }

    /// The text is not parsed, because the parser does not finish. Its effect is unknown.
    pub fn give_up(&self, unparsed: &Unparsed) {
        let text = &unparsed.text;
        match &unparsed.goal {
            ParseGoal::Plain => {
                let mut plain = lock(&self.plain);
                plain.insert(TextKey(text.clone(), Vec::new()), None);
            }
            ParseGoal::Simple => {
                if let Some(normal) = paceline_sql::take_out_literals(text, false) {
                    let types = literal_types(&normal.literals);
                    self.remember(&normal.text, &types, CachedTemplate::ByWholeText);
                }
                self.insert(text, NO_PARAMETER_TYPES, None);
            }
            ParseGoal::Prepared(types) => drop(self.insert(text, types, None)),
        }
    }

    /// Removes the template from the cache. The text is parsed again and has a new id, so servers prepare it again.
    pub fn retire(&self, template: &Template) {
        self.with_known(|known| known.remove(&template.text, &template.types));
    }

    /// The template of a simple query. Blocks while the text is parsed.
    pub fn simple(&self, text: &str) -> Simple {
        let found = self.simple_for(text, MayBlock::Yes);
        found.unwrap_or_else(|unparsed| Simple {
            template: self.create(&unparsed.text, NO_PARAMETER_TYPES, None),
            literals: Vec::new(),
        })
    }

    /// As [`Templates::simple`], without blocking.
    ///
    /// # Errors
    /// The text must be parsed first.
    pub fn try_simple(&self, text: &str) -> Result<Simple, Unparsed> {
        self.simple_for(text, MayBlock::No)
    }

    /// The template of a simple query, without the literals.
    ///
    /// # Errors
    /// The text must be parsed first.
    pub fn try_simple_template(&self, text: &str) -> Result<Arc<Template>, Unparsed> {
        let known = paceline_sql::may_have_literals(text).then(|| self.known_simple(text));
        match known.flatten() {
            Some(template) => Ok(template),
            None => self.try_simple(text).map(|simple| simple.template),
        }
    }

    /// The template of a text with literals, if it is in the cache. Allocates nothing.
    fn known_simple(&self, text: &str) -> Option<Arc<Template>> {
        if text.len() > SCRATCH_BYTES_MAX {
            return None;
        }
        let text = paceline_sql::without_trace_comment(text);
        SCRATCH.with_borrow_mut(|(normal, types)| {
            if !paceline_sql::take_out_kinds(text, false, normal) || normal.literals.is_empty() {
                return None;
            }
            types.clear();
            write_literal_types(&normal.literals, types);
            self.find(&normal.text, types)?
                .for_query(&normal.text, text)
        })
    }

    fn simple_for(&self, text: &str, may_block: MayBlock) -> Result<Simple, Unparsed> {
        let text = paceline_sql::without_trace_comment(text);
        if !paceline_sql::may_have_literals(text) || is_bulk(text) {
            return self.whole(text, may_block);
        }
        // The meaning of a backslash depends on standard_conforming_strings. The literals of such a text stay in it.
        let Some(normal) = paceline_sql::take_out_literals(text, false) else {
            return self.whole(text, may_block);
        };
        if normal.literals.is_empty() {
            return self.whole(text, may_block);
        }
        let types = literal_types(&normal.literals);
        let template = match self.find(&normal.text, &types) {
            Some(known) => known.for_query(&normal.text, text),
            None => self.classify(text, &normal.text, &types, may_block)?,
        };
        match template {
            None => self.whole(text, may_block),
            Some(template) => Ok(Simple {
                template,
                literals: normal.literals,
            }),
        }
    }

    /// Parses a text whose template is new. `None` if the literals matter, so that the text must be found as a whole.
    fn classify(
        &self,
        text: &str,
        normal: &str,
        types: &[u8],
        may_block: MayBlock,
    ) -> Result<Option<Arc<Template>>, Unparsed> {
        let parse = |part: &str| match ParseCost::of(part) {
            ParseCost::TooHigh => Ok(None),
            ParseCost::High if may_block == MayBlock::No => Err(Unparsed {
                text: text.to_owned(),
                goal: ParseGoal::Simple,
            }),
            _ => Ok(self.understand(part)),
        };
        // If a literal cannot become a parameter (interval '1 day'), the original text determines its effect. It cannot be
        // rewritten.
        let (statement, is_normal) = match parse(normal)? {
            Some(statement) => (Some(statement), true),
            None => {
                let statement = parse(text)?.map(|statement| Statement {
                    update: None,
                    ..statement
                });
                (statement, false)
            }
        };
        let statement = statement.map(|statement| Statement {
            update: statement.update.filter(|_| !statement.needs_constants),
            ..statement
        });
        let differs = |statement| !is_normal && hidden_literals_matter(statement, normal);
        if statement.as_ref().is_some_and(differs)
            || literals_matter(statement.as_ref(), normal, text)
        {
            self.remember(normal, types, CachedTemplate::ByWholeText);
            return Ok(None);
        }
        Ok(Some(self.insert(normal, types, statement)))
    }

    fn whole(&self, text: &str, may_block: MayBlock) -> Result<Simple, Unparsed> {
        let template = self.prepared_for(text, NO_PARAMETER_TYPES, may_block);
        let template = template.map_err(|unparsed| Unparsed {
            goal: ParseGoal::Simple,
            ..unparsed
        });
        Ok(Simple {
            template: template?,
            literals: Vec::new(),
        })
    }

    fn find(&self, text: &str, types: &[u8]) -> Option<CachedTemplate> {
        self.with_known(|known| known.get(text, types))
    }

    fn with_known<R>(&self, act: impl FnOnce(&mut Generations<TextKey, CachedTemplate>) -> R) -> R {
        let mut known = lock(&self.known);
        let drops = known.drops();
        let result = act(&mut known);
        if drops != known.drops() {
            self.version.store(new_version(), Ordering::Release);
        }
        result
    }

    /// A template of which nothing is known yet.
    fn unparsed(&self, text: &str, types: &[u8]) -> Template {
        let id = self.new_id();
        Template {
            id,
            statement_id: id,
            text: text.to_owned(),
            types: types.to_vec(),
            statement: None,
            hints: Hints::default(),
            guessed_effect: None,
            local_show: false,
            pace: Pace::default(),
            name: OnceLock::new(),
        }
    }

    fn create(&self, text: &str, types: &[u8], statement: Option<Statement>) -> Arc<Template> {
        let guessed_effect = statement.is_none()
            && (text.len() >= BULK_BYTES_MIN || ParseCost::of(text) == ParseCost::TooHigh);
        let leading = || match guessed_effect && !paceline_sql::cost(text).several {
            true => paceline_sql::leading_hints(text),
            false => Hints::default(),
        };
        Arc::new(Template {
            hints: statement.as_ref().map_or_else(leading, |s| s.hints),
            guessed_effect: guessed_effect.then(|| GuessedEffect::of(text)),
            local_show: LocalShow::parse(text).is_some(),
            statement,
            ..self.unparsed(text, types)
        })
    }

    fn insert(&self, text: &str, types: &[u8], statement: Option<Statement>) -> Arc<Template> {
        let template = self.create(text, types, statement);
        let key = TextKey(text.to_owned(), types.to_vec());
        self.with_known(|known| match known.get(text, types) {
            // Another thread has parsed the text at the same time.
            Some(CachedTemplate::Template(first)) => first,
            Some(CachedTemplate::ByWholeText) | None => {
                known.insert(key, CachedTemplate::Template(Arc::clone(&template)));
                template
            }
        })
    }

    pub(super) fn remember(&self, text: &str, types: &[u8], what: CachedTemplate) {
        let key = TextKey(text.to_owned(), types.to_vec());
        self.with_known(|known| known.insert(key, what));
    }
}

/// See [`BULK_BYTES_MIN`].
fn is_bulk(text: &str) -> bool {
    text.len() >= BULK_BYTES_MIN && !text.contains("/*+") && paceline_sql::only_changes_rows(text)
}

/// A panic while the lock was held leaves the cache usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
