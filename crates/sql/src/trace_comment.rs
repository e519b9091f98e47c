//! The comment with which an application passes the context of a trace, at the end of a statement: `/*key='value',…*/`, with the key
//! `traceparent`, and values that are percent-encoded (sqlcommenter). It differs in each request, so it is part of no template.

#[cfg(test)]
mod tests;

use crate::lexis::{end_of_block_comment, end_of_line};
use std::borrow::Cow;

/// In longer texts the comment is not found.
const TEXT_BYTES_MAX: usize = 32 * 1024;

const KEY: &str = "traceparent";

/// A text that ends with such a comment.
#[derive(Debug, PartialEq, Eq)]
pub struct TraceComment<'a> {
    /// The text before the comment, without white space at its end.
    pub statement: &'a str,
    /// The decoded value of `traceparent`, which may be invalid.
    pub traceparent: Cow<'a, str>,
}

/// The comment at the end of a text, before a last semicolon or behind it. `None` also if the text before the comment has a backslash
/// or a dollar quote: then this scan does not find out whether the comment is one.
pub fn trace_comment(sql: &str) -> Option<TraceComment<'_>> {
    if sql.len() > TEXT_BYTES_MAX {
        return None;
    }
    let text = sql.trim_ascii_end();
    let text = text.strip_suffix(';').unwrap_or(text).trim_ascii_end();
    let text = text.strip_suffix("*/")?;
    let start = text.rfind("/*")?;
    let (before, comment) = text.split_at_checked(start)?;
    let pairs = comment.strip_prefix("/*")?;
    if pairs.contains("*/") {
        // The comment ends there, and what follows belongs to the statement.
        return None;
    }
    let traceparent = value_in(pairs)?;
    let is_comment = !before.contains('\\') && is_outside(before.as_bytes())?;
    is_comment.then_some(TraceComment {
        statement: before.trim_ascii_end(),
        traceparent,
    })
}

/// The text without such a comment.
pub fn without_trace_comment(sql: &str) -> &str {
    trace_comment(sql).map_or(sql, |comment| comment.statement)
}

/// The value of the key in these pairs.
fn value_in(pairs: &str) -> Option<Cow<'_, str>> {
    if !pairs.contains(KEY) {
        return None;
    }
    let mut found = None;
    for pair in pairs.split(',') {
        let (key, value) = pair.trim_ascii().split_once('=')?;
        let value = value.trim_ascii_start().strip_prefix('\'')?;
        let value = value.strip_suffix('\'')?;
        if value.contains(['\'', '\n']) {
            return None;
        }
        if key.trim_ascii_end() == KEY {
            found = Some(value);
        }
    }
    decoded(found?)
}

/// The value of `%41` is `A`.
fn decoded(value: &str) -> Option<Cow<'_, str>> {
    if !value.contains('%') {
        return Some(Cow::Borrowed(value));
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, behind) = behind.split_at_checked(2)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let digits = std::str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = behind;
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// Whether this beginning of a text ends outside of strings, quoted names and comments. `None` if a dollar quote may begin in it.
fn is_outside(bytes: &[u8]) -> Option<bool> {
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied().unwrap_or_default();
        let end = match (byte, next) {
            // A doubled quote ends one string and begins the next.
            (b'\'' | b'"', _) => {
                let rest = bytes.get(at + 1..).unwrap_or_default();
                let closing = rest.iter().position(|&other| other == byte);
                closing.map(|closing| at + 1 + closing + 1)
            }
            (b'-', b'-') => Some(end_of_line(bytes, at)).filter(|end| *end < bytes.len()),
            (b'/', b'*') => end_of_block_comment(bytes, at),
            (b'$', next) if !next.is_ascii_digit() => return None,
            _ => Some(at + 1),
        };
        match end {
            Some(end) => at = end,
            None => return Some(false),
        }
    }
    Some(true)
}
