//! The state of a session across server connections, compared with bare PostgreSQL.

mod history;
mod keeping;
mod leftovers;
mod local_settings;
mod names;
mod real_drivers;
mod sequences;
mod state;
mod timeouts;
mod unseen;
mod walk;
