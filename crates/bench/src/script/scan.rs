//! The scanner: splits a script into commands after a backslash and SQL statements with variables. It knows where quotes
//! and comments of PostgreSQL end; it does not otherwise parse SQL.

use super::model::{Operand, Piece};

/// An error and its line. The caller adds the name of the file.
pub(super) type Fault = (usize, String);

/// An item of a script.
pub(super) enum Item {
    /// The text after a backslash, up to the end of the line.
    Command(String),
    /// A statement without its semicolon.
    Sql(Vec<Piece>),
}

/// The meaning of a variable's name, or why it has none.
pub(super) type Names<'a> = dyn Fn(&str) -> Result<Operand, String> + 'a;

/// Reads items from top to bottom.
pub(super) struct Scanner<'a> {
    rest: &'a str,
    line: usize,
}

/// The lexeme at the beginning of the remaining statement.
enum Lexeme<'a> {
    /// The semicolon or the end of the script.
    End,
    /// A variable of this name.
    Variable(&'a str),
    /// This number of bytes is sent unchanged.
    Verbatim(usize),
    /// This number of bytes is skipped.
    Comment(usize),
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            rest: text,
            line: 1,
        }
    }

    /// The current line.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// Returns the next item and its line.
    pub(super) fn next_item(&mut self, names: &Names<'_>) -> Result<Option<(usize, Item)>, Fault> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.take(blank);
            let line = self.line;
            match self.rest.chars().next() {
                None => return Ok(None),
                Some(';') => drop(self.take(1)),
                Some('\\') => return Ok(Some((line, Item::Command(self.command())))),
                Some(_) if self.rest.starts_with("--") => drop(self.take(to_line_end(self.rest))),
                Some(_) => return Ok(Some((line, Item::Sql(self.sql(names)?)))),
            }
        }
    }

    /// Advances by `len` bytes.
    fn take(&mut self, len: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(len).unwrap_or((self.rest, ""));
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    /// Reads a command. A line that ends with a backslash continues on the next line.
    fn command(&mut self) -> String {
        self.take(1);
        let mut command = String::new();
        loop {
            let line = self.take(to_line_end(self.rest)).trim_end();
            match line.strip_suffix('\\') {
                Some(line) if !self.rest.is_empty() => {
                    command.push_str(line);
                    command.push(' ');
                    self.take(1);
                }
                _ => return command + line,
            }
        }
    }

    fn sql(&mut self, names: &Names<'_>) -> Result<Vec<Piece>, Fault> {
        let (mut pieces, mut text) = (Vec::new(), String::new());
        loop {
            let line = self.line;
            let fault = |what: String| (line, what);
            match lexeme(self.rest).map_err(|what| fault(what.to_owned()))? {
                Lexeme::Verbatim(len) => text.push_str(self.take(len)),
                Lexeme::Comment(len) => drop(self.take(len)),
                Lexeme::Variable(name) => {
                    self.take(1 + name.len());
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                    pieces.push(Piece::Value(names(name).map_err(fault)?));
                }
                Lexeme::End => {
                    self.take(1);
                    pieces.push(Piece::Text(text.trim_end().to_owned()));
                    return Ok(pieces);
                }
            }
        }
    }
}

fn lexeme(rest: &str) -> Result<Lexeme<'_>, &'static str> {
    let mut chars = rest.chars();
    let (Some(first), second) = (chars.next(), chars.next()) else {
        return Ok(Lexeme::End);
    };
    let len = match (first, second) {
        (';', _) => return Ok(Lexeme::End),
        ('-', Some('-')) => return Ok(Lexeme::Comment(to_line_end(rest))),
        (':', Some(':')) => rest.len() - rest.trim_start_matches(':').len(),
        (':', _) => match rest.get(1..).and_then(name) {
            Some(name) => return Ok(Lexeme::Variable(name)),
            None => 1,
        },
        ('/', Some('*')) => comment(rest).ok_or("a comment does not end")?,
        ('\'', _) => quoted(rest, 1, false).ok_or("a quoted text does not end")?,
        ('"', _) => quoted(rest, 1, false).ok_or("a quoted name does not end")?,
        ('E' | 'e', Some('\'')) => quoted(rest, 2, true).ok_or("a quoted text does not end")?,
        ('$', Some('0'..='9')) => {
            return Err("a parameter has no value here; write a variable, :name");
        }
        ('$', _) => dollar_quoted(rest).ok_or("a dollar-quoted text does not end")?,
        ('\\', _) => {
            return Err(
                "a statement ends with ; before a command; \\gset and \\; are not understood",
            );
        }
        // A name, key word or number; it may contain a dollar sign.
        _ => match prefix(rest, |c| c.is_alphanumeric() || c == '_' || c == '$') {
            "" => first.len_utf8(),
            word => word.len(),
        },
    };
    Ok(Lexeme::Verbatim(len))
}

fn prefix(rest: &str, is_part: fn(char) -> bool) -> &str {
    let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

/// The name at the beginning, if there is one.
pub(super) fn name(rest: &str) -> Option<&str> {
    let name = prefix(rest, |c| c.is_alphanumeric() || c == '_');
    let first = name.chars().next()?;
    (!first.is_numeric()).then_some(name)
}

fn to_line_end(rest: &str) -> usize {
    rest.find('\n').unwrap_or(rest.len())
}

/// Length in bytes up to and including the closing quote; the opening one is the last of the first `start` bytes. A doubled
/// quote ends one text and begins the next.
fn quoted(rest: &str, start: usize, escapes: bool) -> Option<usize> {
    let (open, inner) = rest.split_at_checked(start)?;
    let quote = open.chars().next_back()?;
    let mut chars = inner.char_indices();
    while let Some((place, c)) = chars.next() {
        match c {
            '\\' if escapes => drop(chars.next()),
            c if c == quote => return Some(start + place + 1),
            _ => {}
        }
    }
    None
}

/// Length in bytes of a comment, including nested comments.
fn comment(rest: &str) -> Option<usize> {
    let (mut at, mut depth) = (2, 1);
    while depth > 0 {
        let inner = rest.get(at..)?;
        let (open, close) = (inner.find("/*"), inner.find("*/")?);
        match open {
            Some(open) if open < close => (at, depth) = (at + open + 2, depth + 1),
            _ => (at, depth) = (at + close + 2, depth - 1),
        }
    }
    Some(at)
}

/// Length in bytes of `$tag$ … $tag$`; 1 for a single dollar sign.
fn dollar_quoted(rest: &str) -> Option<usize> {
    let inner = rest.get(1..)?;
    let tag = name(inner).unwrap_or_default();
    if !inner.get(tag.len()..)?.starts_with('$') {
        return Some(1);
    }
    let (quote, body) = rest.split_at_checked(tag.len() + 2)?;
    Some(body.find(quote)? + 2 * quote.len())
}
