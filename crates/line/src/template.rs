//! Templates: a statement's text and parameter types, parsed once, and the bounded cache that finds them again.

use paceline_sql::{Effect, Literal, LiteralKind, Named, Statement};
use paceline_wire::frontend;
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Templates kept by text; older ones are forgotten and parsed again when they come back.
pub const TEMPLATES_MAX: usize = 8_192;

/// A longer text that only changes rows is passed on as it is: to parse it would hold up others, it is hardly ever
/// the same again, and with so many values it travels with nobody.
pub const BULK_BYTES_MIN: usize = 32 * 1024;

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
    /// `None`: the parser refuses it, or is not asked (see [`BULK_BYTES_MIN`]).
    pub statement: Option<Statement>,
    /// How quickly it was answered when it ran alone.
    pub pace: Pace,
    /// What metrics call it, once they do.
    pub(crate) name: OnceLock<String>,
}

/// Units of a template that must have run alone before it counts as short.
const PACE_RUNS_MIN: u32 = 3;
/// A short unit is answered within this many microseconds …
const SHORT_MICROS_MAX: u32 = 5_000;
/// … with at most this many bytes.
const SHORT_BYTES_MAX: u32 = 16 * 1024;

/// What was measured of a template's units that ran alone. Updated without a lock: a lost update only delays.
#[derive(Debug, Default)]
pub struct Pace {
    runs: AtomicU32,
    long: AtomicU32,
    /// Of the last answer.
    bytes: AtomicU32,
    /// Microseconds that a group took for each of its units; before there was one, that a unit took alone. 0: not known.
    each_micros: AtomicU32,
}

/// A group that was faster than expected counts this part of the difference.
const FASTER_PART: u32 = 8;

impl Pace {
    /// A unit ran alone: microseconds until its answer was complete, bytes of the answer.
    pub fn record(&self, micros: u32, bytes: u32) {
        self.bytes.store(bytes, Ordering::Relaxed);
        if self.each_micros.load(Ordering::Relaxed) == 0 {
            self.each_micros.store(micros, Ordering::Relaxed);
        }
        if micros > SHORT_MICROS_MAX || bytes > SHORT_BYTES_MAX {
            self.long.store(PACE_RUNS_MIN, Ordering::Relaxed);
        } else {
            let left = self.long.load(Ordering::Relaxed);
            self.long.store(left.saturating_sub(1), Ordering::Relaxed);
            let runs = self.runs.load(Ordering::Relaxed);
            self.runs.store(runs.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// A group was answered after so many microseconds.
    pub fn record_group(&self, micros: u32, units: usize) {
        let units = u32::try_from(units).unwrap_or(u32::MAX).max(1);
        let (each, known) = (micros / units, self.each_micros.load(Ordering::Relaxed));
        let smoothed = known.saturating_sub(known.saturating_sub(each) / FASTER_PART);
        self.each_micros
            .store(smoothed.max(each), Ordering::Relaxed);
    }

    /// How many units a group has that takes no longer than this; at least 1.
    pub fn most_within(&self, limit: Duration) -> usize {
        let each = self.each_micros.load(Ordering::Relaxed).max(1);
        let most = limit.as_micros() / u128::from(each);
        usize::try_from(most).unwrap_or(usize::MAX).max(1)
    }

    /// Bytes of the last answer.
    pub fn last_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) as usize
    }

    /// Runs so far, and none of the last few was long.
    pub fn is_short(&self) -> bool {
        self.runs.load(Ordering::Relaxed) >= PACE_RUNS_MIN && self.long.load(Ordering::Relaxed) == 0
    }
}

impl Template {
    /// What the parser knows of its last statement's hints.
    pub fn hints(&self) -> paceline_sql::Hints {
        self.statement.as_ref().map(|s| s.hints).unwrap_or_default()
    }

    /// What it means depends on when it was parsed.
    pub fn names_moment(&self) -> bool {
        self.statement.as_ref().is_some_and(|s| s.names_moment)
    }

    /// What it does with a prepared statement that it calls by name.
    pub fn named(&self) -> Option<&Named> {
        self.statement.as_ref()?.named.as_ref()
    }

    /// The database in which no other session may be, else it fails.
    pub fn exclusive(&self) -> Option<&str> {
        self.statement.as_ref()?.exclusive.as_deref()
    }

    /// It is not looked at because it only changes rows (see [`BULK_BYTES_MIN`]).
    pub fn is_bulk(&self) -> bool {
        self.statement.is_none() && is_bulk(&self.text)
    }

    /// It calls functions, or nobody knows.
    pub fn calls_functions(&self) -> bool {
        let statement = self.statement.as_ref();
        statement.is_none_or(|statement| !statement.functions.is_empty())
    }

