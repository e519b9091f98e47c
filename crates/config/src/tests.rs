//! Whole configurations: files, look-ups, messages.

pub(crate) mod documents;

use std::net::SocketAddr;
use std::time::Duration;

use super::*;
use std::path::Path;

/// The configuration with the passwords that its files have now.
pub(crate) fn with_passwords_read(mut config: Config) -> Config {
    for database in config.databases.values_mut() {
        let source = database.primary.password.as_ref();
        let password = source.map(|source| source.read_without_command().unwrap());
        database.primary.password = password.map(PasswordSource::Written);
    }
    config
}

fn read(text: &str) -> Config {
    Config::from_toml(text, "paceline.toml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn refused(text: &str) -> String {
    match Config::from_toml(text, "paceline.toml") {
        Ok(config) => panic!("was read as {config:?}\n{text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_consoles_name_is_no_database() {
    let error = refused("[databases.pgbouncer]\nprimary = \"postgres://db/app\"");
    assert!(
        error.contains("the admin console") && error.contains("another name"),
        "{error}"
    );
    let own = read("[databases.paceline]\nprimary = \"postgres://db/app\"");
    assert!(own.databases.contains_key("paceline"));
}

#[test]
fn a_database_of_ones_own_may_be_called_paceline() {
    let mut config = Config::for_upstream("postgres://db").unwrap();
    assert!(config.is_console("pgbouncer") && config.is_console("paceline"));
    assert!(!config.is_console("postgres"));
    let any = config.databases["*"].clone();
    config.databases.insert("paceline".to_owned(), any);
    assert!(config.is_console("pgbouncer") && !config.is_console("paceline"));
}

#[test]
fn an_empty_file_is_all_defaults() {
    assert_eq!(read(""), Config::default());
    assert_eq!(read("[paceline]\n[databases]\n"), Config::default());
}

#[test]
fn every_setting_is_read_into_its_own_field() {
    let config = read(
        r#"
        [paceline]
        listen = "[::1]:7000"
        unix_socket_dir = "/run/paceline"
        metrics_listen = "0.0.0.0:9127"
        default_pool_size = 3
        max_client_conn = 4
        max_prepared_statements = 5
        query_wait_timeout = 6
        server_connect_timeout = 0.5
        server_idle_timeout = "2min"
        client_login_timeout = "7s"
        shutdown_timeout = 0
        hotspot = false
        hotspot_for_autocommit = true
        hotspot_update_max_wait_time = 100
        hotspot_lock_type = false
        pipeline = false
        group_size_max = 8
        worker_threads = 2
        "#,
    );
    let mut expected = Settings::default();
    expected.listening.listen = "[::1]:7000".parse().unwrap();
    expected.listening.unix_socket_dir = Some("/run/paceline".into());
    expected.listening.metrics_listen = Some("0.0.0.0:9127".parse().unwrap());
    expected.pooling.default_pool_size = 3;
    expected.pooling.max_client_conn = 4;
    expected.state.max_prepared_statements = 5;
    expected.timeouts.query_wait_timeout = Duration::from_secs(6);
    expected.timeouts.server_connect_timeout = Duration::from_millis(500);
    expected.timeouts.server_idle_timeout = Duration::from_secs(120);
    expected.login.client_login_timeout = Duration::from_secs(7);
    expected.operation.shutdown_timeout = Duration::ZERO;
    expected.grouping.hotspot = false;
    expected.grouping.hotspot_for_autocommit = true;
    expected.grouping.hotspot_update_max_wait_time = Duration::from_micros(100);
    expected.grouping.hotspot_lock_type = false;
    expected.grouping.pipeline = false;
    expected.grouping.group_size_max = 8;
    expected.operation.worker_threads = Some(2);
    assert_eq!(config.paceline, expected);
}

#[test]
fn databases_are_read_with_their_overrides() {
    let config = read(
        r#"
        [databases.app]
        primary = "postgres://svc:pw@10.0.0.5/shop"
        default_pool_size = 7
        [databases.app.users.batch]
        default_pool_size = 2
        hotspot_for_autocommit = true
        [databases."*"]
        primary = "postgres://10.0.0.6/ignored"
        hotspot_for_autocommit = true
        [databases."*".users."o'hara"]
        hotspot_for_autocommit = false
        "#,
    );
    let (app, on_server) = config.database("app").unwrap();
    assert_eq!(
        (on_server.as_str(), app.primary.user.as_deref()),
        ("shop", Some("svc"))
    );
    assert_eq!(
        (
            config.pool_settings(app, "web").size,
            config.pool_settings(app, "batch").size
        ),
        (7, 2)
    );
    assert!(
        !config
            .pool_settings(app, "web")
            .grouping
            .hotspot_for_autocommit
            && config
                .pool_settings(app, "batch")
                .grouping
                .hotspot_for_autocommit
    );

    let (other, on_server) = config.database("elsewhere").unwrap();
    assert_eq!(
        (on_server.as_str(), other.primary.to_string().as_str()),
        ("elsewhere", "10.0.0.6:5432")
    );
    assert_eq!(config.pool_settings(other, "web").size, 20);
    assert!(
        config
            .pool_settings(other, "web")
            .grouping
            .hotspot_for_autocommit
            && !config
                .pool_settings(other, "o'hara")
                .grouping
                .hotspot_for_autocommit
    );
}

#[test]
fn a_named_database_without_dbname_keeps_its_name() {
    let config = read("[databases.app]\nprimary = \"postgres://db\"");
    assert_eq!(
        config
            .database("app")
            .map(|(_, on_server)| on_server)
            .as_deref(),
        Some("app")
    );
    assert!(config.database("other").is_none());
    assert!(config.database("*").is_none());
}

#[test]
fn a_name_leads_to_an_entry() {
    let named = "[databases.app]\nprimary = \"postgres://db\"\n";
    let any = "[databases.\"*\"]\nprimary = \"postgres://db\"\n";
    let config = read(named);
    assert_eq!(config.entry_name("app"), Some("app"));
    assert_eq!(
        (config.entry_name("x"), config.entry_name("*")),
        (None, None)
    );
    let config = read(&format!("{named}{any}"));
    assert_eq!(config.entry_name("app"), Some("app"));
    for name in ["x", "*", ""] {
        assert_eq!(config.entry_name(name), Some("*"), "{name}");
    }
}

#[test]
fn the_settings_of_a_database_are_those_of_no_user() {
    let config = read(
        "[paceline]\ndefault_pool_size = 2\n\
         [databases.app]\nprimary = \"postgres://svc@db\"\nfailover_timeout = 7\nreserve_pool_size = 1\n\
         [databases.app.users.svc]\npool_size = 3\n[users.svc]\npool_size = 4\n",
    );
    let app = &config.databases["app"];
    let settings = config.database_settings(app);
    assert_eq!(settings.servers.failover_timeout.as_secs(), 7);
    assert_eq!((settings.size, config.pool_size_max(app)), (2, 3));
}

#[test]
fn an_upstream_is_every_database() {
    let config = Config::for_upstream("postgres://app:pw@db/postgres").unwrap();
    for name in ["app", "postgres", "*", ""] {
        let (database, on_server) = config.database(name).unwrap();
        assert_eq!(
            (on_server.as_str(), database.primary.user.as_deref()),
            (name, Some("app"))
        );
    }
    // As for "*" in a file: the one in the URL is not used, not even in logs.
    assert_eq!(
        config,
        read("[databases.\"*\"]\nprimary = \"postgres://app:pw@db\"")
    );
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest() {
    assert_eq!(
        refused("[paceline]\n\ndefualt_pool_size = 3"),
        "paceline.toml:3: unknown key \"defualt_pool_size\" in [paceline]; did you mean \"default_pool_size\"?"
    );
    assert_eq!(
        refused("[paceline]\nmetric_listen = \"\""),
        "paceline.toml:2: unknown key \"metric_listen\" in [paceline]; did you mean \"metrics_listen\"?"
    );
    assert_eq!(
        refused("[paceline]\ncolour = 3"),
        "paceline.toml:2: unknown key \"colour\" in [paceline]; remove it, or see docs/configuration.md for the keys there are"
    );
    assert_eq!(
        refused("[databases.\"*\"]\nprimray = \"postgres://db\"\nprimary = \"postgres://db\""),
        "paceline.toml:2: unknown key \"primray\" in [databases.\"*\"]; did you mean \"primary\"?"
    );
    assert_eq!(
        refused(
            "[databases.app]\nprimary = \"postgres://db\"\n[databases.app.users.me]\npool_sizes = 1"
        ),
        "paceline.toml:4: unknown key \"pool_sizes\" in [databases.app.users.me]; did you mean \"pool_size\"?"
    );
    assert_eq!(
        refused("\n[database.app]"),
        "paceline.toml:2: unknown table or key \"database\"; did you mean [databases]?"
    );
    assert!(refused("listen = \"127.0.0.1:1\"").contains("settings belong in [paceline]"));
}

#[test]
fn every_problem_is_reported_from_top_to_bottom() {
    let message = refused(
        "[paceline]\nworker_threads = 0\nhotspot = 1\n[databases.app]\nprimary = \"db\"\n[zzz]\n",
    );
    let starts: Vec<&str> = message
        .lines()
        .map(|line| line.split_once(": ").unwrap().0)
        .collect();
    assert_eq!(
        starts,
        [
            "paceline.toml:2",
            "paceline.toml:3",
            "paceline.toml:5",
            "paceline.toml:6"
        ],
        "{message}"
    );
}

#[test]
fn text_that_is_not_toml_has_its_line() {
    let message = refused("[paceline]\nlisten = \n");
    assert!(
        message.starts_with("paceline.toml:2: ") && message.contains("this is not TOML"),
        "{message}"
    );
    assert!(
        refused("[paceline]\nhotspot = true\nhotspot = true")
            .starts_with("paceline.toml:3: duplicate key")
    );
}

#[test]
fn a_database_needs_a_primary() {
    assert!(
        refused("\n[databases.app]\ndefault_pool_size = 2")
            .starts_with("paceline.toml:2: [databases.app] does not say")
    );
    assert!(refused("[databases.\"a b\"]").contains("[databases.\"a b\"] does not say"));
    assert!(
        refused("[databases]\napp = \"postgres://db\"")
            .contains("\"databases.app\" must be a table")
    );
    assert!(refused("[databases.app]\nprimary = 5432").contains("is not a URL; write primary = "));
    // One mistake, one message.
    assert_eq!(
        refused("[databases.app]\nprimary = \"postgres://db:x\"")
            .lines()
            .count(),
        1
    );
}

#[test]
fn addresses_are_listened_on_however_they_are_written() {
    for (address, expected) in [
        ("127.0.0.2:0", "127.0.0.2:0"),
        ("localhost:7000", "127.0.0.1:7000"),
        ("[::1]:6432", "[::1]:6432"),
        ("[::ffff:127.0.0.1]:6432", "[::ffff:127.0.0.1]:6432"),
    ] {
        let config = read(&format!("[paceline]\nlisten = \"{address}\""));
        assert_eq!(
            config.paceline.listening.listen,
            expected.parse::<SocketAddr>().unwrap()
        );
    }
}

#[test]
fn an_unreadable_file_is_named() {
    let message = Config::load(Path::new("/nonexistent/paceline.toml"))
        .expect_err("no such file")
        .to_string();
    assert!(
        message.starts_with("cannot read /nonexistent/paceline.toml: ")
            && message.contains("check the path"),
        "{message}"
    );
}

#[test]
fn functions_are_declared_in_lists() {
    let config = read(
        r#"
        [[take]]
        function = "PGMQ.read"
        limit_argument = 3
        [[take]]
        function = "pgmq.pop"
        [[group]]
        function = "place_order"
        [[replica]]
        function = "price"
        [[primary]]
        function = "pg_catalog.now"
        "#,
    );
    let declared: Vec<(String, Role)> = config
        .declared
        .iter()
        .map(|declared| (declared.function.to_string(), declared.role))
        .collect();
    let take = |limit_argument| Role::Take { limit_argument };
    // Lists are read by name.
    assert_eq!(
        declared,
        [
            ("place_order".to_owned(), Role::Group),
            ("pg_catalog.now".to_owned(), Role::Primary),
            ("price".to_owned(), Role::Replica),
            ("pgmq.read".to_owned(), take(Some(3))),
            ("pgmq.pop".to_owned(), take(None)),
        ]
    );
}

#[test]
fn a_wrong_declaration_is_reported_with_its_line() {
    for (text, expected) in [
        (
            "[[take]]\nfunction = \"f\"\nlimit = 1",
            "paceline.toml:3: unknown key \"limit\" in [[take]]; did you mean \"limit_argument\"?",
        ),
        (
            "[[group]]\nfunction = \"f\"\nlimit_argument = 1",
            "paceline.toml:3: unknown key \"limit_argument\" in [[group]]; remove it, or see docs/configuration.md for the keys there are",
        ),
        (
            "\n[[take]]\nlimit_argument = 1",
            "paceline.toml:2: [[take]] names no function; add function = \"SCHEMA.NAME\"",
        ),
        (
            "[[take]]\nfunction = \"f\"\nlimit_argument = 0",
            "paceline.toml:3: limit_argument: 0 is outside its limits; write a value from 1 to 100",
        ),
        (
            "[[take]]\nfunction = \"f()\"",
            "paceline.toml:2: function: \"f()\" is not the name of a function; write \"name\" or \"schema.name\", without brackets",
        ),
        (
            "[take]\nfunction = \"f\"",
            "paceline.toml:1: \"take\" must be a list of tables; start each with the line [[take]]",
        ),
        (
            "group = [\"f\"]",
            "paceline.toml:1: \"group\" must be a list of tables; start each with the line [[group]]",
        ),
        (
            "[[takes]]\nfunction = \"f\"",
            "paceline.toml:1: unknown table or key \"takes\"; did you mean [[take]]?",
        ),
        (
            "[[group]]\nfunction = \"f\"\n[[take]]\nfunction = \"F\"",
            "paceline.toml:4: function f is declared more than once; keep one of its entries",
        ),
    ] {
        assert_eq!(refused(text), expected);
    }
}

#[test]
fn session_state_may_differ_by_database_and_user() {
    let text = r#"
        [paceline]
        session_state = "warn"
        track_extra_parameters = "IntervalStyle, search_path, app.User"
        [databases.a]
        primary = "postgres://host/a"
        [databases.b]
        primary = "postgres://host/b"
        session_state = "error"
        users.one.session_state = "track"
    "#;
    let config = Config::from_toml(text, "file").unwrap();
    let keeping = |database: &str, user: &str| {
        let (entry, _) = config.database(database).unwrap();
        config.pool_settings(entry, user).state.session_state
    };
    assert_eq!(keeping("a", "one"), SessionState::Warn);
    assert_eq!(keeping("b", "other"), SessionState::Error);
    assert_eq!(keeping("b", "one"), SessionState::Track);
    let found = config.pool_settings(&config.databases["a"], "one");
    assert_eq!(found.asked_parameters, ["search_path", "app.user"]);
}

#[test]
fn several_servers_are_configured() {
    let text = "[databases.app]\nprimary = \"postgres://app@pg1,pg2:5433/app\"\n\
         patroni = [\"http://pg1:8008\", \"http://[::1]:8008/\"]\nmonitor_user = \"mon\"\nmonitor_password = \"s3cret\"\n\
         failover_timeout = 0\nzone = \"b\"\nzones = [\"a\", \"b\"]\n\
         [databases.other]\nprimary = \"postgres://pg9/other\"\n";
    let config = Config::from_toml(text, "test").unwrap_or_else(|error| panic!("{error}"));
    let app = &config.databases["app"];
    let hosts: Vec<_> = app.all_hosts().collect();
    assert_eq!(hosts.len(), 2);
    let second = app.upstream_at(&hosts[1]);
    assert_eq!(
        (second.to_string(), second.user),
        ("pg2:5433/app".to_owned(), Some("app".to_owned()))
    );
    let servers = config.pool_settings(app, "web").servers.clone();
    assert_eq!(servers.patroni, ["http://pg1:8008", "http://[::1]:8008"]);
    assert_eq!(servers.failover_timeout, Duration::ZERO);
    assert_eq!(
        (servers.zone.as_str(), servers.zones.concat()),
        ("b", "ab".to_owned())
    );
    assert!(!format!("{config:?}").contains("s3cret"));
    let shown: Vec<String> = keys()
        .map(|key| key.plain(&config.pool_settings(app, "web")))
        .collect();
    assert!(shown.contains(&"***".to_owned()) && !shown.concat().contains("s3cret"));
    let other = &config.databases["other"];
    assert_eq!(
        config.pool_settings(other, "web").servers,
        Settings::default().servers
    );
    assert_eq!(other.hosts, HostList::default());
}

#[test]
fn several_servers_need_no_file() {
    let mut config = Config::for_upstream("postgres://app@pg1,pg2:5433/app").unwrap();
    for assignment in [
        "patroni=http://pg1:8008, http://pg2:8008",
        "failover_timeout=1min",
    ] {
        config
            .set(assignment)
            .unwrap_or_else(|error| panic!("{error}"));
    }
    let servers = &config.paceline.servers;
    assert_eq!(
        (servers.failover_timeout.as_secs(), servers.patroni.len()),
        (60, 2)
    );
    assert_eq!(config.databases["*"].all_hosts().count(), 2);
    assert!(Config::upstream("--upstream", "postgres://pg1,pg2").is_err());
}

#[test]
fn wrong_values_of_several_servers_are_named() {
    let wrong = |line: &str| {
        Config::from_toml(&format!("[paceline]\n{line}"), "test")
            .unwrap_err()
            .to_string()
    };
    for url in [
        "pg1:8008",
        "https://pg1",
        "http://",
        "http://a@b:1",
        "http://pg1:0",
        "http://pg1/cluster",
        "http://::1",
    ] {
        let message = wrong(&format!("patroni = [\"{url}\"]"));
        assert!(message.contains("is not a list of URLs"), "{message}");
    }
    assert!(wrong("patroni = [1]").contains("a list is not a list of URLs"));
    let message = wrong("monitor_password = 12345");
    assert!(
        message.contains("is not a password") && !message.contains("12345"),
        "{message}"
    );
}
