//! Values in PostgreSQL's text format.

use paceline_wire::backend;
use std::str::FromStr;

/// Formats integers as an array.
pub(super) fn array(values: impl Iterator<Item = i64>) -> String {
    let values: Vec<String> = values.map(|value| value.to_string()).collect();
    format!("{{{}}}", values.join(","))
}

/// Parses a row of `N` integers; `None` if the row has another format.
pub(super) fn row<const N: usize>(body: &[u8]) -> Option<[i64; N]> {
    let values = backend::row_values(body).ok()?;
    let number = |value: Option<&[u8]>| std::str::from_utf8(value?).ok()?.parse().ok();
    let numbers: Option<Vec<i64>> = values.into_iter().map(number).collect();
    numbers?.try_into().ok()
}

/// Parses the only value of a row; `None` if the value is NULL or has another format.
pub(super) fn single<T: FromStr>(body: &[u8]) -> Option<T> {
    let values = backend::row_values(body).ok()?;
    std::str::from_utf8((*values.first()?)?).ok()?.parse().ok()
}
