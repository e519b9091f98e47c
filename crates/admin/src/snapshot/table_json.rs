//! Rows of console tables as objects of JSON.

use crate::console::{ConsoleValue, table};
use paceline_proxy::proxy::Proxy;
use serde_json::{Map, Value};

/// A row by the names of its columns.
pub type JsonRow = Map<String, Value>;

/// The rows of the table that `SHOW` returns by this name, with these columns.
pub(crate) fn rows(proxy: &Proxy, name: &str, columns: &[&str]) -> Vec<JsonRow> {
    let Some(table) = table(name) else {
        return Vec::new();
    };
    let headings = table.headings();
    let rows = table.rows(proxy).into_iter();
    let object = |row: Vec<ConsoleValue>| {
        let named = headings.iter().map(|heading| heading.name).zip(row);
        let wanted = named.filter(|(name, _)| columns.contains(name));
        wanted
            .map(|(name, value)| (name.to_owned(), json(value)))
            .collect()
    };
    rows.map(object).collect()
}

/// A number of the row; 0 if there is none.
pub fn number(row: &JsonRow, column: &str) -> u64 {
    row.get(column).and_then(Value::as_u64).unwrap_or(0)
}

/// A text of the row; empty if there is none.
pub fn text<'a>(row: &'a JsonRow, column: &str) -> &'a str {
    row.get(column).and_then(Value::as_str).unwrap_or_default()
}

fn json(value: ConsoleValue) -> Value {
    match value {
        ConsoleValue::Null => Value::Null,
        ConsoleValue::Text(text) => Value::String(text),
        ConsoleValue::Number(number) => number.into(),
        ConsoleValue::Float(number) => number.into(),
    }
}
