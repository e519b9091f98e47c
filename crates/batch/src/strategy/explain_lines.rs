//! The output of `paceline explain`. Each line has a label and a text.

use paceline_sql::fold::{KeyClass, KeyColumn};
use paceline_sql::{KeyValue, LiteralKind, quote_literal};

/// Width of a label, including the space after it (characters).
const LABEL_WIDTH: usize = 12;

/// The lines of the output.
#[derive(Debug, Default)]
pub struct ExplainLines(Vec<String>);

impl ExplainLines {
    /// Appends a line.
    pub fn say(&mut self, label: &str, text: impl AsRef<str>) {
        let text = text.as_ref();
        self.0.push(format!("{label:LABEL_WIDTH$}{text}"));
    }

    /// Appends a line with these items, unless there are none.
    pub fn list(&mut self, label: &str, items: impl Iterator<Item = String>) {
        let items: Vec<String> = items.collect();
        if !items.is_empty() {
            self.say(label, items.join(", "));
        }
    }

    /// All lines.
    pub fn finish(self) -> String {
        self.0.join("\n")
    }

    /// Appends a line with these parameters, unless there are none.
    pub(super) fn parameters(&mut self, label: &str, numbers: impl Iterator<Item = u32>) {
        self.list(label, numbers.map(|number| format!("${number}")));
    }

    /// Appends the key of a row.
    pub(super) fn key(&mut self, key: &[KeyColumn]) {
        let equal = |column: &KeyColumn| format!("{} = {}", column.name, value_text(&column.value));
        self.list("key", key.iter().map(equal));
        if key.iter().any(|column| column.class == KeyClass::Opaque) {
            self.say(
                "",
                "only PostgreSQL can compare such keys: a group is of one key",
            );
        }
        if key.iter().any(|column| column.class == KeyClass::Ascii) {
            self.say(
                "",
                "PostgreSQL converts texts between encodings: a key that is not ASCII is in no group",
            );
        }
    }
}

/// A value as SQL.
pub(super) fn value_text(value: &KeyValue) -> String {
    match value {
        KeyValue::Parameter(number) => format!("${number}"),
        KeyValue::Constant {
            kind: LiteralKind::Unknown,
            text,
        } => quote_literal(text),
        KeyValue::Constant { text, .. } => text.clone(),
    }
}
