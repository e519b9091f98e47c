//! Logins of the web console: the browser sends the password itself, and no exchange of messages follows.

use super::exchange::{PasswordComparison, check_channel};
use super::hba::Method;
use super::peer::LoginPeer;
use super::{Attempt, AuthState, LoginTarget};
use crate::cancel::ConsoleAccess;
use crate::login_refusal::LoginRefusal;
use paceline_config::{AuthType, Config, PGBOUNCER};
use paceline_net::Stream;
use paceline_pool::pools::Pools;
use paceline_wire::ErrorResponse;
use std::sync::Arc;

/// Checks the password of a console user, and returns what the user may do. The password must be right whatever `auth_type` is:
/// other pages in a browser can reach the port from the same machine, so neither the address nor the account of the client proves
/// anything.
///
/// # Errors
/// The reason, for the log. The client must not get it, because it shows which users exist.
pub async fn check_password(
    auth: &AuthState,
    pools: &Arc<Pools>,
    stream: &Stream,
    user: &str,
    password: &str,
) -> Result<ConsoleAccess, String> {
    let in_force = auth.files.now();
    let (config, files) = &*in_force;
    let peer = LoginPeer::of(stream);
    let attempt = Attempt {
        auth,
        pools,
        config,
        files,
        peer: &peer,
        database: PGBOUNCER,
        replication: None,
        user,
    };
    let checked = attempt.admit_password(password.as_bytes()).await;
    checked.map_err(|refusal| {
        let why = refusal
            .field(b'M')
            .unwrap_or("the password cannot be checked");
        why.to_owned()
    })?;
    let access = console_access(config, user, peer.peer.is_local());
    access.ok_or_else(|| "the user is not in admin_users or stats_users".to_owned())
}

impl Attempt<'_> {
    async fn admit_password(&self, given: &[u8]) -> Result<(), LoginRefusal> {
        check_channel(self.peer)?;
        if self.config.paceline.login.auth_type == AuthType::Hba {
            let target = LoginTarget {
                database: self.database,
                replication: None,
            };
            let method = self.files.hba.method(self.peer, target, self.user);
            if method.is_none_or(|method| *method == Method::Reject) {
                return Err(ErrorResponse::fatal("28000", "login rejected").into());
            }
        }
        let secret = self.stored().await?;
        let comparison = PasswordComparison {
            user: self.user,
            mock: &self.auth.mock,
            deriver: self.auth.shared.credentials.deriver(),
        };
        let prevailing = self.prevailing_secret();
        comparison
            .compare(secret.as_ref(), given, prevailing)
            .await?;
        Ok(())
    }
}

/// The access of an authenticated user to the console; `None` for none. If no user is configured and no proof is required, local clients
/// may use SHOW. With `auth_type = any` names prove nothing, so local and listed users may only use SHOW.
pub fn console_access(config: &Config, user: &str, is_local: bool) -> Option<ConsoleAccess> {
    let operation = &config.paceline.operation;
    let (admins, stats_users) = (&operation.admin_users, &operation.stats_users);
    let named = |users: &[String]| users.iter().any(|name| name == user);
    let none_configured = admins.is_empty() && stats_users.is_empty();
    let may_look = match config.paceline.login.auth_type {
        AuthType::Any => is_local || named(admins) || named(stats_users),
        _ if named(admins) => return Some(ConsoleAccess::Admin),
        AuthType::Trust => named(stats_users) || (none_configured && is_local),
        _ => named(stats_users),
    };
    may_look.then_some(ConsoleAccess::Stats)
}
