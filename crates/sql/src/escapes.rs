//! Backslashes. Their meaning in a plain string constant depends on `standard_conforming_strings`; whether a byte is
//! a backslash at all depends on `client_encoding`. So the server may read other constants, or even other tokens,
//! from a text than the parser in Paceline.

#[cfg(test)]
mod tests;

use crate::parser;
use pg_query::protobuf::Token;

/// Prefixes of encodings that PostgreSQL also supports as server encoding: each byte of a non-ASCII character has its
/// high bit set.
const SERVER_ENCODINGS: [&str; 6] = ["UTF8", "SQL_ASCII", "LATIN", "WIN", "ISO_8859_", "KOI8"];
const SERVER_ENCODING_EUC: &str = "EUC_";

/// Whether in this client encoding (named as PostgreSQL reports it) each byte with the value of an ASCII character is
/// that character. In other encodings a backslash or a bracket may be the second byte of another character.
pub fn keeps_ascii(encoding: &str) -> bool {
    let mut known = SERVER_ENCODINGS.iter().chain([&SERVER_ENCODING_EUC]);
    known.any(|name| encoding.starts_with(name))
}

/// Whether the server may read other tokens from the text if `standard_conforming_strings` is off. Then a quote after
/// an odd number of backslashes does not end a plain string constant.
pub fn hides_quotes(text: &str) -> bool {
    let hidden = |(at, _): (usize, &str)| {
        let before = text.as_bytes().get(..at).unwrap_or_default();
        let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\');
        backslashes.count() % 2 == 1
    };
    text.contains('\\') && text.match_indices('\'').any(hidden)
}

/// Whether a constant in the text may have another value under other settings (`standard_conforming_strings`,
/// `backslash_quote`). The value of an `E''` constant depends on them only if a quote follows a backslash.
pub(crate) fn has_escapes(text: &str) -> bool {
    if !text.contains('\\') {
        return false;
    }
    let Ok(tokens) = parser::scan(text) else {
        return true;
    };
    let escaped = |token: &pg_query::protobuf::ScanToken| {
        let token_text = parser::text_of(text, token);
        let plain = matches!(token.token(), Token::Sconst | Token::Usconst)
            && !token_text.starts_with(['e', 'E', '$']);
        plain && token_text.contains('\\')
    };
    hides_quotes(text) || tokens.iter().any(escaped)
}

/// The value of a plain constant if backslashes escape. Only its letters are reliable.
pub(crate) fn unescaped(constant: &str) -> String {
    let mut out = String::with_capacity(constant.len());
    let mut rest = constant;
    while let Some((before, behind)) = rest.split_once('\\') {
        out.push_str(before);
        let (letter, len) = escape(behind);
        out.extend(letter);
        rest = behind.get(len..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// The character that an escape represents, and the length of the escape after the backslash.
fn escape(text: &str) -> (Option<char>, usize) {
    let numbered = |from: usize, most: usize, radix: u32| {
        let digits = text.get(from..).unwrap_or_default().chars();
        let len = digits.take(most).take_while(|c| c.is_digit(radix)).count();
        let number = u32::from_str_radix(text.get(from..from + len)?, radix).ok()?;
        Some((char::from_u32(number), from + len))
    };
    let found = match text.as_bytes().first() {
        Some(b'0'..=b'7') => numbered(0, 3, 8),
        Some(b'x') => numbered(1, 2, 16),
        Some(b'u') => numbered(1, 4, 16),
        Some(b'U') => numbered(1, 8, 16),
        Some(b'b' | b'f' | b'n' | b'r' | b't') => Some((Some(' '), 1)),
        _ => None,
    };
    let itself = text.chars().next();
    found.unwrap_or((itself, itself.map_or(0, char::len_utf8)))
}
