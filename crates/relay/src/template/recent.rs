//! The templates of the simple queries that a thread has looked up last. A query that differs from one of them only in short integers and
//! in strings has the same template. To compare it with the text of the template takes a tenth of the instructions of the cache, which
//! needs the text without literals, a hash, and a lock that all threads take.

use super::literals::short_literal_kinds;
use super::{Simple, Template, Templates};
use paceline_sql::{Literal, LiteralKind};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Number of sets. The beginning and the end of a text determine its set.
const SETS: usize = 32;
/// Number of templates in a set.
const WAYS: usize = 8;
/// Maximum length of a text.
const BYTES_MAX: usize = 4 * 1024;
/// Maximum length of the types of a template's literals, in the format of `Parse`: 16 literals.
const TYPES_BYTES_MAX: usize = 2 + 4 * 16;
/// An integer of at most so many digits is an `int4`, whatever they are.
const DIGITS_MAX: usize = 9;
/// Number of bytes at the beginning of a text that determine its set, up to the first literal.
const BEGINNING: usize = 24;

thread_local! {
    static RECENT: RefCell<Vec<Set>> = const { RefCell::new(Vec::new()) };
}

/// No recent template was found while the templates had this version.
#[derive(Debug)]
pub(crate) struct RecentMiss {
    version: u64,
}

impl Templates {
    /// The template of a simple query that this thread has looked up last, or of one that differs from such a query only in its literals.
    /// It only uses rows ([`Template::only_uses_rows`]), and neither bare hints nor settings of the server change the meaning of the text.
    ///
    /// # Errors
    /// This thread has found no such template lately. The caller looks the text up in the cache, and then calls
    /// [`Templates::note_recent`].
    pub(crate) fn recent(&self, text: &[u8]) -> Result<Arc<Template>, RecentMiss> {
        self.find_recent(text, |shape| Arc::clone(&shape.template))
    }

    /// As [`Templates::recent`], with the literals.
    ///
    /// # Errors
    /// As [`Templates::recent`].
    pub(crate) fn recent_simple(&self, text: &str) -> Result<Simple, RecentMiss> {
        self.find_recent(text.as_bytes(), |shape| Simple {
            template: Arc::clone(&shape.template),
            literals: shape.literals(text),
        })
    }

    fn find_recent<R>(&self, text: &[u8], take: impl FnOnce(&Shape) -> R) -> Result<R, RecentMiss> {
        let version = self.version.load(Ordering::Acquire);
        if text.len() > BYTES_MAX {
            return Err(RecentMiss { version });
        }
        RECENT.with_borrow(|sets| {
            let set = sets.get(set_of(text));
            let mut shapes = set.into_iter().flat_map(|set| set.shapes.iter().flatten());
            let found = shapes.find(|shape| shape.version == version && shape.fits(text));
            found.map(take).ok_or(RecentMiss { version })
        })
    }

    /// This thread has found the template of a simple query, which has no bare hints, in the cache.
    pub(crate) fn note_recent(&self, miss: RecentMiss, text: &str, template: &Arc<Template>) {
        let version = miss.version;
        let is_short = text.len() <= BYTES_MAX && template.types.len() <= TYPES_BYTES_MAX;
        if !is_short || !template.only_uses_rows() {
            return;
        }
        RECENT.with_borrow_mut(|sets| {
            sets.resize_with(SETS, Set::default);
            if let Some(set) = sets.get_mut(set_of(text.as_bytes())) {
                set.put(template, version);
            }
        });
    }
}

#[derive(Default)]
struct Set {
    shapes: [Option<Shape>; WAYS],
    /// The place of the oldest one.
    next: usize,
}

impl Set {
    /// Replaces the oldest template, unless this one is there.
    fn put(&mut self, template: &Arc<Template>, version: u64) {
        let mut known = self.shapes.iter().flatten();
        if known.any(|shape| shape.version == version && Arc::ptr_eq(&shape.template, template)) {
            return;
        }
        if let Some(place) = self.shapes.get_mut(self.next) {
            *place = Some(Shape::of(template, version));
        }
        self.next = (self.next + 1) % WAYS;
    }
}

/// From bytes that are no literal, so that it is the same for all queries with one template.
fn set_of(text: &[u8]) -> usize {
    let is_other = |byte: &&u8| !byte.is_ascii_digit() && **byte != b'\'';
    let beginning = text.iter().take(BEGINNING).take_while(is_other);
    let mixed = beginning.fold(0_u64, |mixed, byte| {
        (mixed.rotate_left(5) ^ u64::from(*byte)).wrapping_mul(0x517C_C1B7_2722_0A95)
    });
    let end =
        text.last_chunk::<8>()
            .map_or(0, |end| match end.iter().all(|byte| is_other(&byte)) {
                true => u64::from_le_bytes(*end),
                false => 0,
            });
    let mixed = (mixed ^ end).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    usize::try_from(mixed >> 40).unwrap_or(0) % SETS
}

