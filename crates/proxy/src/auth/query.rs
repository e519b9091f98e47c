//! Users that are not in `auth_file`: `auth_user` looks them up on the server (`auth_query`), on separate server connections. A
//! client's user name is passed only as a parameter, and `search_path` is fixed, so no client can have a function of its own
//! executed.

use crate::login_checkout::checkout;
use crate::login_refusal::LoginRefusal;
use paceline_config::Config;
use paceline_pool::credentials::StoredSecret;
use paceline_pool::pools::Pools;
use paceline_pool::server::{ResultRows, ServerConn, ServerError};
use paceline_pool::shared::Shared;
use paceline_wire::ErrorResponse;
use std::sync::Arc;

/// Run in the transaction of `auth_query`.
const SEARCH_PATH: &str =
    "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)";

/// A lookup: as which user, where, and by which query.
#[derive(Debug, PartialEq, Eq)]
struct AuthQuery<'a> {
    auth_user: &'a str,
    auth_query: &'a str,
    /// The database, as clients name it.
    database: &'a str,
}

impl<'a> AuthQuery<'a> {
    /// The lookup for clients of a database; `None` if none is configured.
    fn of(config: &'a Config, database: &'a str) -> Option<Self> {
        let general = &config.paceline.login;
        let special = config.database(database).map(|(entry, _)| &entry.login);
        let choose = |special: Option<&'a Option<String>>, general: &'a String| {
            let special = special.and_then(|special| special.as_ref());
            special.unwrap_or(general).as_str()
        };
        let auth_user = choose(special.map(|login| &login.auth_user), &general.auth_user);
        let auth_query = choose(special.map(|login| &login.auth_query), &general.auth_query);
        let auth_dbname = choose(
            special.map(|login| &login.auth_dbname),
            &general.auth_dbname,
        );
        // The console has no users to look up.
        let nowhere = auth_dbname.is_empty() && config.is_console(database);
        if auth_user.is_empty() || nowhere {
            return None;
        }
        let database = match auth_dbname {
            "" => database,
            named => named,
        };
        Some(Self {
            auth_user,
            auth_query,
            database,
        })
    }
}

/// Whether users of a database can be looked up.
pub(super) fn has_lookup(config: &Config, database: &str) -> bool {
    AuthQuery::of(config, database).is_some()
}

/// Looks up the stored secret of a user. `None`: there is no such user, or no lookup is configured.
pub(super) async fn look_up(
    pools: &Arc<Pools>,
    config: &Config,
    database: &str,
    user: &str,
) -> Result<Option<StoredSecret>, LoginRefusal> {
    let Some(lookup) = AuthQuery::of(config, database) else {
        return Ok(None);
    };
    if lookup.database != database && pools.admit(lookup.database).is_err() {
        let message = format!(
            "authentication database \"{}\" is disabled",
            lookup.database
        );
        return Err(ErrorResponse::fatal("08P01", message).into());
    }
    let Some(pool) = pools.auth_pool(lookup.database, lookup.auth_user) else {
        // There is no such database, which is also the client's own: a later step rejects the login.
        if lookup.database == database {
            return Ok(None);
        }
        tracing::error!(
            auth_dbname = lookup.database,
            "no such database in [databases]"
        );
        return Err(ErrorResponse::fatal("08P01", "bouncer config error").into());
    };
    let mut server = checkout(&pool)
        .await
        .map_err(|refusal| hide_login_error(refusal, &lookup))?;
    let conn = server.conn().ok_or(LoginRefusal::Left)?;
    let answer = run(conn, &pools.shared, lookup.auth_query, user).await;
    if matches!(answer, Ok(_) | Err(ServerError::Refused(_))) {
        server.give_back();
    }
    let secret = answer
        .map_err(|error| error.to_string())
        .and_then(|rows| read(&rows, user));
    secret.map_err(|error| {
        tracing::error!(
            database = lookup.database,
            auth_user = lookup.auth_user,
            error,
            "auth_query failed"
        );
        ErrorResponse::fatal("08P01", "bouncer config error").into()
    })
}

