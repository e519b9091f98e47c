//! The server of a command that connects to one: `explain`, `advise` and `top`.

use anyhow::{Context, anyhow};
use paceline_config::{Settings, Upstream};
use paceline_pool::address::Address;
use paceline_pool::credentials::ServerCredentials;
use paceline_pool::keyring::{Keyring, TlsKeys};
use paceline_pool::server::ServerConn;
use paceline_relay::settings::SettingsInterner;
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

/// A connection to the server.
///
/// # Errors
/// The server cannot be reached, or rejects the login.
pub(crate) async fn connect(upstream: &Upstream) -> anyhow::Result<ServerConn> {
    let settings = Settings::default();
    let address = Arc::new(server_address(upstream, &settings)?);
    let credentials = ServerCredentials::by_password(upstream.password.as_ref());
    let none = SettingsInterner::default().none();
    let limit = settings.timeouts.server_connect_timeout;
    let prepared_max = settings.state.max_prepared_statements;
    let opened = ServerConn::open_within(limit, &address, &credentials, none, prepared_max).await;
    opened.map_err(|error| anyhow!("cannot connect to {upstream}: {error}"))
}
