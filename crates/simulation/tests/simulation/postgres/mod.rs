//! A PostgreSQL in memory: rows with versions, row locks, READ COMMITTED, commit, crash. It executes the statements that it gets,
//! also those that Paceline generates; questions about the catalog are answered as a real PostgreSQL has answered them.

pub(crate) mod answers;
pub(crate) mod catalog;
mod change;
mod error;
mod evaluate;
pub(crate) mod execute;
mod resolve;
mod resolve_change;
mod resolve_expr;
pub(crate) mod schema;
mod scope;
pub(crate) mod server;
mod session;
mod settings;
mod storage;
mod tree;
pub(crate) mod value;
