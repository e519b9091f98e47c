//! Texts that begin or end a transaction, recognized word by word without the parser: they are short and frequent.
//!
//! A text that is not recognized is not known to be anything else: it may have comments, or a form that is rare.

#[cfg(test)]
mod tests;

/// A `BEGIN` or `START TRANSACTION` that is alone in its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Begin {
    /// `START TRANSACTION`, which has its own command tag.
    pub starts: bool,
    /// `READ ONLY`.
    pub read_only: bool,
    /// `ISOLATION LEVEL READ COMMITTED`.
    pub read_committed: bool,
}

impl Begin {
    /// PostgreSQL's command tag.
    pub fn command(self) -> &'static str {
        match self.starts {
            true => "START TRANSACTION",
            false => "BEGIN",
        }
    }
}

/// The command with which a text ends its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionEnd {
    /// `COMMIT` or `END`.
    Commit,
    /// `ROLLBACK` or `ABORT`.
    Rollback,
}

impl TransactionEnd {
    /// PostgreSQL's command tag. The transaction may have failed before.
    pub fn command(self, failed: bool) -> &'static str {
        match (self, failed) {
            (Self::Commit, false) => "COMMIT",
            (Self::Commit, true) | (Self::Rollback, _) => "ROLLBACK",
        }
    }
}

/// Recognizes a text that begins a transaction of the isolation level READ COMMITTED or of the default level, and that is not
/// explicitly READ WRITE.
pub fn begins_alone(text: &str) -> Option<Begin> {
    let text = plain(text)?;
    let words: Vec<&str> = words(&text).collect();
    let mut modes = match words.as_slice() {
        ["begin", "work" | "transaction", modes @ ..]
        | ["begin", modes @ ..]
        | ["start", "transaction", modes @ ..] => modes,
        _ => return None,
    };
    let mut begin = Begin {
        starts: words.first() == Some(&"start"),
        ..Begin::default()
    };
    while !modes.is_empty() {
        let rest = match modes {
            ["read", "only", rest @ ..] => {
                begin.read_only = true;
                rest
            }
            ["not", "deferrable", rest @ ..] => rest,
            ["isolation", "level", "read", "committed", rest @ ..] => {
                begin.read_committed = true;
                rest
            }
            _ => return None,
        };
        // A comma may separate two modes.
        modes = match rest {
            [",", rest @ ..] if !rest.is_empty() => rest,
            rest => rest,
        };
    }
    Some(begin)
}

/// Recognizes a text that only ends a transaction.
pub fn ends_alone(text: &str) -> Option<TransactionEnd> {
    let text = plain(text)?;
    let words: Vec<&str> = words(&text).collect();
    let (end, rest) = match words.as_slice() {
        ["commit" | "end", rest @ ..] => (TransactionEnd::Commit, rest),
        ["rollback" | "abort", rest @ ..] => (TransactionEnd::Rollback, rest),
        _ => return None,
    };
    let rest = match rest {
        ["work" | "transaction", rest @ ..] => rest,
        rest => rest,
    };
    matches!(rest, [] | ["and", "no", "chain"]).then_some(end)
}

/// Maximum number of bytes of a text that is examined.
const TEXT_BYTES_MAX: usize = 200;

/// The text in lower case, without semicolons at its end, and with spaces around commas. `None` if it has other characters.
fn plain(text: &str) -> Option<String> {
    let is_part = |c: char| c.is_ascii_alphabetic() || c == ',' || is_space(c);
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let text = text.trim_end_matches(|c| c == ';' || is_space(c));
    let fits = text.chars().all(is_part);
    fits.then(|| text.to_ascii_lowercase().replace(',', " , "))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// White space in every version of PostgreSQL. (Version 16 added the vertical tab.)
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}
