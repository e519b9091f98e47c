//! What parsing a text costs decides where it is parsed: here, elsewhere, or not at all.
//!
//! The parser takes microseconds per token, and whoever carries messages for everybody must not be held up. So a short text is
//! parsed at once; a longer one when the caller can wait for it, on another thread ([`Templates::parse`]); and one that is
//! longer still, or made to take long, is not looked at: PostgreSQL carries it out as it is, and what it may have changed in
//! the session is undone before another client gets the connection.

use paceline_sql::cost;

/// A text of at most so many tokens …
const LOW_TOKENS_MAX: usize = 128;
/// … and bytes is parsed at once: in a millisecond.
const LOW_BYTES_MAX: usize = 16 * 1024;

/// A text of more tokens …
pub const TOKENS_MAX: usize = 16 * 1024;
/// … or bytes is not looked at.
pub const BYTES_MAX: usize = 64 * 1024;

/// Nor is one that makes the parser look at so many bytes again: nested comments, rows of operator characters.
const RESCANS_MAX: usize = 16 * 1024;

/// Where a text is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParseCost {
    /// By the caller, whoever it is.
    Low,
    /// By a caller that can wait.
    High,
    /// Nowhere.
    TooHigh,
}

impl ParseCost {
    /// For this text; takes as long as reading it once.
    pub(super) fn of(text: &str) -> Self {
        if text.len() > BYTES_MAX {
            return Self::TooHigh;
        }
        let cost = cost(text);
        if cost.tokens > TOKENS_MAX || cost.rescans > RESCANS_MAX {
            Self::TooHigh
        } else if cost.tokens > LOW_TOKENS_MAX || text.len() > LOW_BYTES_MAX {
            Self::High
        } else {
            Self::Low
        }
    }
}

/// Whether the caller can wait while a text is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MayBlock {
    /// It carries messages for everybody.
    No,
    /// It can.
    Yes,
}

/// A text that must be parsed elsewhere before anything can be said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unparsed {
    pub(super) text: String,
    pub(super) goal: ParseGoal,
}

/// What is to be found out about a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ParseGoal {
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
        for (text, cost) in [
            (String::new(), ParseCost::Low),
            (list(30), ParseCost::Low),
            (list(100), ParseCost::High),
            (list(TOKENS_MAX / 2 - 2), ParseCost::High),
            (list(TOKENS_MAX / 2), ParseCost::TooHigh),
            (format!("select '{}'", "x, ".repeat(1_000)), ParseCost::Low),
            (
                format!("select '{}'", "x, ".repeat(20_000)),
                ParseCost::High,
            ),
            (
                format!("select '{}'", "x, ".repeat(30_000)),
                ParseCost::TooHigh,
            ),
            ("/*".repeat(100) + &"*/".repeat(100), ParseCost::TooHigh),
            (
                format!("select 1 {} 1", "+".repeat(300)),
                ParseCost::TooHigh,
            ),
            (
                format!("/*{}*/ select 1", "*".repeat(9_000)),
                ParseCost::Low,
            ),
        ] {
            assert_eq!(ParseCost::of(&text), cost, "{} bytes", text.len());
        }
    }
}
