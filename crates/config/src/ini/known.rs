//! The keys of PgBouncer 1.25, and the counterpart of each in Paceline. If Paceline has a key of the same name, the entry of that key in
//! `settings` states PgBouncer's default. This file lists the others.

use crate::overrides::keys_in;
use crate::settings::form::Syntax::{self, Number, Path, Seconds, Switch, Text};
use crate::settings::{Table, keys};
use std::sync::LazyLock;

/// The counterpart in Paceline of a key of PgBouncer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mapping {
    /// Paceline has this key for it.
    Key(&'static str),
    /// The key is part of another one.
    PartOf(&'static str),
    /// Paceline accepts the key and warns, with this reason.
    Ignored(&'static str),
    /// Operators may rely on the key: Paceline rejects every value but these.
    Refused {
        /// The values that describe what Paceline does anyway.
        unless: &'static [&'static str],
        /// The reason, and what to do.
        why: &'static str,
    },
}

/// One key of a section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its default in PgBouncer; empty if there is none.
    pub(crate) default: &'static str,
    pub(super) syntax: Syntax,
    /// The counterpart in Paceline.
    pub(crate) mapping: Mapping,
}

/// The counterpart in Paceline of PgBouncer's key of this name; `None` if PgBouncer has no such key.
#[must_use]
pub fn pgbouncer_mapping(key: &str) -> Option<Mapping> {
    let known = KNOWN.iter().find(|known| known.name == key);
    known.map(|known| known.mapping)
}

/// The keys of `[pgbouncer]`.
pub(crate) static KNOWN: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let here = keys().filter_map(|key| {
        let there = key.in_pgbouncer?;
        Some(known(
            key.name,
            there.default,
            there.syntax,
            Mapping::Key(key.name),
        ))
    });
    here.chain(OTHERS.iter().copied()).collect()
});

/// The keys of `[databases]` without [`ADDRESS`].
pub(crate) static OF_DATABASES: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let others = OTHERS_OF_DATABASES.iter().copied();
    overrides(Table::Database).chain(others).collect()
});

/// The keys of `[users]`.
pub(crate) static OF_USERS: LazyLock<Vec<Known>> =
    LazyLock::new(|| overrides(Table::User).collect());

/// The keys of `[peers]`.
pub(crate) static OF_PEERS: LazyLock<Vec<Known>> = LazyLock::new(|| {
    vec![
        text("host"),
        number("port", "port"),
        number("pool_size", "pool_size"),
    ]
});

/// The keys of `[databases]` that become the URL of the server.
pub(crate) const ADDRESS: [&str; 5] = ["host", "port", "dbname", "user", "password"];

/// The key of `[databases]` that means more if the database has several hosts.
pub(crate) const TARGET_SESSION_ATTRS: &str = "target_session_attrs";

/// PgBouncer's default of a key in `[databases]`, `[users]` or `[peers]`: the value of `[pgbouncer]` applies.
const AS_IN_MAIN: &str = "-1";

/// The keys of PgBouncer that override one of `[pgbouncer]` in such a table.
fn overrides(table: Table) -> impl Iterator<Item = Known> {
    keys_in(table).filter_map(|key| {
        let syntax = key.in_pgbouncer?.syntax;
        let default = match syntax {
            // PgBouncer's tables have 0 instead of -1 for the value of `[pgbouncer]` here.
            _ if key.name == "server_lifetime" => "0",
            Number | Seconds => AS_IN_MAIN,
            _ => "",
        };
        Some(known(
            key.override_name,
            default,
            syntax,
            Mapping::Key(key.override_name),
        ))
    })
}

const fn known(
    name: &'static str,
    default: &'static str,
    syntax: Syntax,
    mapping: Mapping,
) -> Known {
    Known {
        name,
        default,
        syntax,
        mapping,
    }
}

const fn text(name: &'static str) -> Known {
    known(name, "", Text, Mapping::Key(name))
}

const fn number(name: &'static str, here: &'static str) -> Known {
    known(name, AS_IN_MAIN, Number, Mapping::Key(here))
}

const fn part_of(name: &'static str, default: &'static str, whole: &'static str) -> Known {
    known(name, default, Text, Mapping::PartOf(whole))
}

