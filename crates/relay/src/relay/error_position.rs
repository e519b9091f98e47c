//! Where a text that went to the server differs from the client's.

use std::ops::Range;

/// A text went to the server with another length up to some place in it. In characters, as errors count them.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextShift {
    /// Where what is not the client's ends, on the server.
    pub(super) from: i64,
    /// Where the text ends there. An error beyond it is in the text of the statement that is executed, which is sent in its place.
    pub(super) to: i64,
    /// So much further on it is in the client's text.
    pub(super) by: i64,
}

impl TextShift {
    /// `new` stands in the text in place of what is at `at`.
    pub(super) fn renamed(text: &str, at: &Range<usize>, new: &str) -> Self {
        let new = characters(Some(new));
        let by = characters(text.get(at.clone())) - new;
        // Without arguments nothing but the statement can be wrong.
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

    /// The place in the client's text of a place in the server's, both from 1.
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
