//! Takes a script apart: commands behind a backslash, and statements with the variables in them. Knows where PostgreSQL's
//! quotes and comments end, and nothing else of SQL.

/// An error and its line. The caller adds the name of the file.
pub(super) type Fault = (usize, String);

/// A part of a script.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// What stands behind a backslash, up to the end of the line.
    Command(String),
    /// A statement, without its semicolon.
    Sql(Vec<Token>),
}

/// A part of a statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Goes as it is.
    Text(String),
    /// `:name`
    Variable { line: usize, name: String },
}

/// Reads items from top to bottom.
pub(super) struct Scanner<'a> {
    rest: &'a str,
    line: usize,
}

/// What stands at the front of a statement's rest.
enum Lexeme<'a> {
    /// The semicolon, or the end of the script.
    End,
    /// The variable of this name.
    Variable(&'a str),
    /// So many bytes that go as they are.
    Verbatim(usize),
    /// So many bytes that go nowhere.
    Comment(usize),
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            rest: text,
            line: 1,
        }
    }

    /// The line that it has come to.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// The next item and its line.
    pub(super) fn next_item(&mut self) -> Result<Option<(usize, Item)>, Fault> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.take(blank);
            let line = self.line;
            match self.rest.chars().next() {
                None => return Ok(None),
                Some(';') => drop(self.take(1)),
                Some('\\') => return Ok(Some((line, Item::Command(self.command())))),
                Some(_) if self.rest.starts_with("--") => drop(self.take(to_line_end(self.rest))),
                Some(_) => return Ok(Some((line, Item::Sql(self.sql()?)))),
            }
        }
    }

    /// Goes on by so many bytes.
    fn take(&mut self, len: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(len).unwrap_or((self.rest, ""));
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    /// A line that ends with a backslash goes on in the next.
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

    fn sql(&mut self) -> Result<Vec<Token>, Fault> {
        let (mut tokens, mut text) = (Vec::new(), String::new());
        loop {
            let line = self.line;
            match lexeme(self.rest).map_err(|what| (line, what))? {
                Lexeme::Verbatim(len) => text.push_str(self.take(len)),
                Lexeme::Comment(len) => drop(self.take(len)),
                Lexeme::Variable(name) => {
                    self.take(1 + name.len());
                    tokens.push(Token::Text(std::mem::take(&mut text)));
                    let name = name.to_owned();
                    tokens.push(Token::Variable { line, name });
                }
                Lexeme::End => {
                    self.take(1);
                    tokens.push(Token::Text(text.trim_end().to_owned()));
                    return Ok(tokens);
                }
            }
        }
    }
}

fn lexeme(rest: &str) -> Result<Lexeme<'_>, String> {
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
        ('\'', _) => quoted(rest, '\'', false).ok_or("a quoted text does not end")?,
        ('"', _) => quoted(rest, '"', false).ok_or("a quoted name does not end")?,
        ('E' | 'e', Some('\'')) => 1 + escaped(rest).ok_or("a quoted text does not end")?,
        ('$', Some('0'..='9')) => {
            return Err("a parameter has no value here; write a variable, :name".to_owned());
        }
        ('$', _) => dollar_quoted(rest)?,
        ('\\', _) => {
            return Err(
                "a statement ends with ; before a command; \\gset and \\; are not understood"
                    .to_owned(),
            );
        }
        _ => match word(rest) {
            0 => first.len_utf8(),
            len => len,
        },
    };
    Ok(Lexeme::Verbatim(len))
}

/// The name at the front, if there is one.
pub(super) fn name(rest: &str) -> Option<&str> {
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = rest.get(..end.unwrap_or(rest.len()))?;
    let first = name.chars().next()?;
    (!first.is_numeric()).then_some(name)
}

fn to_line_end(rest: &str) -> usize {
    rest.find('\n').unwrap_or(rest.len())
}

/// Bytes of the name, key word or number at the front; a dollar within belongs to it.
fn word(rest: &str) -> usize {
    let inside = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    rest.find(|c| !inside(c)).unwrap_or(rest.len())
}

/// Bytes up to and with the closing quote. A doubled one is the end of one text and the beginning of another.
fn quoted(rest: &str, quote: char, escapes: bool) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    while let Some((place, c)) = chars.next() {
        match c {
            '\\' if escapes => drop(chars.next()),
            c if c == quote => return Some(place + 1),
            _ => {}
        }
    }
    None
}

/// The same behind an `E`.
fn escaped(rest: &str) -> Option<usize> {
    quoted(rest.get(1..)?, '\'', true)
}

/// Bytes of a comment and all comments in it.
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

/// Bytes of `$tag$ … $tag$`; a dollar alone is itself.
fn dollar_quoted(rest: &str) -> Result<usize, &'static str> {
    let inner = rest.get(1..).unwrap_or_default();
    let tag = name(inner).unwrap_or_default();
    let open = 1 + tag.len() + 1;
    if inner
        .get(tag.len()..)
        .is_none_or(|behind| !behind.starts_with('$'))
    {
        return Ok(1);
    }
    let quote = rest.get(..open).unwrap_or_default();
    let body = rest.get(open..).unwrap_or_default();
    let end = body
        .find(quote)
        .ok_or("a dollar-quoted text does not end")?;
    Ok(open + end + open)
}