    /// What it does.
    pub fn effect(&self) -> Option<&Effect> {
        self.statement.as_ref().map(|s| &s.effect)
    }
}

/// A bounded map in two generations: when the young one is full, the old one is dropped.
#[derive(Debug)]
struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    max: usize,
}

impl<K: Hash + Eq, V: Clone> Generations<K, V> {
    fn new(max: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            max: max / 2,
        }
    }

    fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.max {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

impl<V: Clone> Generations<TextKey, V> {
    fn get(&mut self, text: &str, types: &[u8]) -> Option<V> {
        let probe: &dyn TextLike = &(text, types);
        if let Some(found) = self.young.get(probe) {
            return Some(found.clone());
        }
        let (key, value) = self.old.remove_entry(probe)?;
        self.insert(key, value.clone());
        Some(value)
    }
}

impl<V: Clone> Generations<TextKey, V> {
    fn remove(&mut self, text: &str, types: &[u8]) {
        let probe: &dyn TextLike = &(text, types);
        self.young.remove(probe);
        self.old.remove(probe);
    }
}

/// Text and types as one key, looked up without copying them.
#[derive(Debug, PartialEq, Eq)]
struct TextKey(String, Vec<u8>);

trait TextLike {
    fn parts(&self) -> (&str, &[u8]);
}

impl TextLike for TextKey {
    fn parts(&self) -> (&str, &[u8]) {
        (&self.0, &self.1)
    }
}

impl TextLike for (&str, &[u8]) {
    fn parts(&self) -> (&str, &[u8]) {
        (self.0, self.1)
    }
}

impl Hash for dyn TextLike + '_ {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl PartialEq for dyn TextLike + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn TextLike + '_ {}

impl Hash for TextKey {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl<'a> std::borrow::Borrow<dyn TextLike + 'a> for TextKey {
    fn borrow(&self) -> &(dyn TextLike + 'a) {
        self
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
    next_id: AtomicU64,
}

impl Default for Templates {
    fn default() -> Self {
        Self {
            known: Mutex::new(Generations::new(TEMPLATES_MAX)),
            next_id: AtomicU64::new(1),
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

    /// The template of a text that a client prepares.
    pub fn prepared(&self, text: &str, types: &[u8]) -> Arc<Template> {
        if is_bulk(text) {
            return self.create(text, types, None);
        }
        match self.find(text, types) {
            Some(Known::Template(template)) => template,
            _ => self.insert(text, types, paceline_sql::parse(text).ok()),
        }
    }

    /// The same for a text that a client prepares now: if what it means depends on that, its statement is its own.
    pub fn prepared_now(&self, text: &str, types: &[u8]) -> Arc<Template> {
        let template = self.prepared(text, types);
        if !template.names_moment() {
            return template;
        }
        Arc::new(Template {
            id: template.id,
            statement_id: self.new_id(),
            text: template.text.clone(),
            types: template.types.clone(),
            statement: template.statement.clone(),
            pace: Pace::default(),
            name: OnceLock::new(),
        })
    }

    /// Its text is parsed anew when it comes again, and gets a new id: servers prepare it anew too.
    pub fn retire(&self, template: &Template) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(&template.text, &template.types);
    }

    /// The template of a simple query.
    pub fn simple(&self, text: &str) -> Simple {
        if is_bulk(text) {
            return self.whole(text);
        }
        // A backslash in a plain string means what standard_conforming_strings says: such texts stay whole.
        let Some(normal) = paceline_sql::take_out_literals(text, false) else {
            return self.whole(text);
        };
        if normal.literals.is_empty() {
            return self.whole(text);
        }
        let types = literal_types(&normal.literals);
        let template = match self.find(&normal.text, &types) {
            Some(Known::Template(template)) => template,
            Some(Known::ByWholeText) => return self.whole(text),
            None => match self.classify(text, &normal.text, &types) {
                Some(template) => template,
                None => return self.whole(text),
            },
        };
        Simple {
            template,
            literals: normal.literals,
        }
    }

    /// Parses a text whose template is new. `None`: its literals matter, it must be looked up whole.
    fn classify(&self, text: &str, normal: &str, types: &[u8]) -> Option<Arc<Template>> {
        // Where a literal cannot become a parameter (interval '1 day'), the text itself tells what it does, but
        // it cannot be rewritten.
        let statement = paceline_sql::parse(normal).or_else(|_| {
            paceline_sql::parse(text).map(|statement| Statement {
                update: None,
                ..statement
            })
        });
        let statement = statement.ok().map(|statement| Statement {
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
            return None;
        }
        Some(self.insert(normal, types, statement))
    }

    fn whole(&self, text: &str) -> Simple {
        Simple {
            template: self.prepared(text, &frontend::parameter_types(&[])),
            literals: Vec::new(),
        }
    }

    fn find(&self, text: &str, types: &[u8]) -> Option<Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(text, types)
    }

    fn create(&self, text: &str, types: &[u8], statement: Option<Statement>) -> Arc<Template> {
        let id = self.new_id();
        Arc::new(Template {
            id,
            statement_id: id,
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
    text.len() >= BULK_BYTES_MIN && paceline_sql::only_changes_rows(text)
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

/// A text without the bare words of the older hint spelling, which PostgreSQL does not understand.
pub fn without_bare_hints(text: &str) -> Cow<'_, str> {
    match paceline_sql::strip_bare_hints(text) {
        Some((plain, hints)) => Cow::Owned(as_comment(&plain, hints)),
        None => Cow::Borrowed(text),
    }
}

/// The hints again, as the comment that the parser and PostgreSQL both take, after the statement's first word.
fn as_comment(plain: &str, hints: paceline_sql::Hints) -> String {
    let start = plain.len() - plain.trim_start().len();
    let rest = plain.get(start..).unwrap_or_default();
    let word = rest
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(rest.len());
    let (head, tail) = plain.split_at(start + word);
    let mut words = String::new();
    if hints.commit_on_success {
        words.push_str("COMMIT_ON_SUCCESS ");
    }
    if hints.rollback_on_fail {
        words.push_str("ROLLBACK_ON_FAIL ");
    }
    if let Some(rows) = hints.target_affect_row {
        words.push_str(&format!("TARGET_AFFECT_ROW({rows}) "));
    }
    format!("{head} /*+ {words}*/{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_in_literals_share_a_template_and_types_do_not() {
        let templates = Templates::default();
        let a = templates.simple("select 1 from t where a = 'x'");
        let b = templates.simple("select 22 from t where a = 'y'");
        let c = templates.simple("select 1.5 from t where a = 'y'");
        assert_eq!(a.template.id, b.template.id);
        assert_ne!(a.template.id, c.template.id);
        assert_eq!(b.literals[1].text, "y");
    }

    #[test]
    fn a_set_is_known_by_its_whole_text() {
        let templates = Templates::default();
        let ids: Vec<u64> = ["set x.y = 'a'", "set x.y = 'b'", "set x.y = 'a'"]
            .iter()
            .map(|text| templates.simple(text).template.id)
            .collect();
        assert_ne!(ids[0], ids[1]);
        assert_eq!(ids[0], ids[2]);
    }

    #[test]
    fn the_cache_is_bounded_and_keeps_what_is_used() {
        let templates = Templates::default();
        let hot = templates.prepared("select 1", &[]).id;
        for n in 0..2 * TEMPLATES_MAX {
            templates.remember(&format!("t{n}"), &[], Known::ByWholeText);
            assert_eq!(templates.prepared("select 1", &[]).id, hot);
        }
        let known = templates.known.lock().unwrap();
        assert!(known.young.len() + known.old.len() <= TEMPLATES_MAX);
    }

    #[test]
    fn a_text_that_means_its_moment_has_a_statement_for_each_parse() {
        let templates = Templates::default();
        for (text, shared) in [("select now()", true), ("select 'now'::date", false)] {
            let [one, other] = [(), ()].map(|()| templates.prepared_now(text, &[0, 0]));
            assert_eq!(one.id, other.id);
            assert_eq!(one.statement_id == other.statement_id, shared, "{text}");
        }
    }

    #[test]
    fn a_long_text_that_only_changes_rows_is_not_looked_at() {
        let templates = Templates::default();
        let values = vec!["(1, 'x')"; BULK_BYTES_MIN / 8].join(", ");
        let insert = format!("insert into t values {values}");
        for text in [insert.clone(), format!(" {insert};\n")] {
            let Simple { template, literals } = templates.simple(&text);
            assert!(template.statement.is_none() && literals.is_empty());
            let prepared = templates.prepared(&text, &[0, 0]);
            assert!(prepared.statement.is_none() && prepared.text == text);
            assert_ne!(prepared.id, templates.prepared(&text, &[0, 0]).id, "kept");
        }
        let short = "insert into t values (1, 'x')".to_owned();
        for text in [
            short,
            insert.replace("into", "/*+ COMMIT_ON_SUCCESS */ into"),
        ] {
            let template = templates.simple(&text).template;
            assert!(template.statement.is_some(), "{}", text.len());
        }
    }

    #[test]
    fn bare_hints_become_a_comment() {
        let text = "update COMMIT_ON_SUCCESS TARGET_AFFECT_ROW 1 t set a = 1 where id = 1";
        let plain = without_bare_hints(text);
        let hints = paceline_sql::parse(&plain).unwrap().hints;
        assert!(hints.commit_on_success && hints.target_affect_row == Some(1));
    }
}
