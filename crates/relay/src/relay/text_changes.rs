//! The changes of the session by a text, statement by statement.

use paceline_sql::SessionChange;

/// The changes of the statements of a text that have not completed.
#[derive(Debug, Default)]
pub(super) struct TextChanges(std::vec::IntoIter<SessionChange>);

impl TextChanges {
    /// Takes the changes of the text's next statement.
    pub(super) fn take_next(&mut self) -> Vec<SessionChange> {
        let more = self.0.by_ref();
        more.take_while(|change| *change != SessionChange::Next)
            .collect()
    }

    pub(super) fn left(&self) -> &[SessionChange] {
        self.0.as_slice()
    }
}

impl From<Vec<SessionChange>> for TextChanges {
    fn from(changes: Vec<SessionChange>) -> Self {
        Self(changes.into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_statement_has_its_own_changes() {
        use SessionChange::{DiscardAll, Next, ResetAll};
        let mut changes = TextChanges::from(vec![ResetAll, Next, Next, DiscardAll, ResetAll]);
        assert_eq!(changes.take_next(), [ResetAll]);
        assert_eq!(changes.take_next(), []);
        assert_eq!(changes.left().len(), 2);
        assert_eq!(changes.take_next(), [DiscardAll, ResetAll]);
        assert_eq!(changes.take_next(), []);
    }
}
