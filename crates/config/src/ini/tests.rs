//! Whole files: their configuration, their errors, and that an import has the same meaning.

mod hosts;
mod table;

use super::*;
use crate::PasswordSource;
use crate::file::keys_of;
use crate::hosts::Host;
use crate::settings::form::Syntax;
use crate::tests::with_passwords_read;
use crate::{Settings, Table, keys};
use known::{KNOWN, Known, Mapping, OF_DATABASES, OF_USERS};
use proptest::prelude::*;
use std::path::PathBuf;

/// The lines that every file here needs: authentication of clients, and an address.
const MAIN_LINES: &str = "[pgbouncer]\nauth_type = trust\nlisten_addr = 127.0.0.1\n";

/// Read with one database more.
fn ini(text: &str) -> Result<Ini, String> {
    let text = format!("{text}\n[databases]\nspare = host=spare\n");
    read(&text, "p.ini").map_err(|error| error.to_string())
}

fn whole(text: &str) -> Result<(Config, Vec<String>), String> {
    let (config, remarks) = ini(text)?.config().map_err(|error| error.to_string())?;
    Ok((config, remarks.iter().map(Remark::to_string).collect()))
}

#[track_caller]
fn config(text: &str) -> Config {
    whole(&format!("{MAIN_LINES}{text}")).unwrap().0
}

/// The remarks about the lines behind [`MAIN_LINES`].
#[track_caller]
fn remarks(text: &str) -> Vec<String> {
    let remarks = whole(&format!("{MAIN_LINES}{text}")).unwrap().1;
    remarks
        .into_iter()
        .filter(|remark| !remark.starts_with("p.ini:1:"))
        .collect()
}

#[track_caller]
fn refused(text: &str) -> String {
    whole(&format!("{MAIN_LINES}{text}")).unwrap_err()
}

fn server(config: &Config, name: &str) -> String {
    let (database, on_server) = config.database(name).unwrap();
    let upstream = &database.primary;
    let user = upstream.user.as_deref().unwrap_or("-");
    let password = match &upstream.password {
        Some(PasswordSource::Written(password)) => password.reveal(),
        _ => "-",
    };
    format!("{user} {password} {upstream} {on_server}")
}

#[test]
fn a_file_as_they_are() {
    let config = config(
        ";; comment\nlisten_port = 7000\nunix_socket_dir = /run/paceline\nmax_client_conn = 0x400\n\
         default_pool_size = 30\nserver_idle_timeout = 90.5\n\n[databases]\n\
         app = host=10.0.0.5 port=5433 dbname=shop user=svc password='it''s' pool_size=5\n\
         \"my db\" =\n* = host=::1\n",
    );
    let settings = &config.paceline;
    assert_eq!(settings.listening.listen.to_string(), "127.0.0.1:7000");
    assert_eq!(
        settings.listening.unix_socket_dir,
        Some("/run/paceline".into())
    );
    assert_eq!(settings.pooling.max_client_conn, 1024);
    assert_eq!(settings.timeouts.server_idle_timeout.as_millis(), 90_500);
    assert_eq!(server(&config, "app"), "svc it's 10.0.0.5:5433/shop shop");
    let primary = "postgres://svc:it%27s@10.0.0.5:5433/shop";
    let expected = format!(
        "[databases.app]
primary = \"{primary}\"
default_pool_size = 5"
    );
    let expected = Config::from_toml(&expected, "p.toml").unwrap();
    assert_eq!(config.databases["app"], expected.databases["app"]);
    assert_eq!(server(&config, "my db"), "- - /run/paceline:5432 my db");
    assert_eq!(server(&config, "other"), "- - [::1]:5432 other");
}

#[test]
fn connections_are_begun_with_settings() {
    let config = config("[databases]\nx = host=a timezone='a b' client_encoding=UTF8\n");
    let (database, _) = config.database("x").unwrap();
    let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let expected = [("client_encoding", "UTF8"), ("timezone", "a b")].map(own);
    assert_eq!(database.startup, expected);
}

