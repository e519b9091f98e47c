//! The cost of parsing a text, determined by a byte scan whose time is linear for any text.
//!
//! The parser takes some microseconds for each token, and its lexer scans some bytes repeatedly: each token in a
//! sequence of operator characters, and each `/*` in a comment, makes it scan the rest of the sequence. So a few
//! kilobytes of nested comments take seconds. This scan follows the states of PostgreSQL's `scan.l` (with
//! `standard_conforming_strings` on, as `pg_query` runs it), so that both agree about which bytes belong to a string.
//! Within a state it counts too much rather than too little. After a lexical error its result does not matter,
//! because the parser stops there.

#[cfg(test)]
mod tests;

use crate::lexis::{continuation, continues_identifier, end_of_line, is_space, starts_identifier};

/// The cost of parsing a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// Upper bound of the number of tokens, comments included.
    pub tokens: usize,
    /// Upper bound of the number of bytes that the lexer scans again.
    pub rescans: usize,
    /// Whether a token other than a comment follows a semicolon.
    pub several: bool,
}

/// Operator characters (`op_chars` in `scan.l`).
fn is_operator(byte: u8) -> bool {
    b"~!@#^&|`?+-*/%<>=".contains(&byte)
}

/// Returns the cost of parsing this text.
pub fn cost(text: &str) -> Cost {
    let mut scan = Scan {
        bytes: text.as_bytes(),
        at: 0,
        operators_end: 0,
        ended: false,
        cost: Cost::default(),
    };
    while let Some(byte) = scan.byte() {
        scan.token(byte);
    }
    scan.cost
}

/// The end of a quoted string.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoted {
    /// At a quote that is not doubled.
    Plain,
    /// Likewise; a backslash escapes the next character (`E''`).
    Escapes,
    /// At the next quote (`B''`, `X''`).
    Digits,
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    /// End of the last sequence of operator characters that was scanned.
    operators_end: usize,
    /// Whether a statement has ended.
    ended: bool,
    cost: Cost,
}

impl Scan<'_> {
    fn byte(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn begins(&self, with: &[u8]) -> bool {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        rest.starts_with(with)
    }

    /// Skips bytes that satisfy the condition.
    fn skip(&mut self, condition: impl Fn(u8) -> bool) {
        while self.byte().is_some_and(&condition) {
            self.at += 1;
        }
    }

    fn token(&mut self, byte: u8) {
        if is_space(byte) {
            self.at += 1;
            return;
        }
        self.cost.tokens += 1;
        if self.begins(b"--") {
            self.at = end_of_line(self.bytes, self.at);
            return;
        }
        if self.begins(b"/*") {
            return self.comment();
        }
        self.cost.several |= self.ended && byte != b';';
        match byte {
            b';' => {
                self.ended = true;
                self.at += 1;
            }
            b'\'' => self.quoted(b'\'', Quoted::Plain),
            b'"' => self.quoted(b'"', Quoted::Plain),
            b'$' => self.dollar(),
            b'0'..=b'9' => self.skip(|byte| byte.is_ascii_digit()),
            _ if starts_identifier(byte) => self.word(byte),
            _ if is_operator(byte) => {
                self.count_rescan();
                self.at += 1;
            }
            _ => self.at += 1,
        }
    }

    /// Counts the rest of the sequence of operator characters, which the lexer scans.
    fn count_rescan(&mut self) {
        if self.operators_end <= self.at {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let len = rest.iter().take_while(|byte| is_operator(**byte)).count();
            self.operators_end = self.at + len;
        }
        self.cost.rescans += self.operators_end - self.at;
    }

    /// Skips a comment. Comments nest. Each start of a comment counts, because the lexer stops there.
    fn comment(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.byte() {
            if self.begins(b"/*") {
                self.count_rescan();
                self.cost.tokens += 1;
                depth += 1;
                self.at += 2;
            } else if self.begins(b"*/") {
                depth -= 1;
                self.at += 2;
                if depth == 0 {
                    return;
                }
            } else {
                // Skips a sequence of other characters at once; the last star may belong to the end of the comment.
                self.at += 1;
                if byte == b'*' {
                    continue;
                }
                self.skip(|byte| byte != b'*' && byte != b'/');
            }
        }
    }

    /// Skips a quoted identifier or a string, including its continuation on another line.
    fn quoted(&mut self, quote: u8, kind: Quoted) {
        loop {
            self.at += 1;
            self.skip_to_quote(quote, kind);
            match continuation(self.bytes, self.at) {
                Some(at) if quote == b'\'' => self.at = at,
                _ => return,
            }
        }
    }

    /// Skips to the byte after the closing quote.
    fn skip_to_quote(&mut self, quote: u8, kind: Quoted) {
        while let Some(byte) = self.byte() {
            self.at += 1;
            match (byte, kind) {
                (b'\\', Quoted::Escapes) => self.at += 1,
                (byte, Quoted::Digits) if byte == quote => return,
                (byte, _) if byte == quote && self.byte() == Some(quote) => self.at += 1,
                (byte, _) if byte == quote => return,
                _ => {}
            }
        }
    }

    /// Skips a word, or a string with a prefix.
    fn word(&mut self, first: u8) {
        let second = self.bytes.get(self.at + 1).copied();
        let third = self.bytes.get(self.at + 2).copied();
        match (first | 0x20, second, third) {
            (b'e', Some(b'\''), _) => {
                self.at += 1;
                self.quoted(b'\'', Quoted::Escapes);
            }
            (b'b' | b'x', Some(b'\''), _) => {
                self.at += 1;
                self.quoted(b'\'', Quoted::Digits);
            }
            (b'u', Some(b'&'), Some(quote @ (b'\'' | b'"'))) => {
                self.at += 2;
                self.quoted(quote, Quoted::Plain);
            }
            _ => self.skip(continues_identifier),
        }
    }

    /// Skips a string in dollar quotes, a parameter, or a single dollar sign.
    fn dollar(&mut self) {
        let start = self.at;
        self.at += 1;
        if self.byte().is_some_and(starts_identifier) {
            self.skip(|byte| continues_identifier(byte) && byte != b'$');
        }
        if self.byte() != Some(b'$') {
            // The lexer returns the dollar sign alone.
            self.at = start + 1;
            return;
        }
        self.at += 1;
        let delimiter = self.bytes.get(start..self.at).unwrap_or_default();
        while self.at < self.bytes.len() {
            self.skip(|byte| byte != b'$');
            if self.begins(delimiter) {
                self.at += delimiter.len();
                return;
            }
            self.at += 1;
        }
    }
}
