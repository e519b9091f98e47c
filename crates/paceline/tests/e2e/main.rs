//! End-to-end tests: the binary `paceline` in front of a real PostgreSQL, seen from the client's socket.
//!
//! Whatever can be compared is compared with bare PostgreSQL, message by message. Groups are forced, not hoped for: see
//! [`harness::gate`]. With `PACELINE_E2E_TARGET=bare` in the environment every client goes straight to PostgreSQL
//! instead, which tests the tests. A test that runs for longer than its limit ends the run: [`harness::watchdog`]. Failures print the server's and Paceline's logs where they help.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test that meets the unexpected has failed"
)]

mod authentication;
#[cfg(feature = "bench")]
mod benching;
mod blocked_take;
mod claims;
mod console;
mod corners;
mod ddl;
mod declared;
mod drivers;
mod edges;
mod equivalence;
mod errors;
mod explaining;
mod faults;
mod from_pgbouncer;
mod fuzz;
mod groups;
mod harness;
mod hotspot_hints;
mod importing;
mod listening;
mod load;
mod login;
mod manners;
mod merge;
mod metrics;
mod operations;
mod order_variants;
mod orders;
mod outsider;
mod peers;
mod pipelines;
mod pooling;
mod prepared;
mod prepared_analysis;
mod prepared_texts;
mod queue;
mod queue_clients;
mod replication;
mod row_waits;
mod scripts;
mod seeing;
mod sell_out;
mod session_drivers;
mod session_history;
mod session_keeping;
mod session_leftovers;
mod session_names;
mod session_sequences;
mod session_state;
mod session_timeouts;
mod session_walk;
mod share;
mod shared_reads;
mod tidy;
mod tls;
mod upsert;
mod upsert_rows;
mod watchdog;
