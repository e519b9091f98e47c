//! The embedded PostgreSQL: finds server binaries on the machine or fetches a release, initialises a data folder, runs
//! the server as a child of this process and stops it cleanly.
//!
//! What it never does: turn off durability, listen on anything but loopback and a Unix socket, start a second server in a
//! folder that is in use, delete data, or run PostgreSQL as root. It speaks no protocol: callers connect by themselves.
//!
//! Everything blocks; from an async runtime, call it on a thread of its own (`spawn_blocking`).

mod account;
mod choice;
mod cluster;
mod error;
mod fetch;
mod folder;
mod installation;
mod log;
mod options;
mod pidfile;
mod places;
mod port;
mod postmaster;
mod processes;
mod server;
mod socket;
mod version;

pub use error::Error;
pub use fetch::fetch;
pub use installation::{Installation, find_installations};
pub use options::Options;
pub use places::{default_cache_dir, default_data_dir};
pub use server::Server;
pub use version::Version;
