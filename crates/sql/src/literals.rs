//! The template of a statement: its text with parameters in place of literals.
//!
//! This is a byte scan that follows PostgreSQL's `scan.l`. It knows tokens, not the grammar: it also replaces
//! literals where a parameter is not allowed (`date '2024-01-01'`, `varchar(10)`) or has another meaning (`ORDER BY
//! 1`). Parsing the template, which happens once, detects both: the former does not parse, and
//! [`Statement::needs_constants`](crate::Statement::needs_constants) marks the latter.

#[cfg(test)]
mod tests;

use crate::lexis::{
    continuation, continues_identifier, end_of_block_comment, end_of_line, is_space,
};

/// Maximum number of parameters: a Bind message counts them in 16 bits.
const LITERALS_MAX: usize = 65_535;

/// The type that PostgreSQL gives a literal before the context determines another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LiteralKind {
    /// `3`
    Int4,
    /// `3000000000`
    Int8,
    /// `1.5`, `1e3`, or an integer too large for `int8`
    Numeric,
    /// `'x'`: the context determines its type
    Unknown,
}

/// A literal that a parameter replaced.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Literal {
    /// The type that PostgreSQL gives the literal.
    pub kind: LiteralKind,
    /// The value as a text-format parameter: `'it''s'` is `it's`.
    pub text: String,
}

/// A text whose literals were replaced by parameters.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Normalized {
    /// The text with `$1`, `$2`, … in place of the literals. All other bytes are unchanged.
    pub text: String,
    /// The literals, in the order of their parameters.
    pub literals: Vec<Literal>,
}

/// Whether a text may have literals: faster than [`take_out_literals`], which finds none in the other texts.
pub fn may_have_literals(sql: &str) -> bool {
    sql.bytes()
        .any(|byte| byte.is_ascii_digit() || byte == b'\'')
}

/// Replaces the literals in a text of one statement by parameters.
///
/// Returns `None` if that is not safe: the text contains parameters or dollar quotes, strings with a prefix (`E''`,
/// `U&''`, `B''`, `X''`, `N''`), a backslash in a plain string while `standard_conforming_strings` is off, a string
/// that continues on another line, an unterminated token, a number whose meaning depends on the server's version
/// (`0x10`, `1_000`, `1a`), `2147483648` or `9223372036854775808` after a minus sign (PostgreSQL applies the sign and
/// chooses a smaller type), a literal directly next to a word (`date'…'`), more than one statement (a trailing `;` is
/// allowed), or more literals than a Bind message can carry.
pub fn take_out_literals(sql: &str, standard_conforming_strings: bool) -> Option<Normalized> {
    let mut normal = Normalized {
        text: String::with_capacity(sql.len() + 8),
        literals: Vec::new(),
    };
    Lexer::new(sql, standard_conforming_strings, &mut normal).run()?;
    Some(normal)
}

/// As [`take_out_literals`], but reuses the memory of `normal`, and leaves the texts of the literals empty. Returns false instead of
/// `None`.
pub fn take_out_kinds(
    sql: &str,
    standard_conforming_strings: bool,
    normal: &mut Normalized,
) -> bool {
    normal.text.clear();
    normal.literals.clear();
    let mut lexer = Lexer::new(sql, standard_conforming_strings, normal);
    lexer.keeps_texts = false;
    lexer.run().is_some()
}

/// Each method that reads a token takes the position of its first byte and returns the position after it.
struct Lexer<'a> {
    sql: &'a str,
    bytes: &'a [u8],
    /// End of the part of the text that was copied.
    copied: usize,
    /// First byte of the last token that was neither white space nor a comment; 0 at the start.
    last: u8,
    standard_conforming_strings: bool,
    /// Whether the literals get their texts.
    keeps_texts: bool,
    normal: &'a mut Normalized,
}

impl<'a> Lexer<'a> {
    fn new(sql: &'a str, standard_conforming_strings: bool, normal: &'a mut Normalized) -> Self {
        Self {
            sql,
            bytes: sql.as_bytes(),
            copied: 0,
            last: 0,
            standard_conforming_strings,
            keeps_texts: true,
            normal,
        }
    }

    /// Reads the text, which must be one statement.
    fn run(&mut self) -> Option<()> {
        let mut at = 0;
        let mut has_ended = false;
        while let Some(&byte) = self.bytes.get(at) {
            match byte {
                byte if is_space(byte) => {
                    at += 1;
                    continue;
                }
                b'-' if self.byte(at + 1) == b'-' => {
                    at = end_of_line(self.bytes, at);
                    continue;
                }
                b'/' if self.byte(at + 1) == b'*' => {
                    at = end_of_block_comment(self.bytes, at)?;
                    continue;
                }
                b';' => has_ended = true,
                _ if has_ended => return None,
                _ => {}
            }
            at = self.token(byte, at)?;
            self.last = byte;
        }
        self.normal.text.push_str(self.sql.get(self.copied..)?);
        Some(())
    }

