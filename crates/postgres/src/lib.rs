//! An embedded PostgreSQL: finds server binaries on the machine or fetches a release, initialises a data folder, runs the
//! server as a child of this process and stops it cleanly; makes streaming replicas of it.
//!
//! It never turns off durability, listens on anything but loopback and a Unix socket, starts a second server in a folder
//! that is in use, deletes data, or runs PostgreSQL as root. Of the protocol it implements only what copies a server: callers
//! bring a client.
//!
//! All functions block. In an async runtime, call them with `spawn_blocking`.

#![warn(clippy::missing_errors_doc)]

mod account;
mod base_backup;
mod cluster;
mod data_dir;
mod default_dirs;
mod error;
mod fetch;
mod installation;
mod log;
mod options;
mod pidfile;
mod port;
mod postmaster;
mod processes;
mod replica;
mod replication;
mod selection;
mod server;
mod socket;
mod version;

pub use default_dirs::{default_cache_dir, default_data_dir};
pub use error::Error;
pub use fetch::fetch;
pub use installation::{Installation, find_installations};
pub use options::Options;
pub use server::Server;
pub use version::Version;
