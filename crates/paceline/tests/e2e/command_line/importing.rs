//! A `pgbouncer.ini` used as it is, and converted by `paceline import`: clients find the same databases either way.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::caretaker;
use crate::harness::cluster::{self, Cluster};
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;

/// A folder with PgBouncer's files.
struct Site {
    folder: PathBuf,
    ini: PathBuf,
}

impl Site {
    /// Databases in a file of their own: `shop` has another name on the server and a user of its own, every other name is
    /// passed on.
    fn new(cluster: &Cluster, on_server: &str) -> Site {
        let folder = caretaker::folder("i");
        let (socket, port) = (cluster.socket_dir(), cluster.port());
        let databases = folder.join("databases.ini");
        let lines = format!(
            "[databases]\nshop = host=127.0.0.1 port={port} dbname={on_server} user=it_clerk password='it''s' pool_size=1 timezone=Asia/Tokyo application_name='the shop'\n\
             * = host={} port={port}\n",
            socket.display()
        );
        std::fs::write(&databases, lines).unwrap();
        let ini = folder.join("pgbouncer.ini");
        let text = format!(
            ";; as it is\n[pgbouncer]\nlisten_addr = 127.0.0.1\nauth_type = trust\nunix_socket_dir =\n\
             pkt_buf = 4096\n%include {}\n",
            databases.display()
        );
        std::fs::write(&ini, text).unwrap();
        Site { folder, ini }
    }

    /// The output of `paceline import`, as a file.
    fn imported(&self) -> PathBuf {
        let passwords = self.folder.join("passwords");
        let (toml, remarks) = run(&[
            "import".as_ref(),
            &self.ini,
            "--password-dir".as_ref(),
            &passwords,
        ]);
        assert!(!toml.contains("it's"), "{toml}");
        assert!(
            remarks.contains("pgbouncer.ini:6: pkt_buf is ignored"),
            "{remarks}"
        );
        let file = self.folder.join("paceline.toml");
        std::fs::write(&file, toml).unwrap();
        file
    }
}

/// The output of the program and its complaints; it succeeds.
#[track_caller]
fn run(arguments: &[&Path]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    let output = command.args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (printed, complaint) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{complaint}");
    (printed, complaint)
}

/// The user and the database on the server of a client that asks for `database` as `postgres`.
fn met(paceline: &Paceline, database: &str) -> String {
    let parameters = [("user", "postgres"), ("database", database)];
    let mut client = RawClient::connect(paceline.port(), &parameters);
    client.value("SELECT session_user || ' ' || current_database()")
}

#[test]
fn both_kinds_of_file_lead_to_the_same_databases() {
    let cluster = cluster::shared();
    let on_server = cluster.database();
    cluster
        .client("postgres")
        .ok("CREATE ROLE it_clerk LOGIN PASSWORD 'it''s'");
    let site = Site::new(&cluster, &on_server);
    let toml = site.imported();
    for file in [&site.ini, &toml] {
        let (summary, _) = run(&["check".as_ref(), file]);
        assert!(summary.contains("100 clients at most"), "{summary}");
        let paceline = Paceline::with_file(file).spawn();
        assert_eq!(met(&paceline, "shop"), format!("it_clerk {on_server}"));
        assert_eq!(met(&paceline, &on_server), format!("postgres {on_server}"));
        assert_eq!(paceline.logged("pkt_buf is ignored"), *file == site.ini);
    }
}

/// They apply unless a client sets another value, and again when it resets what it has set; the client receives them.
#[test]
fn connections_are_begun_with_the_settings_of_their_database() {
    let cluster = cluster::shared();
    let on_server = cluster.database();
    let lines = format!(
        "[databases.shop]\nprimary = \"postgres://127.0.0.1:{}/{on_server}\"\ndefault_pool_size = 1\n\
         timezone = \"Asia/Tokyo\"\napplication_name = \"the shop\"\n",
        cluster.port()
    );
    let paceline = Paceline::configured(&lines).spawn();
    let connect = |more: &[(&str, &str)]| {
        let parameters = [&[("user", "postgres"), ("database", "shop")], more].concat();
        RawClient::connect(paceline.port(), &parameters)
    };
    let (mut silent, mut own) = (connect(&[]), connect(&[("timezone", "Europe/Rome")]));
    const HOLDS: &str =
        "SELECT current_setting('timezone') || ', ' || current_setting('application_name')";
    for _ in 0..2 {
        assert_eq!(silent.value(HOLDS), "Asia/Tokyo, the shop");
        assert_eq!(own.value(HOLDS), "Europe/Rome, the shop");
    }
    own.ok("SET timezone = 'UTC'");
    own.ok("RESET timezone");
    silent.ok("SET timezone = 'UTC'");
    assert_eq!(own.value(HOLDS), "Europe/Rome, the shop");
    silent.ok("RESET ALL");
    assert_eq!(silent.value(HOLDS), "Asia/Tokyo, the shop");
    assert_eq!(silent.parameters["TimeZone"], "Asia/Tokyo");
}

#[test]
fn the_environment_is_read_and_unknown_variables_are_reported() {
    let cluster = cluster::shared();
    let site = Site::new(&cluster, "postgres");
    let paceline = Paceline::with_file(&site.ini)
        .environment("PACELINE_MAX_CLIENT_CONN", "1")
        .environment("PACELINE_MAX_CLIENT_CON", "2")
        .spawn();
    assert!(paceline.logged("PACELINE_MAX_CLIENT_CON: there is no such setting"));
    let parameters = [("user", "postgres"), ("database", "postgres")];
    let _first = RawClient::connect(paceline.port(), &parameters);
    let Err(refusal) = RawClient::try_connect(paceline.port(), &parameters) else {
        panic!("a second client was let in");
    };
    assert!(refusal.text().contains("max_client_conn"), "{refusal:?}");
}
