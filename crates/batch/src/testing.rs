//! What the tests of this crate share: requests and tables to fold on, and groups in flight.

pub(crate) mod folding;
pub(crate) mod travelling;
pub(crate) mod trip;
