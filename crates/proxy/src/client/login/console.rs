//! The users of the console, and their access.

use crate::auth::{self, LoginTarget};
use crate::cancel::{ConsoleAccess, ConsoleGrant, own_peer_id};
use crate::login_refusal::LoginRefusal;
use crate::proxy::Proxy;
use bytes::BytesMut;
use paceline_config::{PACELINE, PGBOUNCER};
use paceline_net::Stream;
use paceline_wire::ErrorResponse;
use std::sync::Arc;

/// Authenticates a console user. The system account that runs Paceline needs no other proof than its socket. Rules and lookups
/// see the database `pgbouncer`, whichever name of the console the client uses.
///
/// # Errors
/// The user may not use the console.
pub(crate) async fn log_in(
    proxy: &Arc<Proxy>,
    stream: &Stream,
    input: &mut BytesMut,
    user: &str,
) -> Result<ConsoleGrant, LoginRefusal> {
    let access = match is_own(stream, user) {
        true => Some(ConsoleAccess::Admin),
        false => {
            let target = LoginTarget {
                database: PGBOUNCER,
                replication: None,
            };
            // With `auth_type = any` the identity would be a server's user; the console uses the client's own name.
            auth::authenticate(&proxy.auth, &proxy.pools, stream, input, target, user).await?;
            auth::console_access(&proxy.config(), user, stream.peer().is_local())
        }
    };
    let access = access.ok_or_else(|| {
        ErrorResponse::fatal("08P01", "not allowed")
            .with_hint("Name the user in admin_users or stats_users in Paceline's configuration.")
    })?;
    let grant = proxy
        .console_keys
        .register(own_peer_id(&proxy.shared), access);
    Ok(grant.ok_or_else(|| ErrorResponse::fatal("XX000", "the system gives no random numbers"))?)
}

/// Whether the client runs under the system account that runs Paceline, and uses its name.
fn is_own(stream: &Stream, user: &str) -> bool {
    let own = rustix::process::geteuid().as_raw();
    matches!(user, PGBOUNCER | PACELINE) && stream.peer().user() == Some(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::console_access as allowed;
    use crate::cancel::CancelKey;
    use paceline_config::Config;

    #[test]
    fn named_users_may_use_the_console() {
        let mut config = Config::for_upstream("postgres://db").unwrap();
        let may = |config: &Config, user: &str| allowed(config, user, true);
        assert_eq!(may(&config, "anybody"), Some(ConsoleAccess::Stats));
        assert_eq!(allowed(&config, "anybody", false), None);
        config.set("admin_users=ann, amy").unwrap();
        config.set("stats_users=stan").unwrap();
        assert_eq!(may(&config, "amy"), Some(ConsoleAccess::Admin));
        assert_eq!(may(&config, "stan"), Some(ConsoleAccess::Stats));
        assert_eq!(may(&config, "anybody"), None);
        assert_eq!(may(&config, "pgbouncer"), None);
    }

    #[test]
    fn auth_type_any_grants_no_admin() {
        let mut config = Config::for_upstream("postgres://db").unwrap();
        config.set("auth_type=any").unwrap();
        config.set("admin_users=ann").unwrap();
        for user in ["ann", "anybody"] {
            assert_eq!(
                allowed(&config, user, true),
                Some(ConsoleAccess::Stats),
                "{user}"
            );
        }
        assert_eq!(allowed(&config, "ann", false), Some(ConsoleAccess::Stats));
        assert_eq!(allowed(&config, "anybody", false), None);
    }

    /// The cancel request needs the whole key, and works only during the session.
    #[tokio::test]
    async fn a_cancel_request_ends_a_wait_in_the_console() {
        let config = Config::for_upstream("postgres://db").unwrap();
        let proxy = Proxy::new(config);
        let grant = proxy
            .console_keys
            .register(0, ConsoleAccess::Admin)
            .unwrap();
        let (process, secret) = (grant.process, grant.secret);
        let key = |process, secret| CancelKey { process, secret };
        let cancelled = Arc::clone(&grant.cancelled);
        let mut first = std::pin::pin!(cancelled.notified());
        assert!(!proxy.console_keys.cancel(key(process, secret ^ 1)));
        assert!(!proxy.console_keys.cancel(key(process ^ 1, secret)));
        assert!(!first.as_mut().enable());
        assert!(proxy.console_keys.cancel(key(process, secret)));
        assert!(first.as_mut().enable());
        let mut later = std::pin::pin!(cancelled.notified());
        assert!(!later.as_mut().enable());
        drop(grant);
        assert!(!proxy.console_keys.cancel(key(process, secret)));
        assert!(!later.as_mut().enable());
    }
}