/// Hides from clients that the server rejects `auth_user`. Other errors, such as an unreachable server, are passed on.
fn hide_login_error(refusal: LoginRefusal, lookup: &AuthQuery<'_>) -> LoginRefusal {
    let is_about_login = refusal
        .field(b'C')
        .is_some_and(|sqlstate| sqlstate.starts_with("28"));
    if !is_about_login {
        return refusal;
    }
    tracing::error!(
        auth_user = lookup.auth_user,
        database = lookup.database,
        "the server rejects auth_user"
    );
    ErrorResponse::fatal("08P01", "bouncer config error").into()
}

async fn run(
    conn: &mut ServerConn,
    shared: &Shared,
    auth_query: &str,
    user: &str,
) -> Result<ResultRows, ServerError> {
    conn.adopt(&shared.settings_interner.none()).await?;
    let statements = [(SEARCH_PATH, &[][..]), (auth_query, &[user][..])];
    let results = conn.ask(&statements).await?;
    Ok(results.into_iter().nth(1).unwrap_or_default())
}

/// Reads the answer. Without a row, or with NULL as the name, there is no such user. NULL as the secret means that it has expired
/// or was never set.
fn read(rows: &ResultRows, user: &str) -> Result<Option<StoredSecret>, String> {
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let [name, secret] = row.as_slice() else {
        return Err(format!(
            "expected 2 columns from auth_query, not {}",
            row.len()
        ));
    };
    match name {
        None => Ok(None),
        Some(name) if name != user => Err("auth_query returned another user".to_owned()),
        Some(_) => Ok(Some(StoredSecret::read(
            secret.as_deref().unwrap_or_default(),
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::from_toml(text, "test").unwrap()
    }

    #[test]
    fn a_database_may_have_its_own_auth_query() {
        let config = config(
            "[paceline]\nauth_user = \"asker\"\nauth_query = \"q\"\n\
             [databases.app]\nprimary = \"postgres://h/app\"\n\
             [databases.own]\nprimary = \"postgres://h/own\"\nauth_user = \"mine\"\nauth_query = \"r\"\nauth_dbname = \"app\"\n\
             [databases.none]\nprimary = \"postgres://h/none\"\nauth_user = \"\"\n",
        );
        let found = |database| {
            let lookup = AuthQuery::of(&config, database)?;
            Some((lookup.auth_user, lookup.auth_query, lookup.database))
        };
        assert_eq!(found("app"), Some(("asker", "q", "app")));
        assert_eq!(found("own"), Some(("mine", "r", "app")));
        assert_eq!(found("none"), None);
        assert_eq!(found("pgbouncer"), None);
        assert_eq!(found("paceline"), None);
    }

    #[test]
    fn a_configured_database_named_paceline_has_an_auth_query() {
        let text = "[databases.paceline]\nprimary = \"postgres://h\"\nauth_user = \"a\"";
        assert!(has_lookup(&config(text), "paceline"));
    }

    #[test]
    fn an_answer_is_one_user_and_its_secret() {
        let row = |name: Option<&str>, secret: Option<&str>| {
            vec![vec![name.map(str::to_owned), secret.map(str::to_owned)]]
        };
        assert_eq!(read(&Vec::new(), "u"), Ok(None));
        assert_eq!(read(&row(None, Some("p")), "u"), Ok(None));
        assert_eq!(
            read(&row(Some("u"), None), "u"),
            Ok(Some(StoredSecret::None))
        );
        assert_eq!(
            read(&row(Some("u"), Some("p")), "u"),
            Ok(Some(StoredSecret::read("p")))
        );
        assert!(read(&row(Some("v"), Some("p")), "u").is_err());
        assert!(read(&vec![vec![None]], "u").is_err());
    }
}