    /// Reads one token, or one byte of an operator. Comments end operators, so that single bytes are sufficient.
    #[inline]
    fn token(&mut self, byte: u8, at: usize) -> Option<usize> {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => self.identifier(byte, at),
            b'\'' => self.string(at),
            b'"' => self.quoted_identifier(at),
            b'0'..=b'9' => self.number(at),
            b'.' if self.byte(at + 1).is_ascii_digit() => self.number(at),
            b'.' if self.byte(at + 1) == b'.' => Some(at + 2),
            b'$' | 0 => None,
            _ => Some(at + 1),
        }
    }

    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    #[inline]
    fn identifier(&self, first: u8, at: usize) -> Option<usize> {
        match first | 0x20 {
            b'e' | b'b' | b'x' | b'n' if self.byte(at + 1) == b'\'' => return None,
            b'u' if self.byte(at + 1) == b'&' && matches!(self.byte(at + 2), b'\'' | b'"') => {
                return None;
            }
            _ => {}
        }
        let rest = self.bytes.get(at + 1..).unwrap_or_default();
        let len = rest.iter().position(|&byte| !continues_identifier(byte));
        Some(at + 1 + len.unwrap_or(rest.len()))
    }

    fn quoted_identifier(&self, start: usize) -> Option<usize> {
        let (end, _) = end_of_quoted(self.bytes, start)?;
        let is_empty = end - start == 2;
        (!is_empty).then_some(end)
    }

    fn string(&mut self, start: usize) -> Option<usize> {
        let (end, doubled) = end_of_quoted(self.bytes, start)?;
        let inner = self.sql.get(start + 1..end - 1)?;
        if !self.standard_conforming_strings && inner.contains('\\') {
            return None;
        }
        if continuation(self.bytes, end).is_some() {
            return None;
        }
        let text = match doubled {
            _ if !self.keeps_texts => String::new(),
            true => inner.replace("''", "'"),
            false => inner.to_owned(),
        };
        self.take_out(start, end, LiteralKind::Unknown, text)
    }

    fn number(&mut self, start: usize) -> Option<usize> {
        let (end, is_integer) = end_of_number(self.bytes, start);
        let text = self.sql.get(start..end)?;
        let kind = match is_integer {
            // Ten digits may be too many.
            true if text.len() < 10 => LiteralKind::Int4,
            true => integer_kind(text),
            false => LiteralKind::Numeric,
        };
        if self.last == b'-' && is_integer {
            let magnitude = text.trim_start_matches('0');
            if magnitude == "2147483648" || magnitude == "9223372036854775808" {
                return None;
            }
        }
        let text = match self.keeps_texts {
            true => text.to_owned(),
            false => String::new(),
        };
        self.take_out(start, end, kind, text)
    }

    /// Replaces the bytes from `start` to `end` by the next parameter.
    fn take_out(
        &mut self,
        start: usize,
        end: usize,
        kind: LiteralKind,
        text: String,
    ) -> Option<usize> {
        let follows_word = start > 0 && continues_identifier(self.byte(start - 1));
        if follows_word
            || continues_identifier(self.byte(end))
            || self.normal.literals.len() == LITERALS_MAX
        {
            return None;
        }
        let Normalized {
            text: template,
            literals,
        } = &mut *self.normal;
        template.push_str(self.sql.get(self.copied..start)?);
        literals.push(Literal { kind, text });
        template.push('$');
        push_decimal(template, literals.len());
        self.copied = end;
        Some(end)
    }
}

/// For a quoted string or identifier at `start`: the position after its closing quote, and whether it contains a
/// doubled quote.
fn end_of_quoted(bytes: &[u8], start: usize) -> Option<(usize, bool)> {
    let quote = *bytes.get(start)?;
    let mut doubled = false;
    let mut at = start + 1;
    loop {
        let rest = bytes.get(at..)?;
        let closing = at + rest.iter().position(|&byte| byte == quote || byte == 0)?;
        if bytes.get(closing) == Some(&0) {
            return None;
        }
        if bytes.get(closing + 1) != Some(&quote) {
            return Some((closing + 1, doubled));
        }
        doubled = true;
        at = closing + 2;
    }
}

/// The end of the number at `start`, and whether it consists of digits only. The caller rejects other characters
/// after it.
fn end_of_number(bytes: &[u8], start: usize) -> (usize, bool) {
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut end = digits(start);
    let mut is_integer = true;
    // `1..2` is a range: the number ends before both dots.
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1) != Some(&b'.') {
        is_integer = false;
        end = digits(end + 1);
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = end + 1 + sign;
        if digits(exponent) > exponent {
            is_integer = false;
            end = digits(exponent);
        }
    }
    (end, is_integer)
}

/// The type that PostgreSQL gives a number, perhaps with a sign.
pub(crate) fn integer_kind(number: &str) -> LiteralKind {
    match number {
        _ if number.parse::<i32>().is_ok() => LiteralKind::Int4,
        _ if number.parse::<i64>().is_ok() => LiteralKind::Int8,
        _ => LiteralKind::Numeric,
    }
}

fn push_decimal(text: &mut String, number: usize) {
    if number >= 10 {
        push_decimal(text, number / 10);
    }
    let digit = u32::try_from(number % 10).ok();
    text.extend(digit.and_then(|digit| char::from_digit(digit, 10)));
}
