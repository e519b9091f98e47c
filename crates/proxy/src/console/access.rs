//! Who may use the console, and for what.

use super::{PACELINE, PGBOUNCER, Pass};
use crate::config::{AuthType, Config};
use crate::proxy::Proxy;
use crate::stream::{Ends, Stream};
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

/// Lets a user in.
///
/// # Errors
/// The user is not allowed to come in.
pub(crate) fn enter(
    proxy: &Arc<Proxy>,
    user: &str,
    stream: &Stream,
) -> Result<Pass, ErrorResponse> {
    let is_own = stream.peer_uid() == Some(rustix::process::geteuid().as_raw());
    let access = allowed(&proxy.config(), user, is_own, is_local(&stream.ends()));
    let access = access.ok_or_else(|| {
        ErrorResponse::fatal("08P01", "not allowed")
            .with_hint("Name the user in admin_users or stats_users in Paceline's configuration.")
    })?;
    Pass::new(proxy, access)
        .ok_or_else(|| ErrorResponse::fatal("XX000", "the system gives no random numbers"))
}

/// `is_own`: it comes from the account that Paceline runs as. Where nobody is named and nobody is
/// asked for a proof, whoever has come from this machine may look.
pub(super) fn allowed(config: &Config, user: &str, is_own: bool, is_local: bool) -> Option<Access> {
    let operation = &config.paceline.operation;
    let named = |users: &[String]| users.iter().any(|name| name == user);
    let trusted = matches!(
        config.paceline.login.auth_type,
        AuthType::Trust | AuthType::Any
    );
    let nobody_is = operation.admin_users.is_empty() && operation.stats_users.is_empty();
    if named(&operation.admin_users) || (is_own && matches!(user, PGBOUNCER | PACELINE)) {
        return Some(Access::Admin);
    }
    let may_look = named(&operation.stats_users) || (nobody_is && trusted && is_local);
    may_look.then_some(Access::Stats)
}

fn is_local(ends: &Ends) -> bool {
    match ends {
        Ends::Unix(_) => true,
        Ends::V4([peer, _]) => peer.ip().is_loopback(),
        Ends::V6(both) => {
            let [peer, _] = &**both;
            peer.ip().to_canonical().is_loopback()
        }
    }
}
