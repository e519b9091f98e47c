//! Paceline's configuration: its keys, their defaults and limits, and the readers of its files.
//!
//! A configuration comes from a file, from the URL of a server, or from the defaults, and from the environment and `--set`. All
//! end in the same [`Config`]; every value in it has been checked, so that its users need not check again. This crate reads text
//! and files: it opens no socket and looks up no host name.
//!
//! # How to add a key
//! 1. Add an entry to the file of its theme in `settings/`. The entry states the name, meaning, default and form of the key, the
//!    tables that may override it and, if PgBouncer has the key, PgBouncer's default. The field, the readers of `paceline.toml`,
//!    `pgbouncer.ini`, `--set` and the environment, the overrides, the schema and the documentation follow from it.
//! 2. Read the field where the key takes effect. A pool reads it from [`PoolSettings`], in which the overrides are applied; the
//!    configuration of the process has none.
//!
//! `PACELINE_KEEP=1 cargo test -p paceline-config` writes the files that are made from the entries. `ini/known.rs` lists the keys
//! of PgBouncer that have no entry.

mod access;
mod config;
mod duration;
mod environment;
mod error;
mod file;
mod function;
mod hosts;
mod import;
mod ini;
mod load;
mod monitor;
mod overrides;
mod peer;
mod pool_settings;
mod protocols;
mod remark;
mod schema;
mod secret;
mod settings;
mod ssl_mode;
mod suggest;
mod upstream;
mod value;
mod words;

#[cfg(test)]
mod tests;

pub use config::{ANY_DATABASE, Config, Database, DatabaseLogin, PACELINE, PGBOUNCER};
pub use environment::PREFIX;
pub use error::{ConfigError, Problem};
pub use function::{Declared, Role};
pub use hosts::{Host, HostList, ServerHost};
pub use import::{ImportError, Imported, import};
pub use ini::{Mapping, pgbouncer_mapping};
pub use load::{Format, seconds};
pub use overrides::PoolOverrides;
pub use peer::Peer;
pub use pool_settings::PoolSettings;
pub use protocols::Protocols;
pub use remark::Remark;
pub use schema::schema;
pub use secret::Secret;
pub use settings::{
    AuthType, Encryption, Facility, Grouping, Key, ListenLost, ListenMode, Listening, Logging,
    Login, Operation, PoolMode, Pooling, Section, Servers, SessionState, Settings, Side, State,
    Table, Tcp, Timeouts, keys, sections,
};
pub use ssl_mode::SslMode;
pub use upstream::{Upstream, UpstreamTls};
