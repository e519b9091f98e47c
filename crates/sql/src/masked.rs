//! A text as strangers may see it: no value stands in it. Names of tables and columns do.

#[cfg(test)]
mod tests;

use crate::parser;
use pg_query::protobuf::Token;

/// A text with `?` in place of each string and number, and without its comments; hints (`/*+`) stay. `None`: it cannot be
/// read, so nobody knows what in it is a value.
pub fn masked(sql: &str) -> Option<String> {
    let mut text = String::with_capacity(sql.len());
    let mut copied = 0;
    for token in parser::scan(sql).ok()? {
        let (start, end) = (
            usize::try_from(token.start).ok()?,
            usize::try_from(token.end).ok()?,
        );
        let instead = match token.token() {
            Token::Sconst | Token::Usconst | Token::Bconst | Token::Xconst => "?",
            Token::Iconst | Token::Fconst => "?",
            Token::CComment if sql.get(start..end)?.starts_with("/*+") => continue,
            Token::CComment | Token::SqlComment => " ",
            _ => continue,
        };
        text.push_str(sql.get(copied..start)?);
        text.push_str(instead);
        copied = end;
    }
    text.push_str(sql.get(copied..)?);
    Some(text)
}