const fn ignored(
    name: &'static str,
    default: &'static str,
    syntax: Syntax,
    why: &'static str,
) -> Known {
    known(name, default, syntax, Mapping::Ignored(why))
}

const fn refused(
    name: &'static str,
    default: &'static str,
    syntax: Syntax,
    unless: &'static [&'static str],
    why: &'static str,
) -> Known {
    known(name, default, syntax, Mapping::Refused { unless, why })
}

const SYSTEM: &str = "sockets keep the settings of the operating system";
const BUFFERS: &str = "Paceline chooses its buffers itself";
const DNS: &str = "the operating system resolves host names: with one host for every new connection, with several when Paceline connects to ask for their state, and every 5 s";
const CIPHERS: &str = "Paceline offers only secure cipher suites, and they are not configurable";

/// The keys of `[pgbouncer]` that Paceline does not have, in the order of PgBouncer's documentation.
#[rustfmt::skip]
const OTHERS: &[Known] = &[
    part_of("listen_addr", "", "listen"),
    part_of("listen_port", "6432", "listen"),
    ignored("unix_socket_group", "", Text, "the Unix socket belongs to the group of the process; start paceline with that group"),
    ignored("server_round_robin", "0", Switch, "Paceline prefers the connection that was used last"),
    refused("disable_pqexec", "0", Switch, &["0"], "the simple protocol cannot be switched off; remove the key if that is acceptable"),
    ignored("application_name_add_host", "0", Switch, "Paceline does not change application_name"),
    ignored("conffile", "", Path, "the file is the one on the command line"),
    ignored("service_name", "", Text, "there is no Windows service"),
    ignored("job_name", "pgbouncer", Text, "there is no Windows service"),
    ignored("scram_iterations", "4096", Number, "secrets keep the iterations that they were made with"),
    refused("auth_ldap_options", "", Text, &[""], "Paceline has no LDAP; choose another auth_type, or list the methods in auth_hba_file"),
    ignored("server_reset_query_always", "0", Switch, "Paceline tracks session state and resets a connection when necessary"),
    ignored("server_fast_close", "0", Switch, "a connection is replaced when its transaction has ended"),
    ignored("pool_idle_timeout", "0", Seconds, "Paceline keeps pools"),
    ignored("dns_max_ttl", "15", Seconds, DNS),
    ignored("dns_nxdomain_ttl", "15", Seconds, DNS),
    ignored("dns_zone_check_period", "0", Seconds, DNS),
    ignored("resolv_conf", "", Path, DNS),
    ignored("suspend_timeout", "10", Seconds, "an online restart (-R) hands no connections over: the old process serves its clients until they leave"),
    ignored("client_tls13_ciphers", "", Text, CIPHERS),
    ignored("client_tls_ecdhcurve", "auto", Text, CIPHERS),
    ignored("client_tls_dheparams", "auto", Text, CIPHERS),
    ignored("server_tls13_ciphers", "", Text, CIPHERS),
    ignored("pkt_buf", "4096", Number, BUFFERS),
    ignored("max_packet_size", "2147483647", Number, "Paceline has PostgreSQL's limit"),
    ignored("sbuf_loopcnt", "5", Number, BUFFERS),
    ignored("tcp_defer_accept", "1", Number, SYSTEM),
    ignored("tcp_socket_buffer", "0", Number, SYSTEM),
];

/// The keys of `[databases]` that are read without [`crate::PoolOverrides`], and a second name of one that is not.
#[rustfmt::skip]
const OTHERS_OF_DATABASES: &[Known] = &[
    number("reserve_pool", "reserve_pool_size"),
    text("auth_user"),
    text("auth_query"),
    text("auth_dbname"),
    text("connect_query"),
    ignored("load_balance_hosts", "", Text, "clients get the primary"),
    refused(TARGET_SESSION_ATTRS, "", Text, &["any"], "Paceline sends no requests to replicas, and does not check whether a single host accepts writes; name all hosts and write read-write or primary, or remove the key"),
    text("client_encoding"),
    text("datestyle"),
    text("timezone"),
    text("application_name"),
];
