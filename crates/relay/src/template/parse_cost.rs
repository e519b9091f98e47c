//! Decides by the cost of parsing a text where it is parsed.
//!
//! The parser takes microseconds per token, and must not delay the event loop. So a short text is parsed at once. A longer
//! text is parsed on another thread ([`Templates::parse`](super::Templates::parse)). A text that is still longer, or made to
//! be slow, is not parsed: PostgreSQL executes it as it is, and before another client uses the connection, the session is
//! reset.

use paceline_sql::cost;

/// Maximum number of tokens of a text that is parsed at once.
const LOW_TOKENS_MAX: usize = 128;
/// Maximum number of bytes of a text that is parsed at once. Parsing it takes at most a millisecond.
const LOW_BYTES_MAX: usize = 16 * 1024;

/// Maximum number of tokens of a text that is parsed at all.
pub const TOKENS_MAX: usize = 16 * 1024;
/// Maximum number of bytes of a text that is parsed at all.
pub const BYTES_MAX: usize = 64 * 1024;

/// Maximum number of bytes that the parser reads again in a text that is parsed at all: nested comments, sequences of
/// operator characters.
const RESCANS_MAX: usize = 16 * 1024;

/// The cost of parsing a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParseCost {
    /// Any caller parses the text at once.
    Low,
    /// Only a caller that may block parses the text.
    High,
    /// The text is not parsed.
    TooHigh,
}

impl ParseCost {
    /// Takes as long as reading the text once.
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

/// Whether the caller may block while a text is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MayBlock {
    /// The caller runs on the event loop.
    No,
    Yes,
}

/// A text that the caller must give to [`Templates::parse`](super::Templates::parse) first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unparsed {
    pub(super) text: String,
    pub(super) goal: ParseGoal,
}

/// The result of the parser that the caller needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ParseGoal {
    /// The text without bare hints.
    Plain,
    /// The template of a simple query.
    Simple,
    /// The template of a prepared statement with these parameter types.
    Prepared(Vec<u8>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_depends_on_tokens_bytes_and_rescans() {
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
