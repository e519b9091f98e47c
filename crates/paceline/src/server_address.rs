//! The server of a command that connects to one: `explain` and `advise`.

use anyhow::Context;
use paceline_config::{Settings, Upstream};
use paceline_pool::address::Address;
use paceline_pool::keyring::{Keyring, TlsKeys};
use std::sync::Arc;

/// The address for one connection of a command.
///
/// # Errors
/// The URL names no user, or a file for TLS cannot be read.
pub(crate) fn server_address(upstream: &Upstream, settings: &Settings) -> anyhow::Result<Address> {
    let user = upstream.user.clone();
    let user = user.context(
        "the URL names no user; write postgres://USER@HOST:PORT/DATABASE, or add --user NAME",
    )?;
    let keyring = Keyring::default();
    keyring.replace(Arc::new(TlsKeys::for_servers(
        &settings.encryption,
        [upstream],
    )?));
    Ok(Address {
        keyring: Arc::new(keyring),
        compression: None,
        location: None,
        database: upstream.dbname.clone().unwrap_or_else(|| user.clone()),
        upstream: upstream.clone(),
        user,
        startup: Vec::new(),
        connect_query: String::new(),
        tcp: settings.tcp.clone(),
    })
}
