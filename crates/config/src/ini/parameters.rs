//! The keys of `[databases]`, `[users]` and `[peers]`, which stand in connection strings.

use super::mapping::{Mapping, Sort};

/// A key in the connection string of a section with names: `[databases]`, `[users]`, `[peers]`.
#[derive(Debug)]
pub(crate) struct Parameter {
    /// Its name.
    pub(crate) name: &'static str,
    /// Values that say the same as nothing.
    pub(super) unset: &'static [&'static str],
    pub(super) sort: Sort,
    /// What becomes of it.
    pub(crate) mapping: Mapping,
}

/// The address of the server and the login there: what becomes the URL.
pub(crate) const ADDRESS: [&str; 5] = ["host", "port", "dbname", "user", "password"];

const fn parameter(name: &'static str, sort: Sort, mapping: Mapping) -> Parameter {
    Parameter {
        name,
        unset: &[],
        sort,
        mapping,
    }
}

const fn text(name: &'static str) -> Parameter {
    parameter(name, Sort::Text, Mapping::Key(name))
}

/// A number that is not set when it is -1.
const fn number(name: &'static str) -> Parameter {
    number_as(name, name)
}

/// The same, called otherwise here.
const fn number_as(name: &'static str, here: &'static str) -> Parameter {
    Parameter {
        unset: &["-1"],
        ..parameter(name, Sort::Number, Mapping::Key(here))
    }
}

const fn seconds(name: &'static str) -> Parameter {
    Parameter {
        unset: &["-1"],
        ..parameter(name, Sort::Seconds, Mapping::Key(name))
    }
}

/// The keys of `[databases]` beside [`ADDRESS`].
pub(crate) static OF_DATABASES: &[Parameter] = &[
    text("auth_user"),
    text("auth_query"),
    text("auth_dbname"),
    number("pool_size"),
    number("min_pool_size"),
    number("reserve_pool_size"),
    number_as("reserve_pool", "reserve_pool_size"),
    text("connect_query"),
    text("pool_mode"),
    seconds("query_wait_timeout"),
    parameter(
        "load_balance_hosts",
        Sort::Text,
        Mapping::Ignored("Paceline uses the first host of a list"),
    ),
    parameter(
        "target_session_attrs",
        Sort::Text,
        Mapping::Refused {
            unless: &["any"],
            why: "Paceline does not check whether a server accepts writes; name one host, and remove the key",
        },
    ),
    number("max_db_connections"),
    number("max_db_client_connections"),
    Parameter {
        unset: &["0"],
        ..seconds("server_lifetime")
    },
    text("client_encoding"),
    text("datestyle"),
    text("timezone"),
    text("application_name"),
];

/// The keys of `[users]`.
pub(crate) static OF_USERS: &[Parameter] = &[
    number("pool_size"),
    number("reserve_pool_size"),
    text("pool_mode"),
    number("max_user_connections"),
    seconds("query_timeout"),
    seconds("query_wait_timeout"),
    seconds("idle_transaction_timeout"),
    seconds("transaction_timeout"),
    seconds("client_idle_timeout"),
    number("max_user_client_connections"),
];

/// The keys of `[peers]`.
pub(crate) static OF_PEERS: &[Parameter] = &[text("host"), number("port"), number("pool_size")];
