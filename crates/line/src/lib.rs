//! The relay of one client and the groups of many, under one name.

pub use paceline_batch::*;
pub use paceline_relay::*;