#[test]
fn missing_keys_have_pgbouncers_defaults() {
    let config = config("[databases]\nsocket =\n");
    assert_eq!(config.paceline.pooling.max_client_conn, 100);
    let (database, _) = config.database("socket").unwrap();
    assert_eq!(database.primary.host, Host::Unix(PathBuf::from("/tmp")));
    for key in keys() {
        let Some(known) = KNOWN.iter().find(|known| known.name == key.name) else {
            continue;
        };
        if known.name == "auth_type" {
            continue;
        }
        let mut expected = Config::default();
        expected
            .set(&format!("{}={}", key.name, known.default))
            .unwrap();
        assert_eq!(key.show(&config.paceline), key.show(&expected.paceline));
    }
}

/// Whether it is among the keys here, and is said to be.
fn is_here_as_said(name: &str, mapping: Mapping, here: &[&str]) -> bool {
    match mapping {
        Mapping::Key(key) => here.contains(&key),
        Mapping::PartOf(whole) => here.contains(&whole) && !here.contains(&name),
        Mapping::Ignored(_) | Mapping::Refused { .. } => !here.contains(&name),
    }
}

#[test]
fn keys_are_here_exactly_where_that_is_said() {
    let here: Vec<&str> = keys().map(|key| key.name).collect();
    for Known { name, mapping, .. } in KNOWN.iter() {
        assert!(
            is_here_as_said(name, *mapping, &here),
            "{name}: {mapping:?}"
        );
    }
    let tables = [(&OF_DATABASES, Table::Database), (&OF_USERS, Table::User)];
    for (parameters, table) in tables {
        let here = keys_of(table);
        for Known { name, mapping, .. } in parameters.iter() {
            assert!(
                is_here_as_said(name, *mapping, &here),
                "{name}: {mapping:?}"
            );
        }
    }
}

#[test]
fn every_key_of_pgbouncer_is_known_once() {
    let mut names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), KNOWN.len());
    assert_eq!(
        refused("listen_adr = x"),
        "p.ini:4: unknown key \"listen_adr\" in [pgbouncer]; did you mean \"listen_addr\"?"
    );
    assert!(refused("colour = x").ends_with("PgBouncer 1.25 has no such key; remove it"));
}

#[test]
fn keys_without_an_equivalent_are_remarked() {
    let (pkt_buf, size) = ("pkt_buf = 8192", "sbuf_loopcnt=0");
    let remarks = remarks(&format!("{size}\n{pkt_buf}\nresolv_conf = x.conf\n"));
    let lines: Vec<&str> = remarks
        .iter()
        .map(|remark| remark.split(" is ignored").next().unwrap())
        .collect();
    assert_eq!(
        lines,
        [
            "p.ini:4: sbuf_loopcnt",
            "p.ini:5: pkt_buf",
            "p.ini:6: resolv_conf"
        ]
    );
    assert!(remarks.iter().all(|remark| !remark.contains("x.conf")));
}

#[test]
fn keys_of_checks_and_the_log_are_read() {
    let config = config(
        "server_check_query = select 1\nserver_check_delay = 7\nlogin_notify_message = hello\n\
         client_tls_protocols = all\nlogfile = /tmp/p.log\nsyslog = 1\nsyslog_facility = local3\n\
         log_connections = 0\nverbose = 3\n[databases]\nx = host=a connect_query='set jit to ''off'''\n",
    );
    let settings = &config.paceline;
    assert_eq!(settings.pooling.check_query(), Some("select 1"));
    assert_eq!(settings.pooling.server_check_delay.as_secs(), 7);
    assert_eq!(settings.login.login_notify_message, "hello");
    assert_eq!(settings.logging.syslog_facility.code(), 19);
    assert_eq!(settings.logging.syslog_ident, "pgbouncer");
    assert!(settings.logging.syslog && !settings.logging.log_connections);
    assert_eq!(settings.logging.verbose, 3);
    assert_eq!(config.databases["x"].connect_query, "set jit to 'off'");
    let remarks = config.remarks();
    assert_eq!(remarks.len(), 1);
    assert!(remarks[0].to_string().starts_with("client_tls_protocols: "));
}

