//! Deliberate faults. Each makes the server see, or the clients get, what a fault of Paceline would: a test checks that each is found.

use crate::postgres::execute::Outcome;
use crate::postgres::value::Value;

#[derive(Debug, Default)]
pub(crate) struct Mutator;

impl Mutator {
    /// Parameters of a statement that a client or Paceline has sent.
    pub(crate) fn bound(&self, _text: &str, _parameters: &mut [Value]) {}

    /// The result of a statement.
    pub(crate) fn executed(&self, _outcome: &mut Outcome) {}
}
