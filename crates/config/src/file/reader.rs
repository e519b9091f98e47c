//! Walks a TOML document: values, tables, and the problems in them, each with its place.

use crate::error::ConfigProblem;
use crate::suggest;
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
    pub(super) fn value<T>(
        &mut self,
        key: &str,
        written: &Spanned<DeValue<'_>>,
        check: fn(Written<'_>) -> Result<T, ValueError>,
    ) -> Option<T> {
        let checked = check(Written::in_toml(written.get_ref()));
        checked
            .map_err(|error| {
                self.note(
                    written.span().start,
                    ConfigProblem::Value {
                        key: key.to_owned(),
                        error,
                    },
                )
            })
            .ok()
    }

    /// Returns the entries of the table `name`. If `name` is no table, adds a note and returns none.
    pub(super) fn entries<'a, 'i>(
        &mut self,
        name: &str,
        content: &'a Spanned<DeValue<'i>>,
    ) -> Vec<Entry<'a, 'i>> {
        match content.get_ref() {
            DeValue::Table(table) => table.iter().collect(),
            _ => {
                self.note(
                    content.span().start,
                    ConfigProblem::NotATable {
                        name: name.to_owned(),
                    },
                );
                Vec::new()
            }
        }
    }

    pub(super) fn unknown_key(&mut self, key: &Spanned<Cow<'_, str>>, table: &str, known: &[&str]) {
        let nearest = suggest::nearest(key.get_ref(), known.iter().copied()).map(str::to_owned);
        let (at, key, table) = (
            key.span().start,
            key.get_ref().to_string(),
            table.to_owned(),
        );
        self.note(
            at,
            ConfigProblem::UnknownKey {
                key,
                table,
                nearest,
            },
        );
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
