//! The parameters that PostgreSQL reports to a client at login, given the client's settings.

use crate::cancel::ClientEntry;
use crate::login_checkout::client_checkout;
use crate::login_refusal::LoginRefusal;
use bytes::{Bytes, BytesMut};
use paceline_pool::messages;
use paceline_pool::server::ServerError;
use paceline_relay::settings::{SessionSettings, idle_timeout_sql, read_milliseconds};
use paceline_sql::IDLE_SESSION_TIMEOUT;
use paceline_wire::backend;
use paceline_wire::startup::Startup;
use std::collections::BTreeMap;
use std::sync::Arc;

const APPLICATION_NAME: &str = "application_name";

/// Maximum number of bytes of a name in PostgreSQL (`NAMEDATALEN` - 1).
const NAME_MAX: usize = 63;

/// The client's `application_name`, if PostgreSQL reports it unchanged. Then the server need not be asked for the parameters
/// under each new name.
pub(super) fn own_name<'a>(
    startup: &'a Startup,
    sets: &BTreeMap<String, String>,
) -> Option<&'a str> {
    let name = startup.get(APPLICATION_NAME)?;
    let plain = name.len() <= NAME_MAX && name.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    (plain && sets.contains_key(APPLICATION_NAME)).then_some(name)
}

/// As [`welcome`], for a client with this name and these other settings.
pub(super) async fn welcome_by(
    name: &str,
    client: &ClientEntry,
    mut sets: BTreeMap<String, String>,
) -> Result<Vec<(String, String)>, LoginRefusal> {
    sets.remove(APPLICATION_NAME);
    let mut parameters = welcome(
        client,
        &client.info.pool.shared.settings_interner.intern(sets),
    )
    .await?;
    for (known, value) in &mut parameters {
        if known == APPLICATION_NAME {
            name.clone_into(value);
        }
    }
    Ok(parameters)
}

/// Replaces SQL that sets `idle_session_timeout` by SQL with the value in milliseconds. The server parses the value, and does not
/// keep it.
pub(super) async fn read_idle_timeout(
    client: &ClientEntry,
    sql: &str,
) -> Result<String, LoginRefusal> {
    let local = sql.replacen("SET", "SET LOCAL", 1);
    // A simple query is one transaction.
    let query = format!("{local}; SHOW {IDLE_SESSION_TIMEOUT}");
    let mut server = client_checkout(client).await?;
    let Some(conn) = server.conn() else {
        return Err(LoginRefusal::Left);
    };
    let answer = conn.query(&query).await;
    if let Ok(_) | Err(ServerError::Refused(_)) = answer {
        server.give_back();
    }
    match answer {
        Ok(answers) => {
            let shown = answers.iter().flatten().flatten().flatten().next();
            let value = shown.and_then(|value| read_milliseconds(value));
            Ok(idle_timeout_sql(value.unwrap_or_default()))
        }
        Err(ServerError::Refused(error)) => Err(LoginRefusal::Error(as_fatal(&error))),
        Err(_) => Err(LoginRefusal::Error(messages::connection_lost())),
    }
}

/// The parameters that PostgreSQL reports under these settings. The first time, asks a server.
pub(super) async fn welcome(
    client: &ClientEntry,
    settings: &Arc<SessionSettings>,
) -> Result<Vec<(String, String)>, LoginRefusal> {
    let pool = &client.info.pool;
    if let Some(known) = pool.parameters(settings.id) {
        return Ok(known);
    }
    loop {
        let mut server = client_checkout(client).await?;
        let Some(conn) = server.conn() else {
            return Err(LoginRefusal::Left);
        };
        let needs_reset = conn.side.needs_reset;
        let adopted = conn.adopt(settings).await;
        let parameters = conn.parameters();
        match adopted {
            Ok(()) => {
                pool.set_parameters(settings, parameters.clone(), conn);
                server.give_back();
                return Ok(parameters);
            }
            // The cause may be state of an earlier client; the connection is closed, and another one tried.
            Err(ServerError::Refused(_)) if needs_reset => {}
            Err(ServerError::Refused(error)) => {
                server.give_back();
                return Err(LoginRefusal::Error(as_fatal(&error)));
            }
            Err(_) => return Err(LoginRefusal::Error(messages::connection_lost())),
        }
    }
}

/// PostgreSQL reports an invalid setting in a startup packet as FATAL.
fn as_fatal(error: &[u8]) -> Bytes {
    let body = error
        .get(paceline_wire::frame::HEADER_LEN..)
        .unwrap_or_default();
    let field = |code| backend::error_field(body, code).map(str::to_owned);
    let mut out = BytesMut::new();
    paceline_wire::frame::write(&mut out, backend::tag::ERROR_RESPONSE, |out| {
        for (code, value) in [
            (b'S', Some("FATAL".to_owned())),
            (b'V', Some("FATAL".to_owned())),
            (b'C', field(b'C')),
            (b'M', field(b'M')),
            (b'D', field(b'D')),
            (b'H', field(b'H')),
        ] {
            if let Some(value) = value {
                out.extend_from_slice(&[code]);
                out.extend_from_slice(value.as_bytes());
                out.extend_from_slice(&[0]);
            }
        }
        out.extend_from_slice(&[0]);
    });
    out.freeze()
}
