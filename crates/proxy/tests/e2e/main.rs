//! End-to-end tests: the binary `paceline` in front of a real PostgreSQL, seen from the client's socket.
//!
//! Whatever can be compared is compared with bare PostgreSQL, message by message. Groups are forced, not hoped for: see
//! [`harness::gate`]. With `PACELINE_E2E_TARGET=bare` in the environment every client goes straight to PostgreSQL
//! instead, which tests the tests. Failures print the server's and Paceline's logs where they help.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test that meets the unexpected has failed"
)]

mod ddl;
mod equivalence;
mod errors;
mod faults;
mod harness;
mod hotspot_hints;
mod load;
mod login;
mod manners;
mod merge;
mod outsider;
mod prepared;
mod queue;
mod scripts;
mod sell_out;
mod session_state;
mod share;
mod tidy;