/// The text of a template.
struct Shape {
    version: u64,
    template: Arc<Template>,
    /// `None` if no query is compared with it.
    parts: Option<Parts>,
}

/// A text whose tokens are the same whatever the literals are, and whatever settings and encoding the server has.
struct Parts {
    literals: Box<[Part]>,
    /// The text behind the last literal.
    rest: Range<usize>,
}

/// A part of the text of a template, and the literal that follows in a query.
struct Part {
    text: Range<usize>,
    literal: LiteralKind,
}

impl Shape {
    fn of(template: &Arc<Template>, version: u64) -> Self {
        Self {
            version,
            template: Arc::clone(template),
            parts: Parts::of(template),
        }
    }

    /// Whether the template is that of this query.
    fn fits(&self, query: &[u8]) -> bool {
        let text = self.template.text.as_bytes();
        let part = |range: &Range<usize>| text.get(range.clone()).unwrap_or_default();
        let Some(parts) = &self.parts else {
            return false;
        };
        let mut rest = query;
        for Part { text, literal } in &parts.literals {
            let Some(after) = rest.strip_prefix(part(text)) else {
                return false;
            };
            let Some(behind) = literal_len(*literal, after).and_then(|len| after.get(len..)) else {
                return false;
            };
            rest = behind;
        }
        rest == part(&parts.rest)
    }

    /// The literals of a query that fits.
    fn literals(&self, query: &str) -> Vec<Literal> {
        let parts = self.parts.as_ref().map_or(&[][..], |parts| &parts.literals);
        let mut rest = query;
        let literal = |Part { text, literal }: &Part| {
            let after = rest.get(text.len()..)?;
            let (found, behind) =
                after.split_at_checked(literal_len(*literal, after.as_bytes())?)?;
            rest = behind;
            let quotes = usize::from(*literal == LiteralKind::Unknown);
            Some(Literal {
                kind: *literal,
                text: found.get(quotes..found.len() - quotes)?.to_owned(),
            })
        };
        parts.iter().map_while(literal).collect()
    }
}

impl Parts {
    fn of(template: &Template) -> Option<Self> {
        let text = &*template.text;
        // A comment or a backslash may change the meaning of what follows.
        let is_usual = text.len() <= BYTES_MAX
            && text.is_ascii()
            && !["\\", "--", "/*", "*/"]
                .iter()
                .any(|part| text.contains(part));
        if !is_usual {
            return None;
        }
        let mut from = 0;
        let mut part = |(number, literal): (usize, LiteralKind)| {
            let at = from + text.get(from..)?.find('$')?;
            let part = Part {
                text: from..at,
                literal,
            };
            from = text.len() - text.get(at..)?.strip_prefix(&format!("${number}"))?.len();
            Some(part)
        };
        let kinds = short_literal_kinds(&template.types)?;
        let literals = (1..).zip(kinds).map(&mut part).collect::<Option<_>>()?;
        // A dollar may also be in a name.
        let rest = from..text.len();
        let has_dollar = text.get(rest.clone())?.contains('$');
        (!has_dollar).then_some(Self { literals, rest })
    }
}

/// The length of the literal at the beginning.
fn literal_len(kind: LiteralKind, text: &[u8]) -> Option<usize> {
    match kind {
        LiteralKind::Unknown => string_len(text),
        LiteralKind::Int4 => integer_len(text),
        LiteralKind::Int8 | LiteralKind::Numeric => None,
    }
}

/// The length of the integer at the beginning, if it is an `int4` whatever its sign is.
fn integer_len(text: &[u8]) -> Option<usize> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    let len = digits.count();
    (1..=DIGITS_MAX).contains(&len).then_some(len)
}

