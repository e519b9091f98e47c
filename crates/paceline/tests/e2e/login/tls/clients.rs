//! TLS of all kinds of clients.

use crate::harness::message;
use crate::harness::paceline::Paceline;
use crate::harness::programs::program;
use crate::harness::raw::RawClient;
use crate::harness::until;
use crate::operations::console::row;

use super::papers::papers;
use super::{LOGIN, before, for_clients, line};

/// The report of psql on its connection, or the reason why there is none.
fn psql(paceline: &Paceline, options: &str) -> Result<String, String> {
    let target = format!(
        "host=localhost hostaddr=127.0.0.1 port={} user=postgres dbname=postgres {options}",
        paceline.port()
    );
    let mut command = program("psql");
    command.args([
        "-X",
        "-d",
        &target,
        "-c",
        "\\conninfo",
        "-c",
        "SELECT 'served'",
    ]);
    let output = command.output().unwrap();
    let [said, complained] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    match output.status.success() {
        true if said.contains("served") => Ok(said),
        _ => Err(format!("{said}{complained}")),
    }
}

/// psql with an `sslmode` and more options.
fn connect(paceline: &Paceline, mode: &str, more: &str) -> Result<bool, String> {
    let said = psql(paceline, &format!("sslmode={mode} {more}"))?;
    Ok(said.contains("SSL connection (protocol: TLS"))
}

/// `Some`: whether the connection is encrypted.
#[track_caller]
fn assert_modes(ours: &str, expected: [(&str, Option<bool>); 6]) {
    let paceline = for_clients(before("", ""), ours).spawn();
    let root = format!("sslrootcert={}", papers().authority());
    for (mode, encrypted) in expected {
        let more = match mode.starts_with("verify") {
            true => root.as_str(),
            false => "",
        };
        let connected = connect(&paceline, mode, more);
        assert_eq!(
            connected.as_ref().ok().copied(),
            encrypted,
            "{ours} {mode}: {connected:?}"
        );
    }
}

#[test]
fn where_tls_is_off_no_client_gets_it() {
    assert_modes(
        "disable",
        [
            ("disable", Some(false)),
            ("allow", Some(false)),
            ("prefer", Some(false)),
            ("require", None),
            ("verify-ca", None),
            ("verify-full", None),
        ],
    );
}

#[test]
fn where_tls_is_allowed_the_client_decides() {
    for ours in ["allow", "prefer"] {
        assert_modes(
            ours,
            [
                ("disable", Some(false)),
                ("allow", Some(false)),
                ("prefer", Some(true)),
                ("require", Some(true)),
                ("verify-ca", Some(true)),
                ("verify-full", Some(true)),
            ],
        );
    }
}

#[test]
fn where_tls_is_required_every_client_must_use_it() {
    assert_modes(
        "require",
        [
            ("disable", None),
            // libpq is rejected and then requests TLS.
            ("allow", Some(true)),
            ("prefer", Some(true)),
            ("require", Some(true)),
            ("verify-ca", Some(true)),
            ("verify-full", Some(true)),
        ],
    );
}

#[test]
fn a_client_without_tls_gets_the_error_that_it_is_required() {
    let paceline = for_clients(before("", ""), "require").spawn();
    let error = RawClient::try_connect(paceline.port(), &LOGIN)
        .err()
        .unwrap();
    assert_eq!(error.text(), "SSL required");
    assert_eq!(error.sqlstate(), "08P01");
}

#[test]
fn a_certificate_of_paceline_can_be_checked() {
    let paceline = for_clients(before("", ""), "allow").spawn();
    let other = format!("sslrootcert={}", papers().other_authority());
    assert!(connect(&paceline, "verify-ca", &other).is_err());
    let root = format!("sslrootcert={} host=somewhere.else", papers().authority());
    assert_eq!(connect(&paceline, "verify-ca", &root), Ok(true));
    assert!(connect(&paceline, "verify-full", &root).is_err());
}

#[test]
fn clients_can_be_made_to_show_a_certificate() {
    for mode in ["verify-ca", "verify-full"] {
        let paceline = for_clients(before("", ""), mode).spawn();
        assert!(connect(&paceline, "require", "").is_err(), "{mode}");
        assert!(connect(&paceline, "disable", "").is_err(), "{mode}");
        let with = |name: &str| {
            let (cert, key) = (papers().cert(name), papers().key(name));
            connect(
                &paceline,
                "require",
                &format!("sslcert={cert} sslkey={key}"),
            )
        };
        assert_eq!(with("postgres"), Ok(true), "{mode}");
        assert!(with("stranger").is_err(), "{mode}");
    }
}

/// The rule wants a certificate; the handshake does not.
#[test]
fn a_certificate_lets_its_client_in_where_tls_does_not_need_one() {
    let folder = tempfile::tempdir().unwrap();
    let hba = folder.path().join("hba");
    std::fs::write(&hba, "hostssl all all all cert\n").unwrap();
    let paceline = for_clients(before("", ""), "require")
        .set("auth_type=hba")
        .set(&format!("auth_hba_file={}", hba.display()))
        .spawn();
    let with = |name: &str| {
        let (cert, key) = (papers().cert(name), papers().key(name));
        let shown = format!("sslcert={cert} sslkey={key}");
        connect(&paceline, "require", &shown)
    };
    assert_eq!(with("postgres"), Ok(true));
    // Its certificate is not good, and another one is not for this user.
    let refusal = "certificate authentication failed for user \"postgres\"";
    for other in ["stranger", "certified"] {
        let refused = with(other).unwrap_err();
        assert!(refused.contains(refusal), "{other}: {refused}");
    }
    let refused = connect(&paceline, "require", "").unwrap_err();
    assert!(refused.contains(refusal), "{refused}");
}

