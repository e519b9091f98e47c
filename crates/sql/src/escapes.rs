//! Backslashes. What one means in a plain constant depends on `standard_conforming_strings`, and in which encoding it is
//! one at all on `client_encoding`: so the same text may be other constants, and even other tokens, to the server than to
//! the parser here.

#[cfg(test)]
mod tests;

use crate::parser;
use pg_query::protobuf::Token;

/// Encodings that a server may have, too: every byte of a character that is not ASCII has its high bit set.
const OF_SERVERS: [&str; 6] = ["UTF8", "SQL_ASCII", "LATIN", "WIN", "ISO_8859_", "KOI8"];
const EXTENDED_UNIX: &str = "EUC_";

/// In a client encoding of this name (as PostgreSQL reports it), is every byte of the value of an ASCII character that
/// character? In the others a backslash or a bracket may be the second byte of something else.
pub fn keeps_ascii(encoding: &str) -> bool {
    let mut known = OF_SERVERS.iter().chain([&EXTENDED_UNIX]);
    known.any(|name| encoding.starts_with(name))
}

/// May the text consist of other tokens where `standard_conforming_strings` is off? There an odd number of backslashes
/// hides the quote behind them, which else ends a plain constant.
pub fn hides_quotes(text: &str) -> bool {
    let hidden = |(at, _): (usize, &str)| {
        let before = text.as_bytes().get(..at).unwrap_or_default();
        let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\');
        backslashes.count() % 2 == 1
    };
    text.contains('\\') && text.match_indices('\'').any(hidden)
}

/// May a constant of the text be another one under other settings (`standard_conforming_strings`, `backslash_quote`)?
/// Those of the form `E''` are not, unless a quote follows a backslash.
pub(crate) fn has_escapes(text: &str) -> bool {
    if !text.contains('\\') {
        return false;
    }
    let Ok(tokens) = parser::scan(text) else {
        return true;
    };
    let escaped = |token: &pg_query::protobuf::ScanToken| {
        let start = usize::try_from(token.start).ok();
        let range = start.zip(usize::try_from(token.end).ok());
        let token_text = range.and_then(|(start, end)| text.get(start..end));
        let token_text = token_text.unwrap_or_default();
        let plain = matches!(token.token(), Token::Sconst | Token::Usconst)
            && !token_text.starts_with(['e', 'E', '$']);
        plain && token_text.contains('\\')
    };
    hides_quotes(text) || tokens.iter().any(escaped)
}

/// What a plain constant is where backslashes escape, as far as it consists of letters.
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

/// The character that an escape stands for, and its length behind the backslash.
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
