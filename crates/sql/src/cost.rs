//! What it will cost to parse a text, told by a byte scan that is linear whatever the text.
//!
//! The parser takes some microseconds per token, and its lexer looks at some bytes again and again: each token in a run of
//! operator characters, and each `/*` within a comment, makes it look at the rest of the run. So a few kilobytes of nested
//! comments take seconds. This scan follows the modes of PostgreSQL's `scan.l` (with `standard_conforming_strings`, as the
//! parser is called), so that nothing can hide from it in what is a string for one of the two and not for the other. Within a
//! mode it counts too much rather than too little. What it makes of a text behind a lexical error does not matter: the parser
//! stops there.

#[cfg(test)]
mod tests;

/// What a text costs to parse.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// At least the number of its tokens, comments included.
    pub tokens: usize,
    /// At least the number of bytes that the lexer looks at again.
    pub rescans: usize,
    /// Something other than comments follows a semicolon.
    pub several: bool,
}

/// Characters of operators (`op_chars`).
fn is_operator(byte: u8) -> bool {
    b"~!@#^&|`?+-*/%<>=".contains(&byte)
}

fn starts_identifier(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn continues_identifier(byte: u8) -> bool {
    starts_identifier(byte) || byte.is_ascii_digit() || byte == b'$'
}

/// What it costs to parse this text.
pub fn cost(text: &str) -> Cost {
    let mut scan = Scan {
        bytes: text.as_bytes(),
        at: 0,
        run_end: 0,
        ended: false,
        cost: Cost::default(),
    };
    while let Some(byte) = scan.byte() {
        scan.token(byte);
    }
    scan.cost
}

/// What ends a string.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoted {
    /// A quote that is not doubled.
    Plain,
    /// The same; a backslash hides what is behind it (`E''`).
    Escapes,
    /// The next quote (`B''`, `X''`).
    Digits,
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the run of operator characters ends that was looked at last.
    run_end: usize,
    /// A statement has ended.
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

    /// Goes on as long as bytes are such.
    fn skip(&mut self, is_such: impl Fn(u8) -> bool) {
        while self.byte().is_some_and(&is_such) {
            self.at += 1;
        }
    }

    fn token(&mut self, byte: u8) {
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c) {
            self.at += 1;
            return;
        }
        self.cost.tokens += 1;
        if self.begins(b"--") {
            return self.skip(|byte| byte != b'\n' && byte != b'\r');
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
                self.look_again();
                self.at += 1;
            }
            _ => self.at += 1,
        }
    }

    /// The lexer looks at the rest of the run of operator characters.
    fn look_again(&mut self) {
        if self.run_end <= self.at {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let len = rest.iter().take_while(|byte| is_operator(**byte)).count();
            self.run_end = self.at + len;
        }
        self.cost.rescans += self.run_end - self.at;
    }

    /// Comments nest. Each that begins is counted, as the lexer stops there.
    fn comment(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.byte() {
            if self.begins(b"/*") {
                self.look_again();
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
                // A run of one kind is taken at once; the last star of a run may belong to the comment's end.
                self.at += 1;
                if byte == b'*' {
                    continue;
                }
                self.skip(|byte| byte != b'*' && byte != b'/');
            }
        }
    }

    /// A name in quotes, or a string; what continues it on another line is of its kind. Stops behind it.
    fn quoted(&mut self, quote: u8, kind: Quoted) {
        loop {
            self.at += 1;
            self.skip_to_quote(quote, kind);
            match self.continued() {
                Some(at) if quote == b'\'' => self.at = at,
                _ => return,
            }
        }
    }

    /// Stops behind the quote that ends it.
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

    /// Where the string that ends here goes on, if it does (`'a'⏎'b'` is one string; block comments may not stand between).
    fn continued(&self) -> Option<usize> {
        let mut rest = Self {
            bytes: self.bytes,
            at: self.at,
            run_end: 0,
            ended: false,
            cost: Cost::default(),
        };
        let mut new_line = false;
        loop {
            match rest.byte()? {
                b'\n' | b'\r' => new_line = true,
                b' ' | b'\t' | 0x0b | 0x0c => {}
                b'-' if rest.begins(b"--") => {
                    rest.skip(|byte| byte != b'\n' && byte != b'\r');
                    continue;
                }
                b'\'' if new_line => return Some(rest.at),
                _ => return None,
            }
            rest.at += 1;
        }
    }

    /// A word, or the prefix of a string.
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

    /// A string in dollar quotes, a parameter, or nothing that is known.
    fn dollar(&mut self) {
        let start = self.at;
        self.at += 1;
        if self.byte().is_some_and(starts_identifier) {
            self.skip(|byte| continues_identifier(byte) && byte != b'$');
        }
        if self.byte() != Some(b'$') {
            // The lexer takes the dollar sign alone.
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
