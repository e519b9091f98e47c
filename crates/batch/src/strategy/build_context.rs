//! The inputs for the messages of a group besides its members.

use super::prelude::Prelude;
use std::time::{Duration, Instant};

/// The context in which the messages of a group are written.
#[derive(Debug, Clone, Copy)]
pub struct BuildContext<'a> {
    /// Paceline's own statements in a chain.
    pub prelude: &'a Prelude,
    /// The time.
    pub now: Instant,
    /// At least this often, a group reads the whole queue from which it takes; zero: always.
    pub queue_reorder_time: Duration,
    /// Whether the server is a replica.
    pub on_replica: bool,
}
