//! What an operator should know about a configuration that is valid. Remarks go to the log at the start, and to the answer of
//! `paceline check` and `paceline import`. None repeats a value: it might be a secret.

use std::fmt;

/// One thing to know, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remark {
    /// `file:line`, or the variable of the environment.
    place: String,
    text: String,
}

impl Remark {
    /// A remark about what is written at `place`.
    pub(super) fn new(place: impl Into<String>, text: impl Into<String>) -> Remark {
        Remark {
            place: place.into(),
            text: text.into(),
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.place, self.text)
    }
}