#[test]
fn keys_that_safety_relies_on_are_refused() {
    for (line, expected) in [
        (
            "disable_pqexec = 1",
            "p.ini:4: disable_pqexec: the simple protocol",
        ),
        ("auth_type = pam", "p.ini:4: auth_type: "),
        (
            "auth_ldap_options = x",
            "p.ini:4: auth_ldap_options: Paceline has no LDAP",
        ),
        (
            "listen_addr = a.example",
            "p.ini:4: listen: a.example:6432 is not an address",
        ),
        (
            "listen_addr = 127.0.0.1, ::1",
            "p.ini:4: listen_addr: Paceline listens on one address",
        ),
        (
            "[databases]\nx = host=@a",
            "p.ini:5: host: abstract Unix sockets",
        ),
        (
            "[databases]\n* = host=a dbname=b",
            "p.ini:5: dbname: for * PgBouncer leads",
        ),
        (
            "[databases]\nx = host=a port=http",
            "p.ini:5: port: it is not a number",
        ),
        (
            "[databases]\nx = host=a target_session_attrs=standby",
            "p.ini:5: target_session_attrs: ",
        ),
        (
            "[databases]\npgbouncer = host=a",
            "p.ini:5: \"pgbouncer\" cannot be the name",
        ),
        (
            "[databases]\nx = host=a pass=s3cret",
            "p.ini:5: unknown key \"pass\" in [databases]",
        ),
        (
            "[databases]\nx = password=",
            "p.ini:5: this is no list of key=value",
        ),
        (
            "[databases]\nx = host=a pool_size=s3",
            "p.ini:5: pool_size: s3 is not a whole number",
        ),
        (
            "[users]\nx = pool=1",
            "p.ini:5: unknown key \"pool\" in [users]",
        ),
        (
            "[peers]\n1 = user=1",
            "p.ini:5: unknown key \"user\" in [peers]; PgBouncer",
        ),
        ("[elsewhere]\na = b", "p.ini:4: unknown section [elsewhere]"),
        ("[pgbouncer]\n", "p.ini:4: [pgbouncer] begins again"),
        (
            "unix_socket_dir =\n[databases]\nx = dbname=y",
            "p.ini:6: host: there is none",
        ),
    ] {
        let message = refused(line);
        assert!(
            message.starts_with(expected) && message.lines().count() == 1,
            "{line}: {message}"
        );
        assert!(!message.contains("s3cret"));
    }
    assert!(
        whole("[databases]\nx = host=a")
            .unwrap_err()
            .contains("there is no [pgbouncer] section")
    );
    assert!(
        whole("a = b\n[pgbouncer]\nauth_type = trust")
            .unwrap_err()
            .starts_with("p.ini:1: \"a\" is not in a section")
    );
}

#[test]
fn every_problem_is_reported_from_top_to_bottom() {
    let message = refused("max_client_conn = x\nno line\ncolour = 1\n[databases]\nx = y\n");
    let lines: Vec<&str> = message
        .lines()
        .map(|line| line.split(": ").next().unwrap())
        .collect();
    assert_eq!(lines, ["p.ini:4", "p.ini:5", "p.ini:6", "p.ini:8"]);
}

/// Problems that only the reader of TOML finds are reported with the line of the old file.
#[test]
fn values_outside_limits_have_the_line_of_the_ini() {
    for (text, expected) in [
        (
            "\ndefault_pool_size = 99999",
            "p.ini:5: default_pool_size: 99999 is outside",
        ),
        ("[databases]\n\nx = host=a pool_size=99999", "p.ini:6: "),
    ] {
        let message = refused(text);
        assert!(message.starts_with(expected), "{message}");
        assert!(message.contains("pool_size: 99999 is outside its limits; write a value from"));
    }
}

#[test]
fn a_file_without_databases_starts_no_postgresql() {
    for text in ["", "[databases]\n"] {
        let error = read(&format!("{MAIN_LINES}{text}"), "p.ini")
            .map(drop)
            .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("p.ini:1: there is no database in [databases]")
        );
    }
}

#[test]
fn permissions_are_numbers_of_c() {
    for mode in ["0777", "511", "0x1ff"] {
        whole(&format!("{MAIN_LINES}unix_socket_mode = {mode}")).unwrap();
    }
}

#[test]
fn the_last_value_counts() {
    let config = config(
        "max_client_conn = 1\nmax_client_conn = 2\n[databases]\nx = host=a\nx = host=b host=c",
    );
    assert_eq!(config.paceline.pooling.max_client_conn, 2);
    assert_eq!(server(&config, "x"), "- - c:5432 x");
}

