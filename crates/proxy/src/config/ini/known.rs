//! Every key of PgBouncer 1.25: its default there, how its value is written, and what becomes of it while Paceline has no key of
//! that name. A key that appears in [`crate::config::keys`] under the same name is converted without a change here.

mod parameters;

pub(crate) use parameters::{ADDRESS, OF_DATABASES, OF_PEERS, OF_USERS, Parameter};

/// One key of the section `[pgbouncer]`.
#[derive(Debug)]
pub(crate) struct Known {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its default in PgBouncer; empty where there is none.
    pub(crate) default: &'static str,
    pub(super) sort: Sort,
    /// What becomes of it if Paceline has no key of this name.
    pub(crate) otherwise: Otherwise,
}

/// How a value is written in PgBouncer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// A whole number as C writes it: `020` is sixteen.
    Number,
    /// A number of which zero is off.
    Switch,
    /// Seconds, perhaps with a fraction.
    Seconds,
    /// Permissions of a file, a number.
    Mode,
    /// A file or folder, relative to where the process was started.
    Path,
    /// Anything else.
    Text,
}

/// What becomes of a key that Paceline does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Otherwise {
    /// It is part of another key.
    PartOf(&'static str),
    /// It is accepted, and this is remarked.
    Ignored(&'static str),
    /// Nobody would want to be without it unawares: any value but these is an error.
    Refused {
        /// What holds here anyway.
        unless: &'static [&'static str],
        /// Why, and what to do.
        why: &'static str,
    },
}

const fn part_of(name: &'static str, default: &'static str, whole: &'static str) -> Known {
    Known {
        name,
        default,
        sort: Sort::Text,
        otherwise: Otherwise::PartOf(whole),
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
        otherwise: Otherwise::Ignored(why),
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
        otherwise: Otherwise::Refused { unless, why },
    }
}

const LOG: &str = "the log goes to standard error, where systemd or a container keeps it; --log-level says how much";
const SYSTEM: &str = "sockets keep the settings of the operating system";
const BUFFERS: &str = "Paceline chooses its buffers itself";
const DNS: &str = "host names are looked up by the operating system for every new connection";
const CIPHERS: &str =
    "TLS offers only suites that are secure today; which ones is not configurable";
const CLIENT_TLS: &str = "it is for client_tls_sslmode";
const SERVER_TLS: &str = "it is for server_tls_sslmode";
const LIMIT: &str = "this limit is not there";
const TIMEOUT: &str = "this time-out is not there: the work is left to end by itself";
const NO_CHECK: &str =
    "a server connection that has died while it was idle is noticed and replaced without a query";
const NO_PEERS: &str = "cancel requests must reach the process that the query went through";

