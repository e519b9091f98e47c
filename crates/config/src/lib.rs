//! Paceline's configuration: its keys, their defaults and limits, and the readers of its files.
//!
//! A configuration comes from a file, from the URL of a server, or from the defaults, and from the environment and `--set`. All
//! end in the same [`Config`]; every value in it has been checked, so that its users need not check again. This crate reads text
//! and files: it opens no socket and looks up no host name.
//!
//! Each key has one entry in `settings/`. The field, the readers of `paceline.toml`, `pgbouncer.ini`, `--set` and the
//! environment, the overrides, the schema and the documentation follow from it. `CONTRIBUTING.md` lists the steps to add a key.
//!
//! [`Config::paceline`] has the values without overrides; [`Config::pool_settings`] returns those of one pool, with the overrides
//! for its database and user.

mod access;
mod compression;
mod config;
mod duration;
mod environment;
mod error;
mod file;
mod function;
mod grouping;
mod hosts;
mod import;
mod ini;
mod load;
mod monitor;
mod overrides;
mod password;
mod peer;
mod pool_settings;
mod protocols;
mod remark;
mod schema;
mod secret;
mod settings;
mod shard_server;
mod ssl_mode;
mod subscriber;
mod suggest;
mod upstream;
mod value;
mod words;

#[cfg(test)]
mod tests;

pub use compression::CompressionMethod;
pub use config::{ANY_DATABASE, Config, Database, DatabaseLogin, PACELINE, PGBOUNCER};
pub use environment::PREFIX;
pub use error::{ConfigError, Problem};
pub use function::{Declared, Role};
pub use grouping::{GroupingDecisions, GroupingTarget};
pub use hosts::{Host, HostList, ServerHost};
pub use import::{ImportError, Imported, import};
pub use ini::{Mapping, pgbouncer_mapping};
pub use load::{Format, seconds};
pub use overrides::PoolOverrides;
pub use password::{PasswordCommand, PasswordSource};
pub use peer::Peer;
pub use pool_settings::PoolSettings;
pub use protocols::Protocols;
pub use remark::Remark;
pub use schema::schema;
pub use secret::{PASSWORD_LENGTH_MAX, Secret, SecretError, read as read_password};
pub use settings::{
    AuthType, Compression, Encryption, Facility, Grouping, Key, ListenLost, ListenMode, Listening,
    Logging, Login, Operation, PoolMode, Pooling, Reads, ReplicasGone, Section, Servers,
    SessionState, Settings, Shards, Side, State, Table, Tcp, Timeouts, Traces, keys, sections,
};
pub use shard_server::ShardServer;
pub use ssl_mode::SslMode;
pub use subscriber::Subscriber;
pub use upstream::{Upstream, UpstreamTls};
