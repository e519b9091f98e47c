//! The parts that tests share: servers, Paceline, clients, and ways to force an order of events. This module depends on no test.

pub(crate) mod caretaker;
pub(crate) mod cluster;
pub(crate) mod collector;
pub(crate) mod driver;
pub(crate) mod gate;
pub(crate) mod http;
pub(crate) mod installed;
pub(crate) mod load;
pub(crate) mod message;
pub(crate) mod names;
pub(crate) mod network;
pub(crate) mod open_metrics;
pub(crate) mod paceline;
pub(crate) mod programs;
pub(crate) mod raw;
pub(crate) mod remote;
pub(crate) mod reply;
pub(crate) mod rng;
pub(crate) mod sharded;
pub(crate) mod stage;
pub(crate) mod together;
pub(crate) mod wait;
pub(crate) mod watchdog;

pub(crate) use gate::Gate;
pub(crate) use reply::{Message, Reply, assert_same};
pub(crate) use rng::Rng;
pub(crate) use sharded::{At, Sharded};
pub(crate) use stage::Stage;
pub(crate) use wait::until;
pub(crate) use watchdog::skipped;
