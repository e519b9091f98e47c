//! The keys of `[databases]`, `[users]` and `[peers]`, which stand in connection strings.

use super::{LIMIT, NO_PEERS, Otherwise, Sort, TIMEOUT};

/// A key in the connection string of a section with names: `[databases]`, `[users]`, `[peers]`.
#[derive(Debug)]
pub(crate) struct Parameter {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its names here, the best first; the first that exists is taken.
    pub(in crate::config::ini) names: &'static [&'static str],
    /// Values that say the same as nothing.
    pub(in crate::config::ini) unset: &'static [&'static str],
    pub(in crate::config::ini) sort: Sort,
    /// What becomes of it if Paceline has none of these names.
    pub(crate) otherwise: Otherwise,
}

/// The address of the server and the login there: what becomes the URL.
pub(crate) const ADDRESS: [&str; 5] = ["host", "port", "dbname", "user", "password"];

const fn parameter(
    name: &'static str,
    names: &'static [&'static str],
    sort: Sort,
    otherwise: Otherwise,
) -> Parameter {
    Parameter {
        name,
        names,
        unset: &[],
        sort,
        otherwise,
    }
}

/// A number that is not set when it is -1.
const fn number(name: &'static str, names: &'static [&'static str]) -> Parameter {
    Parameter {
        unset: &["-1"],
        ..parameter(name, names, Sort::Number, Otherwise::Ignored(LIMIT))
    }
}

const fn seconds(name: &'static str, names: &'static [&'static str]) -> Parameter {
    Parameter {
        unset: &["-1"],
        ..parameter(name, names, Sort::Seconds, Otherwise::Ignored(TIMEOUT))
    }
}

const fn of_session(name: &'static str, names: &'static [&'static str]) -> Parameter {
    let why = "server connections are not begun with it; say it in the database instead: ALTER DATABASE … SET, or ALTER ROLE … SET";
    parameter(
        name,
        names,
        Sort::Text,
        Otherwise::Refused { unless: &[], why },
    )
}

const POOL_MODE: Parameter = parameter(
    "pool_mode",
    &["pool_mode"],
    Sort::Text,
    Otherwise::Ignored("a server is shared from transaction to transaction"),
);

/// The keys of `[databases]` beside [`ADDRESS`].
pub(crate) static OF_DATABASES: &[Parameter] = &[
    parameter(
        "auth_user",
        &["auth_user"],
        Sort::Text,
        Otherwise::Refused {
            unless: &[],
            why: "nobody's password is asked from this database; remove the key if that is acceptable",
        },
    ),
    parameter(
        "auth_query",
        &["auth_query"],
        Sort::Text,
        Otherwise::Refused {
            unless: &[],
            why: "passwords cannot be asked for by a query of this database's own",
        },
    ),
    parameter(
        "auth_dbname",
        &["auth_dbname"],
        Sort::Text,
        Otherwise::Refused {
            unless: &[],
            why: "passwords cannot be asked for in a database that is this one's own choice",
        },
    ),
    number("pool_size", &["pool_size", "default_pool_size"]),
    number("min_pool_size", &["min_pool_size"]),
    number("reserve_pool_size", &["reserve_pool_size"]),
    number("reserve_pool", &["reserve_pool_size"]),
    parameter(
        "connect_query",
        &["connect_query"],
        Sort::Text,
        Otherwise::Refused {
            unless: &[],
            why: "nothing is run on a new server connection; say it in the database instead: ALTER DATABASE … SET, or ALTER ROLE … SET",
        },
    ),
    POOL_MODE,
    seconds("query_wait_timeout", &["query_wait_timeout"]),
    parameter(
        "load_balance_hosts",
        &["load_balance_hosts"],
        Sort::Text,
        Otherwise::Ignored("there is one host"),
    ),
    parameter(
        "target_session_attrs",
        &["target_session_attrs"],
        Sort::Text,
        Otherwise::Refused {
            unless: &["any"],
            why: "servers are not asked whether they take writes; name the host that is meant, and remove the key",
        },
    ),
    number("max_db_connections", &["max_db_connections"]),
    number("max_db_client_connections", &["max_db_client_connections"]),
    Parameter {
        unset: &["0"],
        ..seconds("server_lifetime", &["server_lifetime"])
    },
    of_session("client_encoding", &["client_encoding"]),
    of_session("datestyle", &["datestyle"]),
    of_session("timezone", &["timezone"]),
    of_session("application_name", &["application_name"]),
];

/// The keys of `[users]`.
pub(crate) static OF_USERS: &[Parameter] = &[
    number("pool_size", &["pool_size", "default_pool_size"]),
    number("reserve_pool_size", &["reserve_pool_size"]),
    POOL_MODE,
    number("max_user_connections", &["max_user_connections"]),
    seconds("query_timeout", &["query_timeout"]),
    seconds("query_wait_timeout", &["query_wait_timeout"]),
    seconds("idle_transaction_timeout", &["idle_transaction_timeout"]),
    seconds("transaction_timeout", &["transaction_timeout"]),
    seconds("client_idle_timeout", &["client_idle_timeout"]),
    number(
        "max_user_client_connections",
        &["max_user_client_connections"],
    ),
];

/// The keys of `[peers]`.
pub(crate) static OF_PEERS: &[Parameter] = &[
    parameter("host", &["host"], Sort::Text, Otherwise::Ignored(NO_PEERS)),
    parameter(
        "port",
        &["port"],
        Sort::Number,
        Otherwise::Ignored(NO_PEERS),
    ),
    parameter(
        "pool_size",
        &["pool_size"],
        Sort::Number,
        Otherwise::Ignored(NO_PEERS),
    ),
];
