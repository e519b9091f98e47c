//! What parsing a text costs decides where it is parsed: here, elsewhere, or not at all.
//!
//! The parser takes microseconds per token, and whoever carries messages for everybody must not be held up. So a short text is
//! parsed at once; a longer one when the caller can wait for it, on another thread ([`Templates::parse`]); and one that is
//! longer still, or made to take long, is not looked at: PostgreSQL carries it out as it is, and what it may have changed in
//! the session is undone before another client gets the connection.

use paceline_sql::cost;

/// A text of at most so many tokens …
const HERE_TOKENS_MAX: usize = 128;
/// … and bytes is parsed at once: in a millisecond.
const HERE_BYTES_MAX: usize = 16 * 1024;

/// A text of more tokens …
pub const TOKENS_MAX: usize = 16 * 1024;
/// … or bytes is not looked at.
pub const BYTES_MAX: usize = 64 * 1024;

/// Nor is one that makes the parser look at so many bytes again: nested comments, rows of operator characters.
const RESCANS_MAX: usize = 16 * 1024;

/// Where a text is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// By the caller, whoever it is.
    Here,
    /// By a caller that can wait.
    Elsewhere,
    /// Nowhere.
    Nowhere,
}

impl Place {
    /// For this text; takes as long as reading it once.
    pub(super) fn of(text: &str) -> Self {
        if text.len() > BYTES_MAX {
            return Self::Nowhere;
        }
        let cost = cost(text);
        if cost.tokens > TOKENS_MAX || cost.rescans > RESCANS_MAX {
            Self::Nowhere
        } else if cost.tokens > HERE_TOKENS_MAX || text.len() > HERE_BYTES_MAX {
            Self::Elsewhere
        } else {
            Self::Here
        }
    }
}

/// Whether the caller can wait while a text is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// It carries messages for everybody.
    CannotWait,
    /// It can.
    Waits,
}

/// A text that must be parsed elsewhere before anything can be said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unparsed {
    pub(super) text: String,
    pub(super) what: What,
}

/// What is to be found out about a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// The text without bare hints.
    Plain,
    /// The template of a simple query.
    Simple,
    /// The template of a prepared text, with its parameter types.
    Prepared(Vec<u8>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_is_parsed_here_and_what_is_made_to_take_long_nowhere() {
        let list = |n: usize| format!("select 1{}", ", 1".repeat(n));
        for (text, place) in [
            (String::new(), Place::Here),
            (list(30), Place::Here),
            (list(100), Place::Elsewhere),
            (list(TOKENS_MAX / 2 - 2), Place::Elsewhere),
            (list(TOKENS_MAX / 2), Place::Nowhere),
            (format!("select '{}'", "x, ".repeat(1_000)), Place::Here),
            (
                format!("select '{}'", "x, ".repeat(20_000)),
                Place::Elsewhere,
            ),
            (format!("select '{}'", "x, ".repeat(30_000)), Place::Nowhere),
            ("/*".repeat(100) + &"*/".repeat(100), Place::Nowhere),
            (format!("select 1 {} 1", "+".repeat(300)), Place::Nowhere),
            (format!("/*{}*/ select 1", "*".repeat(9_000)), Place::Here),
        ] {
            assert_eq!(Place::of(&text), place, "{} bytes", text.len());
        }
    }
}