#[test]
fn addresses_become_one() {
    for (lines, listen) in [
        ("listen_addr = localhost", "127.0.0.1:6432"),
        ("listen_addr = ::1\nlisten_port = 1", "[::1]:1"),
        ("listen_addr =", "127.0.0.1:6432"),
    ] {
        assert_eq!(config(lines).paceline.listening.listen.to_string(), listen);
    }
    let text = "[pgbouncer]\nauth_type = trust\n";
    let said = whole(text).unwrap().1;
    assert!(
        said.iter()
            .any(|remark| remark.contains("listen_addr is not set")),
        "{said:?}"
    );
    assert!(
        whole(&format!("{text}unix_socket_mode = 0700"))
            .unwrap_err()
            .contains("p.ini:3: unix_socket_mode: ")
    );
}

#[test]
fn prepared_statements_cannot_be_switched_off() {
    // Whether 0 is a value of the key or not, the file is valid.
    whole(&format!("{MAIN_LINES}max_prepared_statements = 0")).unwrap();
}

#[test]
fn files_are_distinguished() {
    for (name, text, expected) in [
        ("pgbouncer.ini", "", true),
        ("paceline.toml", "[pgbouncer]", false),
        ("config", " [pgbouncer]\n", true),
        ("config", "; x\n", true),
        ("config", "%include x\n", true),
        ("config", "[paceline]\nhotspot = true", false),
    ] {
        assert_eq!(is_ini(Path::new(name), text), expected, "{name} {text}");
    }
}

#[test]
fn an_import_shows_no_password() {
    let text = format!(
        "{MAIN_LINES}pkt_buf = 1\n[databases]\nx = host=a user=u password=s3cret\ny = host=b\n"
    );
    let toml = ini(&text).unwrap().toml(Passwords::Withheld);
    assert!(!toml.contains("s3cret"), "{toml}");
    for line in [
        "[paceline]",
        "listen = \"127.0.0.1:6432\"",
        "max_client_conn = 100  # PgBouncer's default",
        "# p.ini:4: pkt_buf has no equal: Paceline chooses its buffers itself",
        "[databases.x]",
        "primary = \"postgres://u@a:5432\"",
    ] {
        assert!(toml.lines().any(|found| found == line), "{line}\n{toml}");
    }
    assert_eq!(toml.matches("# password_file").count(), 1);
    Config::from_toml(&toml, "p.toml").unwrap();
}

/// The configuration that an import produces, with the passwords in files.
fn imported(ini: &Ini) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let write = |(number, (_, password)): (usize, (&str, &str))| {
        let file = folder.path().join(number.to_string());
        std::fs::write(&file, format!("{password}\n")).unwrap();
        file.display().to_string()
    };
    let files: Vec<String> = ini.passwords().enumerate().map(write).collect();
    let toml = ini.toml(Passwords::Files(&files));
    let config = Config::from_toml(&toml, "p.toml");
    with_passwords_read(config.unwrap_or_else(|error| panic!("{error}\n{toml}")))
}

/// A value that the key may have, different from its default where that is easy.
fn value(known: &'static Known) -> BoxedStrategy<String> {
    let default = known.default.to_owned();
    match (known.syntax, known.mapping) {
        (_, Mapping::Refused { .. } | Mapping::PartOf(_)) => Just(default).boxed(),
        (Syntax::Number, _) => prop_oneof![
            (1..60u32).prop_map(|n| n.to_string()),
            (8..60u32).prop_map(|n| format!("{n:#x}"))
        ]
        .boxed(),
        (Syntax::Switch, _) => prop_oneof![Just("0".to_owned()), Just("1".to_owned())].boxed(),
        (Syntax::Seconds, _) => prop_oneof![
            (0..5000u32).prop_map(|n| n.to_string()),
            "[0-9]{1,3}\\.[0-9]{1,3}"
        ]
        .boxed(),
        (Syntax::Path, _) => "/[a-z]{1,8}".boxed(),
        (Syntax::Text | Syntax::Mode, _) => Just(default).boxed(),
    }
}

fn main_lines() -> impl Strategy<Value = Vec<String>> {
    let line = (0..KNOWN.len()).prop_flat_map(|at| {
        let known = &KNOWN[at];
        value(known).prop_map(|value| format!("{} = {value}", known.name))
    });
    prop::collection::vec(line, 0..12)
}

