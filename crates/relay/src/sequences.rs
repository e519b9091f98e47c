//! The owner of the sequence values that a server connection remembers (`lastval`, `currval`). PostgreSQL keeps them per session. A client
//! must find its own last value there, or none.
//!
//! A client may read if, since the connection was clean, no other client called `nextval` there and the client called it on
//! no other connection: then both hold the same token. Otherwise Paceline discards the values before the client may read.

/// PostgreSQL has no other command that discards sequence values. This one costs it 3 to 4 µs.
pub(crate) const DISCARD: &str = "DISCARD SEQUENCES";

/// Identifies a period in which one client drew sequence values on one server connection. The default value stands for no
/// period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SequenceToken(u64);

/// The sequence values that a server connection may remember.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SequenceState {
    /// None.
    #[default]
    Clean,
    /// Those of the client with this token.
    Of(SequenceToken),
    /// Those of several clients, or of one that has drawn values on another connection since.
    Mixed,
}

impl SequenceState {
    /// Whether a client with this token may read: it finds its own last value, or none.
    pub fn is_readable(self, client: SequenceToken) -> bool {
        match self {
            Self::Clean => true,
            Self::Of(token) => token == client,
            Self::Mixed => false,
        }
    }

    /// A client with this token may draw a value on the connection. `new_id` returns a number that is used once.
    pub fn draw(&mut self, client: &mut SequenceToken, new_id: impl FnOnce() -> u64) {
        match self {
            Self::Of(token) if token == client => {}
            Self::Clean => {
                *client = SequenceToken(new_id());
                *self = Self::Of(*client);
            }
            Self::Of(_) | Self::Mixed => {
                *client = SequenceToken::default();
                *self = Self::Mixed;
            }
        }
    }

    /// The token of the client whose values the connection remembers. The default token if it remembers none, or those of
    /// several clients.
    pub fn token(self) -> SequenceToken {
        match self {
            Self::Of(token) => token,
            Self::Clean | Self::Mixed => SequenceToken::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_client_reads_its_own_last_number_or_none() {
        let ids = Cell::new(1);
        let next = || ids.replace(ids.get() + 1);
        let [mut one, mut other] = [SequenceToken::default(); 2];
        let [mut here, mut there] = [SequenceState::default(); 2];
        assert!(here.is_readable(one));
        here.draw(&mut one, next);
        here.draw(&mut one, next);
        assert!(here.is_readable(one) && !here.is_readable(other));
        there.draw(&mut one, next);
        assert!(there.is_readable(one));
        assert!(!here.is_readable(one), "its last number is not here");
        here.draw(&mut one, next);
        assert_eq!(here, SequenceState::Mixed);
        assert!(!here.is_readable(one) && !there.is_readable(one));
        there = SequenceState::Clean;
        there.draw(&mut other, next);
        there.draw(&mut one, next);
        assert!(!there.is_readable(one) && !there.is_readable(other));
    }
}
