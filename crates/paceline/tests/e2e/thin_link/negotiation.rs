//! Negotiation: a connection is compressed if both Pacelines have it set. PostgreSQL declines the option. If a login is refused,
//! Paceline logs in once more without it.

use super::wire::{Manner, Wire};
use super::{Link, client, far, listed, near};
use crate::harness::cluster;
use crate::harness::message;
use crate::harness::paceline::Paceline;
use crate::harness::raw::{PROTOCOL, RawClient};
use crate::harness::{skipped, until};
use crate::login::tls::papers::papers;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

#[test]
fn both_sides_compress_if_both_are_set() {
    let link = Link::with(&[]);
    assert_eq!(link.client().value("SELECT 1"), "1");
    assert_eq!(listed(&link.near, "SHOW SERVERS", &link.database), ["zstd"]);
    let of_far = listed(&link.far, "SHOW CLIENTS", &link.database);
    assert!(!of_far.is_empty() && of_far.iter().all(|listed| listed == "zstd"));
    // Neither clients of the near one nor PostgreSQL were asked.
    let mut connected = link.client();
    assert!(!connected.parameters.contains_key("paceline_compression"));
    assert_eq!(connected.value("SELECT 1"), "1");
    assert_eq!(listed(&link.near, "SHOW CLIENTS", &link.database), [""]);
    assert_eq!(listed(&link.far, "SHOW SERVERS", &link.database)[0], "");
}

#[test]
fn one_side_alone_does_not_compress() {
    let cluster = cluster::shared();
    let database = cluster.database();
    let far = far(&cluster).set("client_compression=off").spawn();
    let in_front = [cluster.port(), far.port()];
    for port in in_front {
        let wire = Wire::to(port);
        let near = near(wire.port()).spawn();
        assert_eq!(client(&near, &database).value("SELECT 1"), "1");
        assert_eq!(listed(&near, "SHOW SERVERS", &database), [""]);
        let [offered, plain] = wire.startups();
        assert!(offered > 0 && plain == 0, "it is declined, not refused");
    }
    let far = self::far(&cluster).spawn();
    let near = near(far.port()).set("server_compression=off").spawn();
    assert_eq!(client(&near, &database).value("SELECT 1"), "1");
    assert_eq!(listed(&near, "SHOW SERVERS", &database), [""]);
}

#[test]
fn a_database_may_differ_from_the_others() {
    let link = Link::with(&[]);
    let upstream = format!("postgres://127.0.0.1:{}", link.wire.port());
    let near = Paceline::configured(&format!(
        "[databases.\"*\"]\nprimary = \"{upstream}\"\n
        [databases.postgres]\nprimary = \"{upstream}\"\nserver_compression = \"zstd:1\""
    ));
    let near = near.set("admin_users=boss").spawn();
    for (database, expected) in [(&*link.database, ""), ("postgres", "zstd")] {
        assert_eq!(client(&near, database).value("SELECT 1"), "1");
        assert_eq!(listed(&near, "SHOW SERVERS", database), [expected]);
    }
}

/// If a server refuses the startup packet, Paceline sends it once more without the option. It remembers that until the connections are
/// replaced.
#[test]
fn a_refused_startup_packet_is_sent_once_more_without_the_option() {
    // A connection that is closed without an answer is tried with the option once more.
    for (manner, offered) in [(Manner::Close, 2), (Manner::Refuse, 1)] {
        let link = Link::with(&["default_pool_size=3"]);
        link.wire.set(manner);
        let mut clients = [(); 2].map(|()| link.client());
        for client in &mut clients {
            client.ok("BEGIN");
        }
        assert_eq!(link.wire.startups()[0], offered, "{manner:?}");
        assert!(link.wire.startups()[1] >= 2, "{manner:?}");
        let listed_servers = || listed(&link.near, "SHOW SERVERS", &link.database);
        assert!(listed_servers().iter().all(String::is_empty));
        assert!(
            link.near
                .logged("refuses logins with an offer of compression")
        );
        link.wire.set(Manner::Pass);
        for client in &mut clients {
            client.ok("COMMIT");
        }
        let login = [("user", "boss"), ("database", "pgbouncer")];
        RawClient::connect(link.near.port(), &login).ok("RECONNECT");
        assert_eq!(clients[0].value("SELECT 1"), "1");
        until("new connections are compressed", || {
            listed_servers().iter().all(|listed| listed == "zstd")
        });
    }
}

/// A server that is restarted closes connections, too.
#[test]
fn a_connection_that_is_closed_once_is_no_refusal() {
    let link = Link::with(&[]);
    link.wire.set(Manner::CloseOnce);
    assert_eq!(link.client().value("SELECT 1"), "1");
    assert_eq!(listed(&link.near, "SHOW SERVERS", &link.database), ["zstd"]);
    let refused = "refuses logins with an offer of compression";
    assert!(!link.near.logged(refused));
}

