//! Texts without values, for logs and the console. They still contain names of tables and columns.

#[cfg(test)]
mod tests;

use crate::parser;
use pg_query::protobuf::Token;
use std::ops::Range;

/// The text with `?` for each string and number, and without comments; hint comments (`/*+`) remain. `None` if the
/// text cannot be scanned, because then its values are unknown.
pub fn masked(sql: &str) -> Option<String> {
    let mut text = String::with_capacity(sql.len());
    let mut copied = 0;
    for token in parser::scan(sql).ok()? {
        let Range { start, end } = parser::range_of(&token);
        let replacement = match token.token() {
            Token::Sconst | Token::Usconst | Token::Bconst | Token::Xconst => "?",
            Token::Iconst | Token::Fconst => "?",
            Token::CComment if sql.get(start..end)?.starts_with("/*+") => continue,
            Token::CComment | Token::SqlComment => " ",
            _ => continue,
        };
        text.push_str(sql.get(copied..start)?);
        text.push_str(replacement);
        copied = end;
    }
    text.push_str(sql.get(copied..)?);
    Some(text)
}
