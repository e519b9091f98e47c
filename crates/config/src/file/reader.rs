//! Walks a TOML document: values, tables, and the problems in them, each with its place.

use crate::error::ConfigProblem;
use crate::value::{ValueError, Written};
use std::borrow::Cow;
use toml::Spanned;
use toml::de::DeValue;

/// A key and its value, with their places in the text.
pub(super) type Entry<'a, 'i> = (&'a Spanned<Cow<'i, str>>, &'a Spanned<DeValue<'i>>);

/// Walks the document and notes problems instead of stopping at the first one.
#[derive(Default)]
pub(super) struct Reader {
    /// Byte offset and problem.
    pub(super) problems: Vec<(usize, ConfigProblem)>,
    /// Byte offset and remark.
    pub(super) remarks: Vec<(usize, String)>,
}

impl Reader {
    /// The value of `key`. If `check` rejects it, notes that and returns `None`.
    pub(super) fn value<T>(
        &mut self,
        key: &str,
        written: &Spanned<DeValue<'_>>,
        check: impl Fn(Written<'_>) -> Result<T, ValueError>,
    ) -> Option<T> {
        let checked = check(Written::in_toml(written.get_ref()));
        self.check(
            written,
            checked.map_err(|error| ConfigProblem::value(key, error)),
        )
    }

    /// The value of `checked`; notes a problem with `written`.
    pub(super) fn check<T>(
        &mut self,
        written: &Spanned<DeValue<'_>>,
        checked: Result<T, impl Into<ConfigProblem>>,
    ) -> Option<T> {
        checked
            .map_err(|wrong| self.note(written.span().start, wrong.into()))
            .ok()
    }

    /// Returns the entries of the table `name`. If `name` is no table, adds a note and returns none.
    pub(super) fn entries<'a, 'i>(
        &mut self,
        name: &str,
        content: &'a Spanned<DeValue<'i>>,
    ) -> Vec<Entry<'a, 'i>> {
        if let DeValue::Table(table) = content.get_ref() {
            return table.iter().collect();
        }
        self.note(
            content.span().start,
            ConfigProblem::NotATable(name.to_owned()),
        );
        Vec::new()
    }

    pub(super) fn unknown_key(&mut self, key: &Spanned<Cow<'_, str>>, table: &str, known: &[&str]) {
        let wrong = ConfigProblem::unknown_key(key.get_ref(), table, known.iter().copied());
        self.note(key.span().start, wrong);
    }

    pub(super) fn note(&mut self, at: usize, wrong: ConfigProblem) {
        self.problems.push((at, wrong));
    }
}

/// `name` as a table header has it: quoted unless it is a bare key.
pub(super) fn toml_key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.escape_default())
    }
}