/// A login that fails for another reason is not tried twice.
#[test]
fn another_error_is_no_refusal_of_the_option() {
    let cluster = cluster::shared();
    let wire = Wire::to(cluster.port());
    let near = near(wire.port()).spawn();
    let login = [("user", "postgres"), ("database", "no such database")];
    let error = RawClient::try_connect(near.port(), &login).err().unwrap();
    assert_eq!(error.sqlstate(), "3D000");
    assert_eq!(wire.startups()[1], 0);
}

/// A pooler may give a client the parameters of another login.
#[test]
fn the_confirmation_of_another_login_is_none() {
    let link = Link::with(&[]);
    link.wire.set(Manner::Replay);
    let mut client = link.client();
    assert_eq!(client.value("SELECT 1"), "1");
    assert_eq!(listed(&link.near, "SHOW SERVERS", &link.database), [""]);
    assert!(!client.parameters.contains_key("paceline_compression"));
}

#[test]
fn pgbouncer_in_between_is_asked_without_compression() {
    let Ok(mut path) = Command::new("sh")
        .args(["-c", "command -v pgbouncer"])
        .output()
    else {
        return skipped("there is no shell");
    };
    path.stdout.pop();
    if path.stdout.is_empty() {
        return skipped("PgBouncer is not installed");
    }
    let cluster = cluster::shared();
    let database = cluster.database();
    let far = far(&cluster).spawn();
    let pgbouncer = PgBouncer::start(&String::from_utf8(path.stdout).unwrap(), far.port());
    let near = near(pgbouncer.port).spawn();
    for _ in 0..2 {
        assert_eq!(client(&near, &database).value("SELECT 1"), "1");
    }
    let servers = listed(&near, "SHOW SERVERS", &database);
    assert!(!servers.is_empty() && servers.iter().all(String::is_empty));
}

/// The answer to a client that is no Paceline.
#[test]
fn the_answer_names_the_option_unless_it_is_accepted() {
    let cluster = cluster::shared();
    let database = cluster.database();
    let answer = |method: &str, offer: &str, more: &[(&str, &str)]| {
        let far = far(&cluster)
            .set(&format!("client_compression={method}"))
            .spawn();
        let mut client = RawClient::open(far.port());
        let mut parameters = vec![("user", "postgres"), ("database", &database)];
        parameters.push(("_pq_.paceline_compression", offer));
        parameters.extend(more);
        client.send(&message::startup(PROTOCOL, &parameters));
        let until_ready = client.receive_until(b"Z");
        let declined = until_ready.iter().find(|message| message.tag == b'v');
        let named =
            declined.map(|message| String::from_utf8_lossy(&message.body[8..]).replace('\0', " "));
        (
            named.unwrap_or_default(),
            client.parameters.get("paceline_compression").cloned(),
        )
    };
    let declined = "_pq_.paceline_compression ".to_owned();
    assert_eq!(
        answer("zstd", "zstd:12ab", &[]),
        (String::new(), Some("zstd:12ab".to_owned()))
    );
    assert_eq!(answer("zstd", "gzip:12ab", &[]), (declined.clone(), None));
    assert_eq!(answer("off", "zstd:12ab", &[]), (declined.clone(), None));
    assert_eq!(
        answer("zstd", "zstd:12ab", &[("replication", "database")]),
        (declined, None)
    );
    let (named, confirmed) = answer("zstd", "zstd:12ab", &[("_pq_.other", "1")]);
    assert_eq!((&*named, confirmed.is_some()), ("_pq_.other ", true));
}

#[test]
fn an_encrypted_connection_is_compressed_inside() {
    let cluster = cluster::shared();
    let database = cluster.database();
    let papers = papers();
    let far = far(&cluster)
        .set("client_tls_sslmode=require")
        .set(&format!("client_tls_key_file={}", papers.key("server")))
        .set(&format!("client_tls_cert_file={}", papers.cert("server")))
        .spawn();
    let near = near(far.port()).set("server_tls_sslmode=require").spawn();
    let mut client = client(&near, &database);
    let text = client.value("SELECT string_agg(i::text, ' ') FROM generate_series(1, 100000) i");
    assert_eq!(text.len(), 588_894);
    assert_eq!(listed(&near, "SHOW SERVERS", &database), ["zstd"]);
    let [plain, transmitted] = super::bytes(&near, "servers", "received");
    assert!(
        plain > 588_894.0 && transmitted < plain,
        "{plain} {transmitted}"
    );
}

struct PgBouncer {
    process: std::process::Child,
    port: u16,
}

impl PgBouncer {
    fn start(path: &str, server: u16) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = port.local_addr().unwrap().port();
        let folder = crate::harness::caretaker::folder("pgbouncer");
        let file = folder.join("pgbouncer.ini");
        // It does not run as root.
        let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
        let user = if is_root { "user = nobody\n" } else { "" };
        let text = format!(
            "[databases]\n* = user=postgres host=127.0.0.1 port={server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
            listen_port = {port}\nauth_type = any\nunix_socket_dir =\n{user}"
        );
        std::fs::write(&file, text).unwrap();
        let process = Command::new(path)
            .arg(&file)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("PgBouncer listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self { process, port }
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
