//! The fields of a line in `pg_hba.conf` and `pg_ident.conf`: spaces separate fields, commas separate the words of a field. Inside
//! double quotes, spaces, commas, `#` and keywords have no special meaning. `#` begins a comment.

use std::iter::Peekable;
use std::str::Chars;

/// A word of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// The word without its quotes.
    pub(super) text: String,
    quoted: bool,
}

impl Token {
    /// The word if it can be a keyword: a quoted word cannot.
    pub(super) fn keyword(&self) -> Option<&str> {
        (!self.quoted).then_some(self.text.as_str())
    }
}

/// Splits a line into fields, none of them empty.
pub(super) fn fields(line: &str) -> Result<Vec<Vec<Token>>, String> {
    let mut fields: Vec<Vec<Token>> = Vec::new();
    let mut chars = line.chars().peekable();
    let mut goes_on = false;
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        match chars.peek() {
            None | Some('#') => return Ok(fields),
            Some(',') => {
                chars.next();
                goes_on = true;
            }
            Some(_) => {
                let token = token(&mut chars)?;
                match fields.last_mut().filter(|_| goes_on) {
                    Some(list) => list.push(token),
                    None => fields.push(vec![token]),
                }
                goes_on = false;
            }
        }
    }
}

fn token(chars: &mut Peekable<Chars<'_>>) -> Result<Token, String> {
    let quoted = chars.peek() == Some(&'"');
    let (mut text, mut inside) = (String::new(), false);
    while let Some(c) = chars.next_if(|&c| inside || !(c.is_whitespace() || c == ',' || c == '#')) {
        match c {
            '"' if inside && chars.next_if_eq(&'"').is_some() => text.push('"'),
            '"' => inside = !inside,
            c => text.push(c),
        }
    }
    match inside {
        true => Err("a double quote is not closed".to_owned()),
        false => Ok(Token { text, quoted }),
    }
}
