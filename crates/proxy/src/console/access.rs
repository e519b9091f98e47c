//! Who may use the console, and for what.

use super::Pass;
use crate::auth::{self, LoginTarget, Refusal};
use crate::proxy::Proxy;
use bytes::BytesMut;
use paceline_config::{AuthType, Config, PACELINE, PGBOUNCER};
use paceline_net::Stream;
use paceline_wire::ErrorResponse;
use std::sync::Arc;

/// What a user of the console may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everything.
    Admin,
    /// SHOW.
    Stats,
}

/// Lets a user in that proves who it is. The account that Paceline runs as needs no other proof than the system's. Rules
/// and lookups know the console as `pgbouncer`, whichever of its names the client has used.
///
/// # Errors
/// The user is not allowed to come in.
pub(crate) async fn enter(
    proxy: &Arc<Proxy>,
    stream: &Stream,
    input: &mut BytesMut,
    user: &str,
) -> Result<Pass, Refusal> {
    let access = match is_own(stream, user) {
        true => Some(Access::Admin),
        false => {
            let target = LoginTarget {
                database: PGBOUNCER,
                replication: None,
            };
            // With `auth_type = any` it is the user of some server; here the client's own name is meant.
            auth::authenticate(proxy, stream, input, target, user).await?;
            allowed(&proxy.config(), user, stream.peer().is_local())
        }
    };
    let access = access.ok_or_else(|| {
        ErrorResponse::fatal("08P01", "not allowed")
            .with_hint("Name the user in admin_users or stats_users in Paceline's configuration.")
    })?;
    let pass = Pass::new(proxy, access);
    Ok(pass.ok_or_else(|| ErrorResponse::fatal("XX000", "the system gives no random numbers"))?)
}

/// It comes from the account that Paceline runs as, and says so.
fn is_own(stream: &Stream, user: &str) -> bool {
    let own = rustix::process::geteuid().as_raw();
    matches!(user, PGBOUNCER | PACELINE) && stream.peer().user() == Some(own)
}

/// What others may do. Where nobody is named and nobody is asked for a proof, whoever has come from this machine may look.
/// With `auth_type = any` names mean nothing: nobody does more than look by one.
pub(super) fn allowed(config: &Config, user: &str, is_local: bool) -> Option<Access> {
    let operation = &config.paceline.operation;
    let (admins, others) = (&operation.admin_users, &operation.stats_users);
    let named = |users: &[String]| users.iter().any(|name| name == user);
    let nobody_is = admins.is_empty() && others.is_empty();
    let may_look = match config.paceline.login.auth_type {
        AuthType::Any => is_local || named(admins) || named(others),
        _ if named(admins) => return Some(Access::Admin),
        AuthType::Trust => named(others) || (nobody_is && is_local),
        _ => named(others),
    };
    may_look.then_some(Access::Stats)
}
