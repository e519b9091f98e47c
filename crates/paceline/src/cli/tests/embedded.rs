//! Command lines that start the embedded PostgreSQL.

use paceline_config::Remark;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::*;

#[test]
fn without_arguments_the_embedded_server_starts() {
    for line in [&[][..], &["serve"][..]] {
        let serve = serve(line);
        assert_eq!(serve.config, Config::default());
        assert_eq!(
            serve.embedded,
            Some("/home/rider/.local/share/paceline".into())
        );
        assert_eq!(serve.log_filter, None);
    }
}

#[test]
fn the_last_set_wins_and_listen_overrides_set() {
    let line = [
        "--set",
        "query_wait_timeout=1",
        "--set",
        "query_wait_timeout=2",
        "--listen",
        "127.0.0.1:1",
        "--set",
        "listen=127.0.0.1:2",
    ];
    let settings = serve(&line).config.paceline;
    assert_eq!(settings.timeouts.query_wait_timeout, Duration::from_secs(2));
    assert_eq!(settings.listening.listen.port(), 1);
}

#[test]
fn a_file_without_databases_starts_the_embedded_server() {
    let folder = Folder::new("embedded");
    let file = folder.file("[paceline]\nworker_threads = 2");
    let serve = serve(&["--config", &file, "--data-dir", "/srv/data"]);
    assert_eq!(serve.config.paceline.operation.worker_threads, Some(2));
    assert_eq!(serve.embedded, Some("/srv/data".into()));
    let relative = self::serve(&["--data-dir", "data"]);
    assert_eq!(
        relative.embedded,
        Some(std::env::current_dir().unwrap().join("data"))
    );
}

#[test]
fn the_option_log_level_overrides_the_environment() {
    let process = ProcessEnvironment {
        variables: environment(&[("PACELINE_LOG", "paceline=trace")]),
        ..process()
    };
    for (line, expected) in [
        (&["paceline"][..], "paceline=trace"),
        (&["paceline", "--log-level=warn"][..], "warn"),
    ] {
        let resolved = Command::resolve(line.iter().map(OsString::from), &process);
        let Ok(Command::Serve(serve)) = resolved else {
            panic!("{resolved:?}")
        };
        assert_eq!(serve.log_filter.as_deref(), Some(expected));
    }
}

#[test]
fn the_data_folder_follows_xdg() {
    let xdg = |folder: &str| {
        Home {
            data_home: Some(folder.into()),
            ..process().home
        }
        .data_folder()
    };
    assert_eq!(xdg("/data"), Some("/data/paceline".into()));
    assert_eq!(
        xdg("data"),
        Some("/home/rider/.local/share/paceline".into())
    );
    assert_eq!(Home::default().data_folder(), None);
    assert_eq!(
        Home {
            home: Some("relative".into()),
            ..Home::default()
        }
        .data_folder(),
        None
    );
}

#[test]
fn root_uses_a_folder_that_another_user_can_reach() {
    let folder = Folder::new("root");
    let home = folder.0.clone();
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o700)).unwrap();
    let user = Home {
        home: Some(home.clone()),
        root: true,
        ..Home::default()
    };
    assert_eq!(user.data_folder(), Some("/var/lib/paceline".into()));
    assert_eq!(
        Home {
            root: false,
            ..user.clone()
        }
        .data_folder(),
        Some(home.join(".local/share/paceline"))
    );
    assert_eq!(
        Home {
            home: Some("/usr".into()),
            ..user.clone()
        }
        .data_folder(),
        Some("/usr/.local/share/paceline".into())
    );
    assert_eq!(
        Home { home: None, ..user }.data_folder(),
        Some("/var/lib/paceline".into())
    );
}

#[test]
fn the_environment_overrides_the_file_and_set_overrides_both() {
    let folder = Folder::new("environment");
    let file =
        folder.file("[paceline]\nmax_client_conn = 1\ndefault_pool_size = 1\ngroup_size_max = 9");
    let variables = [
        ("PACELINE_CONFIG", file.as_str()),
        ("PACELINE_MAX_CLIENT_CONN", "2"),
        ("PACELINE_DEFAULT_POOL_SIZE", "2"),
        ("PACELINE_LISTEN", "127.0.0.1:2"),
        ("PACELINE_DATA_DIR", "/srv/data"),
        ("PACELINE_MAX_CLIENT_CON", "3"),
    ];
    let line = ["--set", "max_client_conn=4", "--listen", "127.0.0.1:4"];
    let serve = serve_in(&variables, &line).unwrap();
    let settings = &serve.config.paceline;
    assert_eq!(
        (
            settings.pooling.max_client_conn,
            settings.pooling.default_pool_size
        ),
        (4, 2)
    );
    assert_eq!(settings.grouping.group_size_max, 9);
    assert_eq!(settings.listening.listen.port(), 4);
    assert_eq!(serve.embedded, Some("/srv/data".into()));
    let remarks: Vec<String> = serve.remarks.iter().map(Remark::to_string).collect();
    assert_eq!(
        remarks,
        [
            "PACELINE_MAX_CLIENT_CON: there is no such setting; did you mean PACELINE_MAX_CLIENT_CONN?"
        ]
    );
}

#[test]
fn a_data_folder_with_a_server_is_rejected() {
    let url = ["--upstream", "postgres://db", "--data-dir", "x"];
    assert!(rejected(&url).contains("cannot be used with"));
    let folder = Folder::new("beside");
    let file = folder.file("[databases.app]\nprimary = \"postgres://db\"");
    assert_eq!(serve(&["--config", &file]).embedded, None);
    let both = ["--config", &file, "--data-dir", "/srv"];
    assert!(rejected(&both).contains("names databases; remove one of the two"));
    let variables = [("PACELINE_UPSTREAM", "postgres://of-environment")];
    let refused = serve_in(&variables, &["--data-dir", "/srv"]).unwrap_err();
    assert!(refused.contains("but PACELINE_UPSTREAM names databases"));
}

#[test]
fn check_reports_that_the_embedded_server_starts() {
    let folder = Folder::new("no-databases");
    let file = folder.file("");
    let summary = check(Path::new(&file)).unwrap().summary;
    assert!(summary.ends_with("no databases: starts the embedded PostgreSQL"));
}
