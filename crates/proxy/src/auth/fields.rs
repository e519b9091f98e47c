//! The fields of a line in `pg_hba.conf` and `pg_ident.conf`: spaces separate fields, commas separate the words of a field. Inside
//! double quotes, spaces, commas, `#` and keywords have no special meaning. `#` begins a comment.

use std::iter::Peekable;
use std::str::Chars;

/// A word of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldWord {
    /// The word without its quotes.
    pub(super) text: String,
    quoted: bool,
}

impl FieldWord {
    /// The word if it can be a keyword: a quoted word cannot.
    pub(super) fn keyword(&self) -> Option<&str> {
        (!self.quoted).then_some(self.text.as_str())
    }
}

/// Splits a line into fields, none of them empty.
pub(super) fn fields(line: &str) -> Result<Vec<Vec<FieldWord>>, String> {
    let mut fields: Vec<Vec<FieldWord>> = Vec::new();
    let mut chars = line.chars().peekable();
    let mut continues = false;
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        match chars.peek() {
            None | Some('#') => return Ok(fields),
            Some(',') => {
                chars.next();
                continues = true;
            }
            Some(_) => {
                let word = word(&mut chars)?;
                match fields.last_mut().filter(|_| continues) {
                    Some(list) => list.push(word),
                    None => fields.push(vec![word]),
                }
                continues = false;
            }
        }
    }
}

fn word(chars: &mut Peekable<Chars<'_>>) -> Result<FieldWord, String> {
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
        false => Ok(FieldWord { text, quoted }),
    }
}