/// All keys of `[pgbouncer]`, in the order of PgBouncer's documentation.
pub(crate) static KNOWN: &[Known] = &[
    // Generic settings
    ignored("logfile", "", Sort::Path, LOG),
    ignored(
        "pidfile",
        "",
        Sort::Path,
        "no file with the process id is written",
    ),
    part_of("listen_addr", "", "listen"),
    part_of("listen_port", "6432", "listen"),
    ignored(
        "unix_socket_dir",
        "/tmp",
        Sort::Path,
        "there is no Unix socket",
    ),
    refused(
        "unix_socket_mode",
        "0777",
        Sort::Mode,
        &["0777"],
        "anybody on this machine could connect to the Unix socket; put it into a folder that only the right users may enter, and remove the key",
    ),
    ignored(
        "unix_socket_group",
        "",
        Sort::Text,
        "the Unix socket belongs to the group of the process; start paceline with that group",
    ),
    ignored(
        "user",
        "",
        Sort::Text,
        "Paceline does not change its user: start it as this one, for example with User= of systemd, and not as root",
    ),
    ignored(
        "pool_mode",
        "session",
        Sort::Text,
        "a server is shared from transaction to transaction; what a session sets follows its client, and a client whose state cannot follow it keeps its server",
    ),
    ignored("max_client_conn", "100", Sort::Number, LIMIT),
    ignored("default_pool_size", "20", Sort::Number, LIMIT),
    ignored(
        "min_pool_size",
        "0",
        Sort::Number,
        "connections are opened when they are needed",
    ),
    ignored(
        "reserve_pool_size",
        "0",
        Sort::Number,
        "there is no reserve; raise default_pool_size",
    ),
    ignored(
        "reserve_pool_timeout",
        "5",
        Sort::Seconds,
        "there is no reserve",
    ),
    ignored("max_db_connections", "0", Sort::Number, LIMIT),
    ignored("max_db_client_connections", "0", Sort::Number, LIMIT),
    ignored("max_user_connections", "0", Sort::Number, LIMIT),
    ignored("max_user_client_connections", "0", Sort::Number, LIMIT),
    ignored(
        "server_round_robin",
        "0",
        Sort::Switch,
        "the connection that was used last is used next",
    ),
    ignored(
        "track_extra_parameters",
        "IntervalStyle",
        Sort::Text,
        "every setting follows its client, whether PostgreSQL reports it or not",
    ),
    ignored(
        "ignore_startup_parameters",
        "",
        Sort::Text,
        "all startup parameters are accepted, and hold",
    ),
    ignored("peer_id", "0", Sort::Number, NO_PEERS),
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
        "application_name stays as the client says it",
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
    ignored(
        "stats_period",
        "60",
        Sort::Number,
        "/metrics shows counters, not averages",
    ),
    ignored(
        "max_prepared_statements",
        "200",
        Sort::Number,
        "prepared statements always work",
    ),
    ignored(
        "scram_iterations",
        "4096",
        Sort::Number,
        "secrets keep the iterations that they were made with",
    ),
    // Authentication
    refused(
        "auth_type",
        "md5",
        Sort::Text,
        &["trust", "any"],
        "clients cannot be asked for a proof yet; write auth_type = trust only if everybody who can connect may be any user",
    ),
    ignored(
        "auth_hba_file",
        "",
        Sort::Path,
        "it is read for auth_type = hba",
    ),
    ignored(
        "auth_ident_file",
        "",
        Sort::Path,
        "it is read for auth_type = hba",
    ),
    refused(
        "auth_file",
        "",
        Sort::Path,
        &[""],
        "the list of users is not read, so nobody would be kept out by it; remove the key if that is acceptable, and write user and password into [databases]",
    ),
    refused(
        "auth_user",
        "",
        Sort::Text,
        &[""],
        "nobody's password is asked from the database; remove the key if that is acceptable",
    ),
    ignored(
        "auth_query",
        "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword END FROM pg_authid WHERE rolname=$1 AND rolcanlogin",
        Sort::Text,
        "it is run for auth_user",
    ),
    ignored("auth_dbname", "", Sort::Text, "it is for auth_user"),
    refused(
        "auth_ldap_options",
        "",
        Sort::Text,
        &[""],
        "LDAP is not there; choose another auth_type, or let an HBA file say who comes in how",
    ),
    // Log
    ignored("syslog", "0", Sort::Switch, LOG),
    ignored("syslog_ident", "pgbouncer", Sort::Text, LOG),
    ignored("syslog_facility", "daemon", Sort::Text, LOG),
    ignored("log_connections", "1", Sort::Switch, LOG),
    ignored("log_disconnections", "1", Sort::Switch, LOG),
    ignored("log_pooler_errors", "1", Sort::Switch, LOG),
    ignored(
        "log_stats",
        "1",
        Sort::Switch,
        "/metrics shows them at any time",
    ),
    ignored("verbose", "0", Sort::Number, LOG),
    // Console
    ignored("admin_users", "", Sort::Text, "there is no admin console"),
    ignored(
        "stats_users",
        "",
        Sort::Text,
        "there is no admin console; see /metrics",
    ),
    // Sanity checks and time-outs
    ignored(
        "server_reset_query",
        "DISCARD ALL",
        Sort::Text,
        "a connection reaches the next client with that client's settings and nothing else of the last one",
    ),
    ignored(
        "server_reset_query_always",
        "0",
        Sort::Switch,
        "nothing of a client is left behind, and a client keeps what it has set",
    ),
    ignored("server_check_delay", "30", Sort::Seconds, NO_CHECK),
    ignored("server_check_query", "<empty>", Sort::Text, NO_CHECK),
    ignored(
        "server_fast_close",
        "0",
        Sort::Switch,
        "a connection is replaced when its transaction is over",
    ),
    ignored(
        "server_lifetime",
        "3600",
        Sort::Seconds,
        "connections live until they are idle for server_idle_timeout",
    ),
    ignored("server_idle_timeout", "600", Sort::Seconds, TIMEOUT),
    ignored("server_connect_timeout", "15", Sort::Seconds, TIMEOUT),
    ignored(
        "server_login_retry",
        "15",
        Sort::Seconds,
        "a server that failed is tried again for the next unit that needs it",
    ),
    ignored("client_login_timeout", "60", Sort::Seconds, TIMEOUT),
    ignored(
        "autodb_idle_timeout",
        "3600",
        Sort::Seconds,
        "pools are kept",
    ),
    ignored("pool_idle_timeout", "0", Sort::Seconds, "pools are kept"),
    ignored("dns_max_ttl", "15", Sort::Seconds, DNS),
    ignored("dns_nxdomain_ttl", "15", Sort::Seconds, DNS),
    ignored("dns_zone_check_period", "0", Sort::Seconds, DNS),
    ignored("resolv_conf", "", Sort::Path, DNS),
    ignored(
        "query_wait_notify",
        "5",
        Sort::Seconds,
        "clients are not told that they wait",
    ),
    ignored(
        "login_notify_message",
        "",
        Sort::Text,
        "clients are not greeted",
    ),
    ignored(
        "suspend_timeout",
        "10",
        Sort::Seconds,
        "there is no online restart with -R",
    ),
    // TLS
    refused(
        "client_tls_sslmode",
        "disable",
        Sort::Text,
        &["disable"],
        "TLS for clients is not there; write disable only if passwords and data may go in the clear",
    ),
    ignored("client_tls_key_file", "", Sort::Path, CLIENT_TLS),
    ignored("client_tls_cert_file", "", Sort::Path, CLIENT_TLS),
    ignored("client_tls_ca_file", "", Sort::Path, CLIENT_TLS),
    ignored(
        "client_tls_protocols",
        "secure",
        Sort::Text,
        "TLS 1.2 and 1.3 are offered",
    ),
    ignored("client_tls_ciphers", "default", Sort::Text, CIPHERS),
    ignored("client_tls13_ciphers", "", Sort::Text, CIPHERS),
    ignored("client_tls_ecdhcurve", "auto", Sort::Text, CIPHERS),
    ignored("client_tls_dheparams", "auto", Sort::Text, CIPHERS),
    refused(
        "server_tls_sslmode",
        "prefer",
        Sort::Text,
        &["disable", "allow", "prefer"],
        "TLS to the server is not there; write prefer only if the way to it is private",
    ),
    ignored("server_tls_ca_file", "", Sort::Path, SERVER_TLS),
    ignored("server_tls_key_file", "", Sort::Path, SERVER_TLS),
    ignored("server_tls_cert_file", "", Sort::Path, SERVER_TLS),
    ignored(
        "server_tls_protocols",
        "secure",
        Sort::Text,
        "TLS 1.2 and 1.3 are offered",
    ),
    ignored("server_tls_ciphers", "default", Sort::Text, CIPHERS),
    ignored("server_tls13_ciphers", "", Sort::Text, CIPHERS),
    // Dangerous time-outs
    ignored("query_timeout", "0", Sort::Seconds, TIMEOUT),
    ignored("query_wait_timeout", "120", Sort::Seconds, TIMEOUT),
    ignored(
        "cancel_wait_timeout",
        "10",
        Sort::Seconds,
        "a cancel request opens a connection of its own and does not wait",
    ),
    ignored("client_idle_timeout", "0", Sort::Seconds, TIMEOUT),
    ignored("idle_transaction_timeout", "0", Sort::Seconds, TIMEOUT),
    ignored("transaction_timeout", "0", Sort::Seconds, TIMEOUT),
    // Network
    ignored("pkt_buf", "4096", Sort::Number, BUFFERS),
    ignored(
        "max_packet_size",
        "2147483647",
        Sort::Number,
        "messages are as long as PostgreSQL's may be",
    ),
    ignored("listen_backlog", "128", Sort::Number, SYSTEM),
    ignored("sbuf_loopcnt", "5", Sort::Number, BUFFERS),
    ignored(
        "so_reuseport",
        "0",
        Sort::Switch,
        "one process uses as many threads as worker_threads says",
    ),
    ignored("tcp_defer_accept", "1", Sort::Number, SYSTEM),
    ignored("tcp_socket_buffer", "0", Sort::Number, SYSTEM),
    ignored("tcp_keepalive", "1", Sort::Switch, SYSTEM),
    ignored("tcp_keepcnt", "0", Sort::Number, SYSTEM),
    ignored("tcp_keepidle", "0", Sort::Number, SYSTEM),
    ignored("tcp_keepintvl", "0", Sort::Number, SYSTEM),
    ignored("tcp_user_timeout", "0", Sort::Number, SYSTEM),
];
