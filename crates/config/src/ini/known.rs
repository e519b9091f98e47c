//! Every key of PgBouncer 1.25: its default, how PgBouncer writes its value, and what Paceline makes of it. Tests compare the keys
//! that Paceline has for them with [`crate::settings::keys`], in both directions.

use super::mapping::{Mapping, Sort};

/// One key of the section `[pgbouncer]`.
#[derive(Debug)]
pub(crate) struct Known {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its default in PgBouncer; empty where there is none.
    pub(crate) default: &'static str,
    pub(super) sort: Sort,
    /// What Paceline makes of it.
    pub(crate) mapping: Mapping,
}

/// What Paceline makes of PgBouncer's key of this name; `None` if PgBouncer has no such key.
#[must_use]
pub fn pgbouncer_mapping(key: &str) -> Option<Mapping> {
    let known = KNOWN.iter().find(|known| known.name == key);
    known.map(|known| known.mapping)
}

const fn same(name: &'static str, default: &'static str, sort: Sort) -> Known {
    Known {
        name,
        default,
        sort,
        mapping: Mapping::Key(name),
    }
}

const fn part_of(name: &'static str, default: &'static str, whole: &'static str) -> Known {
    Known {
        name,
        default,
        sort: Sort::Text,
        mapping: Mapping::PartOf(whole),
    }
}

const fn ignored(
    name: &'static str,
    default: &'static str,
    sort: Sort,
    why: &'static str,
) -> Known {
    Known {
        name,
        default,
        sort,
        mapping: Mapping::Ignored(why),
    }
}

const fn refused(
    name: &'static str,
    default: &'static str,
    sort: Sort,
    unless: &'static [&'static str],
    why: &'static str,
) -> Known {
    Known {
        name,
        default,
        sort,
        mapping: Mapping::Refused { unless, why },
    }
}

const SYSTEM: &str = "sockets keep the settings of the operating system";
const BUFFERS: &str = "Paceline chooses its buffers itself";
const DNS: &str = "the operating system resolves host names for every new connection";
const CIPHERS: &str = "Paceline offers only secure cipher suites, and they are not configurable";

