//! What the tests of this crate share: messages as text, units and tables to fold on.

pub(crate) mod folding;
pub(crate) mod messages;
pub(crate) mod read_out;
pub(crate) mod travelling;
pub(crate) mod trip;
