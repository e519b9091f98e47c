//! How clients prove who they are.

use super::key::{Key, Kind, timeout};
use std::path::PathBuf;
use std::time::Duration;

/// PgBouncer's query for the secret of a user that the file of users does not know.
const AUTH_QUERY: &str = "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword END FROM pg_authid WHERE rolname=$1 AND rolcanlogin";

/// How clients prove who they are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Login {
    /// What a client must show.
    pub(crate) auth_type: AuthType,
    /// Whether `trust` is for clients of other machines, too.
    pub(crate) auth_trust_remote: bool,
    /// Users and their secrets.
    pub(crate) auth_file: Option<PathBuf>,
    /// Rules, for [`AuthType::Hba`].
    pub(crate) auth_hba_file: Option<PathBuf>,
    /// Which names of the system or of a certificate stand for which users.
    pub(crate) auth_ident_file: Option<PathBuf>,
    /// Asks for users that the file does not know; empty for nobody.
    pub(crate) auth_user: String,
    /// How it asks.
    pub(crate) auth_query: String,
    /// Where it asks, by the name that clients know; empty for the client's own database.
    pub(crate) auth_dbname: String,
    /// Longest time for a client from connecting to the end of its login; zero is for ever.
    pub(crate) client_login_timeout: Duration,
    /// A NOTICE for each client that has logged in; empty is none.
    pub(crate) login_notify_message: String,
}

/// What a client must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthType {
    /// Nothing.
    Trust,
    /// That it knows the password, by md5; by SCRAM where that is what is stored.
    Md5,
    /// That it knows the password.
    ScramSha256,
    /// The password.
    Plain,
    /// A certificate with its name.
    Cert,
    /// What the first rule says that fits.
    Hba,
    /// That the system's user has its name.
    Peer,
    /// Nothing, not even its name.
    Any,
}

impl AuthType {
    const NAMES: &[&str] = &[
        "trust",
        "md5",
        "scram-sha-256",
        "plain",
        "cert",
        "hba",
        "peer",
        "any",
    ];
    const ALL: [Self; 8] = [
        Self::Trust,
        Self::Md5,
        Self::ScramSha256,
        Self::Plain,
        Self::Cert,
        Self::Hba,
        Self::Peer,
        Self::Any,
    ];

    /// As PgBouncer writes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Md5 => "md5",
            Self::ScramSha256 => "scram-sha-256",
            Self::Plain => "plain",
            Self::Cert => "cert",
            Self::Hba => "hba",
            Self::Peer => "peer",
            Self::Any => "any",
        }
    }

    fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == text)
    }
}

impl Default for Login {
    fn default() -> Self {
        Self {
            auth_type: AuthType::Trust,
            auth_trust_remote: false,
            auth_file: None,
            auth_hba_file: None,
            auth_ident_file: None,
            auth_user: String::new(),
            auth_query: AUTH_QUERY.to_owned(),
            auth_dbname: String::new(),
            client_login_timeout: Duration::from_secs(60),
            login_notify_message: String::new(),
        }
    }
}

/// The keys of it.
pub(super) static KEYS: &[Key] = &[
    Key {
        name: "auth_type",
        meaning: "What a client must show to log in; see docs/login.md",
        kind: Kind::Choice {
            among: AuthType::NAMES,
            show: |settings| settings.login.auth_type.name(),
            choose: |settings, name| {
                let chosen = AuthType::named(name);
                settings.login.auth_type = chosen.unwrap_or(settings.login.auth_type);
            },
        },
    },
    Key {
        name: "auth_trust_remote",
        meaning: "Whether auth_type trust and any serve clients of other machines, too, who then need no password",
        kind: Kind::Switch(|settings| &mut settings.login.auth_trust_remote),
    },
    Key {
        name: "auth_file",
        meaning: "File of users and their secrets, PgBouncer's userlist.txt; \"\" for none",
        kind: Kind::File(|settings| &mut settings.login.auth_file),
    },
    Key {
        name: "auth_hba_file",
        meaning: "File of rules in the format of pg_hba.conf, for auth_type hba; \"\" for none",
        kind: Kind::File(|settings| &mut settings.login.auth_hba_file),
    },
    Key {
        name: "auth_ident_file",
        meaning: "File of the maps that rules name, in the format of pg_ident.conf; \"\" for none",
        kind: Kind::File(|settings| &mut settings.login.auth_ident_file),
    },
    Key {
        name: "auth_user",
        meaning: "Asks the server for the secrets of users that auth_file does not know; \"\" for nobody",
        kind: Kind::Text(|settings| &mut settings.login.auth_user),
    },
    Key {
        name: "auth_query",
        meaning: "How auth_user asks for the user $1: one row, its name and its secret; name schemas, the search_path is pg_catalog",
        kind: Kind::Text(|settings| &mut settings.login.auth_query),
    },
    Key {
        name: "auth_dbname",
        meaning: "The database, as clients name it, in which auth_user asks; \"\" for the client's own",
        kind: Kind::Text(|settings| &mut settings.login.auth_dbname),
    },
    Key {
        name: "client_login_timeout",
        meaning: "A client that has not logged in after this time is disconnected; 0 waits for ever",
        kind: timeout(|settings| &mut settings.login.client_login_timeout),
    },
    Key {
        name: "login_notify_message",
        meaning: "Text of a NOTICE that each client gets when it has logged in; \"\" for none",
        kind: Kind::Text(|settings| &mut settings.login.login_notify_message),
    },
];
