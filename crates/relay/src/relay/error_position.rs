//! The positions that errors report, if the text on the server differs from the client's.

use std::ops::Range;

/// Describes a text whose length differs from the client's text up to some position. All positions count characters, as
/// errors do.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextShift {
    /// On the server, the end of the part that differs.
    pub(super) from: i64,
    /// On the server, the end of the text. A later position refers to the text of the prepared statement, which is
    /// unchanged.
    pub(super) to: i64,
    /// The number to add to a position on the server.
    pub(super) by: i64,
}

impl TextShift {
    /// `new` replaces the characters of `text` at `at`.
    pub(super) fn renamed(text: &str, at: &Range<usize>, new: &str) -> Self {
        let new = characters(Some(new));
        let by = characters(text.get(at.clone())) - new;
        // Without arguments, an error can only be in the prepared statement.
        let arguments = text.get(at.end..).is_some_and(|rest| rest.contains('('));
        let end = if arguments {
            characters(Some(text)) - by
        } else {
            0
        };
        Self {
            from: characters(text.get(..at.start)) + new,
            to: end,
            by,
        }
    }

    /// The position in the client's text for a position on the server. Both begin at 1.
    pub(super) fn back(self, position: i64) -> i64 {
        match position > self.from && position <= self.to {
            true => position + self.by,
            false => position,
        }
    }
}

fn characters(text: Option<&str>) -> i64 {
    let count = text.map_or(0, |text| text.chars().count());
    i64::try_from(count).unwrap_or_default()
}