/// The length of the string constant at the beginning, if its value is what is between the quotes.
fn string_len(text: &[u8]) -> Option<usize> {
    let inner = text.strip_prefix(b"'")?;
    let is_end = |byte: &u8| matches!(byte, b'\'' | b'\\' | 0 | 0x80..);
    let end = inner.iter().position(is_end)?;
    (inner.get(end) == Some(&b'\'')).then_some(end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Templates;

    /// Whether a query has the template of another one, of which it is a copy with other literals.
    fn fits(known: &str, query: &str) -> bool {
        let templates = Templates::default();
        let template = templates.simple(known).template;
        Shape::of(&template, 0).fits(query.as_bytes())
    }

    #[test]
    fn other_short_literals_fit() {
        for (known, query) in [
            ("SELECT 1", "SELECT 999999999"),
            ("SELECT 2147483647", "SELECT 7"),
            ("SELECT a FROM t", "SELECT a FROM t"),
            (
                "UPDATE t SET n = n + -5 WHERE id = 1",
                "UPDATE t SET n = n + -77 WHERE id = 12",
            ),
            ("SELECT 'a', 1, 'b'", "SELECT 'it, 7 -- /* x', 2, ''"),
            (
                "SELECT t1.a2 FROM t1 WHERE b = 3;",
                "SELECT t1.a2 FROM t1 WHERE b = 4;",
            ),
        ] {
            assert!(fits(known, query), "{known} {query}");
        }
    }

    #[test]
    fn literals_of_other_kinds_do_not_fit() {
        for query in [
            "SELECT 1000000000",
            "SELECT 2147483648",
            "SELECT 1.5",
            "SELECT 1e3",
            "SELECT 'a'",
            "SELECT ",
            "SELECT x",
            "SELECT 1 ",
            "SELECT 1x",
            "SELECT 0x10",
            "SELECT 1_000",
            "select 1",
            "SELECT 1; SELECT 2",
        ] {
            assert!(!fits("SELECT 1", query), "{query}");
        }
        for query in [
            "SELECT 'it''s'",
            "SELECT 'a\\'",
            "SELECT 'ä'",
            "SELECT 'a",
            "SELECT 'a' 'b'",
            "SELECT 'a\0'",
            "SELECT 1",
            "SELECT E'a'",
        ] {
            assert!(!fits("SELECT 'x'", query), "{query}");
        }
        assert!(!fits("SELECT t1.a FROM t1", "SELECT t2.a FROM t1"));
    }

    #[test]
    fn peculiar_texts_are_not_remembered() {
        for text in [
            "SELECT 1 -- one",
            "SELECT /* one */ 1",
            "SELECT a$1 FROM t WHERE n = 1",
            "SELECT $1",
            "SELECT $$1$$",
            "SELECT 1.5",
            "SELECT 3000000000",
            "SELECT \"ä\", 1",
            "SELECT \"a\\b\", 1",
        ] {
            assert!(!fits(text, text), "{text}");
        }
    }

    /// Whatever fits has the template that the cache finds.
    #[test]
    fn the_cache_agrees() {
        let mut state = paceline_testing::seed();
        let mut below = |bound: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(state >> 33).unwrap_or_default() % bound
        };
        const PARTS: [&str; 24] = [
            "1",
            "22",
            "'a'",
            "''",
            "'",
            "-",
            "a",
            "t1",
            " ",
            ",",
            ".",
            "e",
            "E",
            "$1",
            "\"b\"",
            "\"",
            "\\",
            "--",
            "/*",
            "*/",
            ";",
            "2147483648",
            "SELECT ",
            "\n",
        ];
        let templates = Templates::default();
        let mut fitting = 0;
        for _ in 0..20_000 {
            let mut text = "SELECT ".to_owned();
            for _ in 0..below(6) {
                text += PARTS[below(24)];
            }
            let known = templates.simple(&text).template;
            // The same text with one part replaced.
            let mut query = "SELECT ".to_owned();
            let rest = text.strip_prefix("SELECT ").unwrap_or_default();
            let at = below(rest.len() + 1);
            let (before, after) = rest.split_at(rest.floor_char_boundary(at));
            let part = PARTS[below(24)];
            query += &match below(3) {
                0 => format!("{before}{part}{after}"),
                1 => format!("{before}{}", after.get(1..).unwrap_or_default()),
                _ => format!("{before}{part}{}", after.get(1..).unwrap_or_default()),
            };
            let shape = Shape::of(&known, 0);
            if shape.fits(query.as_bytes()) {
                assert_eq!(set_of(text.as_bytes()), set_of(query.as_bytes()));
                fitting += 1;
                let found = templates.simple(&query);
                assert_eq!(found.template.id, known.id, "{text:?} {query:?}");
                assert_eq!(found.literals, shape.literals(&query), "{query:?}");
                assert!(!paceline_sql::hides_quotes(&query), "{query:?}");
                assert_eq!(paceline_sql::without_trace_comment(&query), query);
            }
        }
        assert!(fitting > 100, "{fitting}");
    }

    #[test]
    fn a_dropped_template_is_not_found() {
        let templates = Templates::default();
        let text = "SELECT n FROM t WHERE id = 1";
        let template = templates.simple(text).template;
        let miss = templates.recent(text.as_bytes()).expect_err("a miss");
        templates.note_recent(miss, text, &template);
        let found = templates.recent(b"SELECT n FROM t WHERE id = 2");
        assert_eq!(found.map(|found| found.id).ok(), Some(template.id));
        let others = Templates::default();
        assert!(others.recent(text.as_bytes()).is_err(), "another process");
        templates.retire(&template);
        assert!(templates.recent(text.as_bytes()).is_err());
    }

    /// Another thread may retire the template between the look-ups.
    #[test]
    fn a_template_that_is_dropped_meanwhile_is_not_found() {
        let templates = Templates::default();
        let text = "SELECT n FROM t WHERE id = 1";
        let template = templates.simple(text).template;
        let miss = templates.recent(text.as_bytes()).expect_err("a miss");
        templates.retire(&template);
        templates.note_recent(miss, text, &template);
        assert!(templates.recent(text.as_bytes()).is_err());
    }
}
