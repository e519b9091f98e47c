//! Whose numbers a server connection remembers of sequences (`lastval`, `currval`). PostgreSQL keeps them per session, so a client
//! must find there its own last number or none.
//!
//! A client's numbers are right to read as long as nobody else has drawn on that connection since it was clean, and the client has
//! drawn nowhere else since: both sides hold the token of that time. Everything else is discarded before the client may read.

/// What forgets the numbers. PostgreSQL has no other way, and this one costs 3 to 4 µs there.
pub(crate) const DISCARD: &str = "DISCARD SEQUENCES";

/// Names a time in which one client drew numbers on one server connection. By default: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SequenceToken(u64);

/// What a server connection may remember.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SequenceState {
    /// Nothing.
    #[default]
    Clean,
    /// Numbers of the client that holds the token.
    Of(SequenceToken),
    /// Numbers of several clients, or of one that has drawn elsewhere since.
    Mixed,
}

impl SequenceState {
    /// May a client with this token read? It finds its own last number, or none.
    pub fn is_readable(self, client: SequenceToken) -> bool {
        match self {
            Self::Clean => true,
            Self::Of(token) => token == client,
            Self::Mixed => false,
        }
    }

    /// A client with this token may draw a number there; `new_id` gives a number that was never given before.
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

    /// Whose numbers are there, if they are one client's.
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