fn database_line() -> impl Strategy<Value = String> {
    let name = prop_oneof!["[a-z_]{1,6}", "[ -~é]{1,6}", Just("*".to_owned())];
    let quoted = |text: String| format!("'{}'", text.replace('\'', "''"));
    let text = "[ -~é]{1,9}".prop_map(quoted);
    let pair = prop_oneof![
        prop_oneof![
            Just("db.example"),
            Just("10.0.0.5"),
            Just("fe80::1"),
            Just("/run/pg")
        ]
        .prop_map(|host| format!("host={host}")),
        (1..=u16::MAX).prop_map(|port| format!("port={port}")),
        text.clone().prop_map(|text| format!("user={text}")),
        text.prop_map(|text| format!("password={text}")),
        "[a-z]{1,5}".prop_map(|name| format!("dbname={name}")),
        (1..50u32).prop_map(|size| format!("pool_size={size}")),
        (1..50u32).prop_map(|size| format!("min_pool_size={size}")),
        (1..50u32).prop_map(|size| format!("reserve_pool={size}")),
        (-1..50i32).prop_map(|size| format!("max_db_connections={size}")),
        (0..5000u32).prop_map(|time| format!("server_lifetime={time}")),
        Just("pool_mode=transaction".to_owned()),
        Just("load_balance_hosts=disable".to_owned()),
        Just("timezone='Asia/Tokyo' datestyle=German".to_owned()),
    ];
    (name, prop::collection::vec(pair, 0..5)).prop_map(|(name, pairs)| {
        format!("\"{}\" = {}", name.replace('"', "\"\""), pairs.join(" "))
    })
}

proptest! {
    #![proptest_config(paceline_testing::cases(100))]
    #[test]
    fn an_import_means_the_same(main in main_lines(), databases in prop::collection::vec(database_line(), 0..4)) {
        // Another test checks lines that are refused by themselves.
        let main = main.into_iter().filter(|line| whole(&format!("{MAIN_LINES}{line}")).is_ok());
        let in_databases = |line: &String| whole(&format!("{MAIN_LINES}[databases]\n{line}")).is_ok();
        let databases = databases.into_iter().filter(in_databases);
        let text = format!(
            "{MAIN_LINES}{}\n[databases]\n{}\n[users]\nweb = pool_size=3\n[peers]\n1 = host=a",
            main.collect::<Vec<_>>().join("\n"),
            databases.collect::<Vec<_>>().join("\n")
        );
        let ini = ini(&text);
        // Keys that are right by themselves may be wrong together.
        prop_assume!(ini.is_ok());
        let ini = ini.unwrap();
        let config = ini.config();
        prop_assume!(config.is_ok());
        let (config, _) = config.unwrap();
        prop_assert_eq!(imported(&ini), config, "{}", text);
    }
}

#[test]
fn the_settings_are_pgbouncers_and_no_others() {
    let (ours, theirs) = (Settings::default(), config("").paceline);
    assert_eq!(
        ours.pooling.default_pool_size,
        theirs.pooling.default_pool_size
    );
    assert_eq!(
        (ours.pooling.max_client_conn, theirs.pooling.max_client_conn),
        (10_000, 100)
    );
    assert_eq!(
        (ours.grouping, ours.operation),
        (theirs.grouping, theirs.operation)
    );
}

/// A peer without `host` is reached by the Unix socket, as in PgBouncer.
#[test]
fn peers_are_those_of_the_section() {
    let text = format!(
        "{MAIN_LINES}peer_id = 1\nunix_socket_dir = /run/p\n[databases]\napp = host=db\n[peers]\n1 = port=6543\n2 = host=10.0.0.2 pool_size=-1\n3=host=/run/q pool_size=7"
    );
    let (config, remarks) = ini(&text).unwrap().config().unwrap();
    assert_eq!(config.paceline.listening.peer_id, 1);
    let shown: Vec<_> = config
        .peers
        .iter()
        .map(|(id, peer)| (*id, &peer.host, peer.port, peer.pool_size(&config.paceline)))
        .collect();
    let [here, there] = ["/run/p", "/run/q"].map(|folder| Host::Unix(folder.into()));
    let other = Host::Tcp("10.0.0.2".to_owned());
    assert_eq!(
        shown,
        [
            (1, &here, 6543, 20),
            (2, &other, 6432, 20),
            (3, &there, 6432, 7)
        ]
    );
    assert!(
        remarks
            .iter()
            .all(|remark| !remark.to_string().contains("peer"))
    );
}