#[test]
fn versions_can_be_chosen() {
    for (ours, theirs, good) in [
        ("tlsv1.3", "TLSv1.2", false),
        ("tlsv1.3", "TLSv1.3", true),
        ("tlsv1.2", "TLSv1.2", true),
        ("secure", "TLSv1.2", true),
        ("secure", "TLSv1.3", true),
    ] {
        let builder = for_clients(before("", ""), "require");
        let paceline = builder.set(&format!("client_tls_protocols={ours}")).spawn();
        let only = format!("ssl_min_protocol_version={theirs} ssl_max_protocol_version={theirs}");
        let connected = connect(&paceline, "require", &only);
        assert_eq!(connected.is_ok(), good, "{ours} {theirs}: {connected:?}");
    }
}

#[test]
fn direct_tls_needs_the_name_of_the_protocol() {
    let paceline = for_clients(before("", ""), "require").spawn();
    let client = line::direct(paceline.port(), &["postgresql"]);
    let mut client = client.try_log_in(&LOGIN).unwrap();
    assert_eq!(client.value("SELECT 'served'"), "served");
    for protocols in [&[][..], &["http/1.1"]] {
        let mut client = line::direct(paceline.port(), protocols);
        // It may be cut off while it still sends.
        let _ = client.try_send(&message::startup(3 << 16, &LOGIN));
        assert!(client.receive_to_end().is_empty(), "{protocols:?}");
    }
}

#[test]
fn direct_tls_without_a_certificate_is_cut() {
    let paceline = before("", "").spawn();
    let mut client = line::direct(paceline.port(), &["postgresql"]);
    let _ = client.try_send(&message::startup(3 << 16, &LOGIN));
    assert!(client.receive_to_end().is_empty());
}

/// CVE-2021-23214.
#[test]
fn bytes_before_the_handshake_are_not_used() {
    let paceline = for_clients(before("", ""), "allow").spawn();
    let mut client = RawClient::open(paceline.port());
    let forged = message::startup(3 << 16, &LOGIN);
    client.send(&[message::ssl_request(), forged].concat());
    let told = client.receive_to_end();
    assert_eq!(told.len(), 1, "{told:?}");
    let fields = told[0].fields();
    assert_eq!(fields.text(), "received unencrypted data after SSL request");
    assert_eq!(fields.sqlstate(), "08P01");
}

/// A client that exceeds the limit gets no message that could be mistaken for TLS.
#[test]
fn nothing_is_sent_in_plain_text_during_the_handshake() {
    let builder = for_clients(before("", ""), "allow");
    let paceline = builder.set("client_login_timeout=1").spawn();
    let mut client = RawClient::open(paceline.port());
    client.send(&message::ssl_request());
    assert_eq!(client.receive_byte(), b'S');
    assert!(client.receive_to_end().is_empty());
}

#[test]
fn tls_is_not_asked_for_twice() {
    let paceline = for_clients(before("", ""), "allow").spawn();
    let mut client = line::asked(paceline.port());
    client.send(&message::ssl_request());
    let told = client.receive().fields();
    assert_eq!(told.sqlstate(), "0A000");
    assert!(told.text().contains("frontend protocol 1234.5679"));
}

#[test]
fn a_unit_is_cancelled_over_tls() {
    let paceline = for_clients(before("", "sslmode=require"), "require").spawn();
    let mut client = line::client(paceline.port());
    client.send(&message::query("SELECT pg_sleep(600)"));
    let mut observer = super::cluster().client("postgres");
    until("it sleeps", || {
        observer.number("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND state = 'active' AND pid <> pg_backend_pid()") == 1
    });
    let (pid, secret) = client.key.split_at(4);
    let pid = u32::from_be_bytes(pid.try_into().unwrap());
    let mut other = line::asked(paceline.port());
    other.send(&message::cancel_request(pid, secret));
    assert!(other.receive_to_end().is_empty());
    assert_eq!(client.reply().error().unwrap().sqlstate(), "57014");
    assert_eq!(client.value("SELECT 'served'"), "served");
}

#[test]
fn the_console_tells_version_and_cipher() {
    let encrypted = |protocols: &str, sslmode: &str| {
        for_clients(before("", &format!("sslmode={sslmode}")), "allow")
            .set("admin_users=boss")
            .set(&format!("client_tls_protocols={protocols}"))
            .spawn()
    };
    let tls = |paceline: &Paceline, show: &str| {
        let boss = [("user", "boss"), ("database", "pgbouncer")];
        let mut operator = RawClient::connect(paceline.port(), &boss);
        row(&mut operator, show, "database", "postgres")["tls"].clone()
    };
    let paceline = encrypted("tlsv1.3", "require");
    let mut client = line::client(paceline.port());
    client.ok("SELECT 1");
    for show in ["SHOW CLIENTS", "SHOW SERVERS"] {
        assert_eq!(tls(&paceline, show), "TLSv1.3/TLS_AES_256_GCM_SHA384");
    }
    let paceline = encrypted("tlsv1.2", "disable");
    let mut client = line::client(paceline.port());
    client.ok("SELECT 1");
    assert!(tls(&paceline, "SHOW CLIENTS").starts_with("TLSv1.2/ECDHE-"));
    assert_eq!(tls(&paceline, "SHOW SERVERS"), "");
    let mut plain = RawClient::connect(paceline.port(), &LOGIN);
    plain.ok("SELECT 1");
    drop(client);
    until("the other client has left", || {
        tls(&paceline, "SHOW CLIENTS").is_empty()
    });
}