/// All keys of `[pgbouncer]`, in the order of PgBouncer's documentation.
pub(crate) static KNOWN: &[Known] = &[
    // Generic settings
    same("logfile", "", Sort::Path),
    same("pidfile", "", Sort::Path),
    part_of("listen_addr", "", "listen"),
    part_of("listen_port", "6432", "listen"),
    same("unix_socket_dir", "/tmp", Sort::Path),
    same("unix_socket_mode", "0777", Sort::Mode),
    ignored(
        "unix_socket_group",
        "",
        Sort::Text,
        "the Unix socket belongs to the group of the process; start paceline with that group",
    ),
    same("user", "", Sort::Text),
    same("pool_mode", "session", Sort::Text),
    same("max_client_conn", "100", Sort::Number),
    same("default_pool_size", "20", Sort::Number),
    same("min_pool_size", "0", Sort::Number),
    same("reserve_pool_size", "0", Sort::Number),
    same("reserve_pool_timeout", "5", Sort::Seconds),
    same("max_db_connections", "0", Sort::Number),
    same("max_db_client_connections", "0", Sort::Number),
    same("max_user_connections", "0", Sort::Number),
    same("max_user_client_connections", "0", Sort::Number),
    ignored(
        "server_round_robin",
        "0",
        Sort::Switch,
        "Paceline uses the connection next that was used last",
    ),
    same("track_extra_parameters", "IntervalStyle", Sort::Text),
    same("ignore_startup_parameters", "", Sort::Text),
    same("peer_id", "0", Sort::Number),
    refused(
        "disable_pqexec",
        "0",
        Sort::Switch,
        &["0"],
        "the simple protocol cannot be switched off; remove the key if that is acceptable",
    ),
    ignored(
        "application_name_add_host",
        "0",
        Sort::Switch,
        "Paceline does not change application_name",
    ),
    ignored(
        "conffile",
        "",
        Sort::Path,
        "the file is the one on the command line",
    ),
    ignored(
        "service_name",
        "",
        Sort::Text,
        "there is no Windows service",
    ),
    ignored(
        "job_name",
        "pgbouncer",
        Sort::Text,
        "there is no Windows service",
    ),
    same("stats_period", "60", Sort::Number),
    same("max_prepared_statements", "200", Sort::Number),
    ignored(
        "scram_iterations",
        "4096",
        Sort::Number,
        "secrets keep the iterations that they were made with",
    ),
    // Authentication
    same("auth_type", "md5", Sort::Text),
    same("auth_hba_file", "", Sort::Path),
    same("auth_ident_file", "", Sort::Path),
    same("auth_file", "", Sort::Path),
    same("auth_user", "", Sort::Text),
    same(
        "auth_query",
        "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword END FROM pg_authid WHERE rolname=$1 AND rolcanlogin",
        Sort::Text,
    ),
    same("auth_dbname", "", Sort::Text),
    refused(
        "auth_ldap_options",
        "",
        Sort::Text,
        &[""],
        "Paceline has no LDAP; choose another auth_type, or list the methods in auth_hba_file",
    ),
    // Log
    same("syslog", "0", Sort::Switch),
    same("syslog_ident", "pgbouncer", Sort::Text),
    same("syslog_facility", "daemon", Sort::Text),
    same("log_connections", "1", Sort::Switch),
    same("log_disconnections", "1", Sort::Switch),
    same("log_pooler_errors", "1", Sort::Switch),
    same("log_stats", "1", Sort::Switch),
    same("verbose", "0", Sort::Number),
    // Console
    same("admin_users", "", Sort::Text),
    same("stats_users", "", Sort::Text),
    // Sanity checks and time-outs
    same("server_reset_query", "DISCARD ALL", Sort::Text),
    ignored(
        "server_reset_query_always",
        "0",
        Sort::Switch,
        "Paceline tracks session state and resets a connection when necessary",
    ),
    same("server_check_delay", "30", Sort::Seconds),
    same("server_check_query", "<empty>", Sort::Text),
    ignored(
        "server_fast_close",
        "0",
        Sort::Switch,
        "a connection is replaced when its transaction has ended",
    ),
    same("server_lifetime", "3600", Sort::Seconds),
    same("server_idle_timeout", "600", Sort::Seconds),
    same("server_connect_timeout", "15", Sort::Seconds),
    same("server_login_retry", "15", Sort::Seconds),
    same("client_login_timeout", "60", Sort::Seconds),
    same("autodb_idle_timeout", "3600", Sort::Seconds),
    ignored(
        "pool_idle_timeout",
        "0",
        Sort::Seconds,
        "Paceline keeps pools",
    ),
    ignored("dns_max_ttl", "15", Sort::Seconds, DNS),
    ignored("dns_nxdomain_ttl", "15", Sort::Seconds, DNS),
    ignored("dns_zone_check_period", "0", Sort::Seconds, DNS),
    ignored("resolv_conf", "", Sort::Path, DNS),
    same("query_wait_notify", "5", Sort::Seconds),
    same("login_notify_message", "", Sort::Text),
    ignored(
        "suspend_timeout",
        "10",
        Sort::Seconds,
        "an online restart (-R) hands no connections over: the old process serves its clients until they leave",
    ),
    // TLS
    same("client_tls_sslmode", "disable", Sort::Text),
    same("client_tls_key_file", "", Sort::Path),
    same("client_tls_cert_file", "", Sort::Path),
    same("client_tls_ca_file", "", Sort::Path),
    same("client_tls_protocols", "secure", Sort::Text),
    same("client_tls_ciphers", "default", Sort::Text),
    ignored("client_tls13_ciphers", "", Sort::Text, CIPHERS),
    ignored("client_tls_ecdhcurve", "auto", Sort::Text, CIPHERS),
    ignored("client_tls_dheparams", "auto", Sort::Text, CIPHERS),
    same("server_tls_sslmode", "prefer", Sort::Text),
    same("server_tls_ca_file", "", Sort::Path),
    same("server_tls_key_file", "", Sort::Path),
    same("server_tls_cert_file", "", Sort::Path),
    same("server_tls_protocols", "secure", Sort::Text),
    same("server_tls_ciphers", "default", Sort::Text),
    ignored("server_tls13_ciphers", "", Sort::Text, CIPHERS),
    // Dangerous time-outs
    same("query_timeout", "0", Sort::Seconds),
    same("query_wait_timeout", "120", Sort::Seconds),
    same("cancel_wait_timeout", "10", Sort::Seconds),
    same("client_idle_timeout", "0", Sort::Seconds),
    same("idle_transaction_timeout", "0", Sort::Seconds),
    same("transaction_timeout", "0", Sort::Seconds),
    // Network
    ignored("pkt_buf", "4096", Sort::Number, BUFFERS),
    ignored(
        "max_packet_size",
        "2147483647",
        Sort::Number,
        "Paceline has PostgreSQL's limit",
    ),
    same("listen_backlog", "128", Sort::Number),
    ignored("sbuf_loopcnt", "5", Sort::Number, BUFFERS),
    same("so_reuseport", "0", Sort::Switch),
    ignored("tcp_defer_accept", "1", Sort::Number, SYSTEM),
    ignored("tcp_socket_buffer", "0", Sort::Number, SYSTEM),
    same("tcp_keepalive", "1", Sort::Switch),
    same("tcp_keepcnt", "0", Sort::Number),
    same("tcp_keepidle", "0", Sort::Number),
    same("tcp_keepintvl", "0", Sort::Number),
    same("tcp_user_timeout", "0", Sort::Number),
];
