//! A client with the right password can log in with every kind of stored secret, and so can its pool at the server.

use std::process::Stdio;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_right_password_logs_in_here_and_at_the_server() {
    let Some(cluster) = cluster() else { return };
    let (scram, md5) = (stored(&cluster, "by_scram"), stored(&cluster, "by_md5"));
    for (auth_type, user, secret, password) in [
        ("md5", "by_md5", md5.as_str(), MD5_PASSWORD),
        ("md5", "by_md5", MD5_PASSWORD, MD5_PASSWORD),
        ("md5", "by_scram", SCRAM_PASSWORD, SCRAM_PASSWORD),
        // Only SCRAM can check it, and the server is shown the keys that the client has proved to have.
        ("md5", "by_scram", &scram, SCRAM_PASSWORD),
        ("scram-sha-256", "by_scram", &scram, SCRAM_PASSWORD),
        ("scram-sha-256", "by_scram", SCRAM_PASSWORD, SCRAM_PASSWORD),
        ("scram-sha-256", "by_md5", MD5_PASSWORD, MD5_PASSWORD),
        ("plain", "by_scram", &scram, SCRAM_PASSWORD),
        ("plain", "by_scram", SCRAM_PASSWORD, SCRAM_PASSWORD),
        ("plain", "by_md5", &md5, MD5_PASSWORD),
        // The client needs no credential: the file has that for the server.
        ("trust", "by_md5", &md5, "anything"),
    ] {
        println!("{auth_type} {user} {secret}");
        let paceline = with_users(&cluster, auth_type, &[(user, secret)]);
        assert_let_in(paceline.port(), user, password).await;
        if auth_type != "trust" {
            let other = login_error(paceline.port(), user, "another").await;
            assert_eq!(other, wrong_password(user));
        }
    }
}

/// Neither errors nor authentication requests show whether a user exists.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_unknown_user_gets_the_same_messages_as_a_known_one() {
    let Some(cluster) = cluster() else { return };
    let (scram, md5) = (stored(&cluster, "by_scram"), stored(&cluster, "by_md5"));
    for (auth_type, secret) in [
        ("md5", md5.as_str()),
        ("md5", &scram),
        ("scram-sha-256", &scram),
        ("scram-sha-256", "in clear"),
        // Nothing that this method could check.
        ("scram-sha-256", &md5),
        ("scram-sha-256", ""),
        ("plain", &scram),
        ("plain", "in clear"),
    ] {
        println!("{auth_type} {secret}");
        let paceline = with_users(&cluster, auth_type, &[("somebody", secret)]);
        let asked = ["somebody", "nobody"].map(|user| {
            let (_, first) = knock(paceline.port(), user);
            // The salt of md5 is another each time.
            (
                first.tag,
                first.body.get(..4).unwrap().to_vec(),
                first.body.len(),
            )
        });
        assert_eq!(asked[0], asked[1]);
        for user in ["somebody", "nobody"] {
            let told = login_error(paceline.port(), user, "a guess").await;
            assert_eq!(told, wrong_password(user));
        }
    }
}

/// A made-up salt would give itself away if it were another at the next attempt, or were not one at all.
#[test]
fn a_salt_that_is_made_up_stays_the_same() {
    let Some(cluster) = cluster() else { return };
    let scram = stored(&cluster, "by_scram");
    let paceline = with_users(&cluster, "scram-sha-256", &[("by_scram", &scram)]);
    let challenge = |user: &str| {
        let (mut client, _) = knock(paceline.port(), user);
        let first = b"n,,n=,r=abc";
        let length = u32::try_from(first.len()).unwrap().to_be_bytes();
        client.send(&proof(&[b"SCRAM-SHA-256\0", &length[..], first].concat()));
        let challenge = String::from_utf8(client.receive().body.split_off(4)).unwrap();
        let (nonce, rest) = challenge.split_once(',').unwrap();
        assert!(nonce.starts_with("r=abc") && nonce.len() > 24);
        rest.to_owned()
    };
    let (known, unknown) = (challenge("by_scram"), challenge("nobody"));
    assert_eq!(known.len(), unknown.len());
    assert_eq!(unknown, challenge("nobody"));
    assert_ne!(unknown, challenge("nobody else"));
}

#[test]
fn trust_lets_in_whom_the_file_knows() {
    let Some(cluster) = cluster() else { return };
    let paceline = with_users(&cluster, "trust", &[("postgres", "")]);
    let mut client = RawClient::connect(paceline.port(), &[("user", "postgres")]);
    assert_eq!(client.value("SELECT current_user"), "postgres");
    let told = refusal(paceline.port(), "nobody");
    assert_eq!(told.sqlstate(), "28000");
    let message = "\"trust\" authentication failed for user \"nobody\"";
    assert_eq!(told.text(), message);
}

/// The name in the URL is used, and the file has its password.
#[test]
fn any_name_will_do_where_names_do_not_matter() {
    let Some(cluster) = cluster() else { return };
    let users = userlist(&[("app", "of the app")]);
    let paceline = Paceline::start(&format!("postgres://app@127.0.0.1:{}", cluster.port()))
        .set("auth_type=any")
        .set(&format!("auth_file={}", users.display()))
        .spawn();
    for user in ["whoever", "postgres"] {
        let parameters = [("user", user), ("database", "postgres")];
        let mut client = RawClient::connect(paceline.port(), &parameters);
        assert_eq!(client.value("SELECT current_user"), "app");
    }
}

/// Known users, unknown users and wrong passwords, all at once.
#[test]
fn a_storm_of_logins_is_weathered() {
    let Some(cluster) = cluster() else { return };
    let scram = stored(&cluster, "by_scram");
    let users = [("by_scram", scram.as_str()), ("app", "of the app")];
    let paceline = with_users(&cluster, "scram-sha-256", &users);
    let logins = [
        ("nobody", "x", false),
        ("app", "x", false),
        ("app", "of the app", true),
        ("by_scram", SCRAM_PASSWORD, true),
    ];
    let clients: Vec<_> = (0..40)
        .zip(logins.into_iter().cycle())
        .map(|(_, (user, password, good))| {
            let mut client = psql("127.0.0.1", paceline.port(), user, password);
            (
                client
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap(),
                user,
                good,
            )
        })
        .collect();
    for (client, user, good) in clients {
        let done = client.wait_with_output().unwrap();
        let told = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.success(), good, "{user}: {told}");
        assert!(good || told.contains(&wrong_password(user).1), "{told}");
    }
}

fn paceline(arguments: &[&str]) -> (bool, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_paceline"))
        .args(arguments)
        .output()
        .unwrap();
    (
        done.status.success(),
        String::from_utf8(done.stderr).unwrap(),
    )
}

#[test]
fn listening_for_other_machines_without_passwords_is_refused_with_a_hint() {
    if Target::chosen() == Target::Bare {
        return;
    }
    let config = file(
        "paceline.toml",
        "[paceline]\nlisten = \"0.0.0.0:0\"\n[databases.app]\nprimary = \"postgres://127.0.0.1/app\"\n",
    );
    let config = config.to_str().unwrap();
    let serve = [
        "serve",
        "--upstream",
        "postgres://127.0.0.1",
        "--listen",
        "[::]:0",
    ];
    for arguments in [
        &["check", config][..],
        &["serve", "--config", config],
        &serve,
    ] {
        let (good, told) = paceline(arguments);
        assert!(!good, "{arguments:?}");
        assert!(
            told.contains("refusing to listen on ") && told.contains("set auth_type to"),
            "{told}"
        );
    }
}

#[test]
fn whom_a_password_guards_may_be_reached_from_everywhere() {
    let Some(cluster) = cluster() else { return };
    let paceline = start(&cluster)
        .set("auth_type=scram-sha-256")
        .set(&format!(
            "auth_file={}",
            userlist(&[("app", "of the app")]).display()
        ))
        .listen("0.0.0.0:0")
        .spawn();
    let printed = output(&mut psql("127.0.0.1", paceline.port(), "app", "of the app"));
    assert_eq!(printed.trim(), "app");
}

/// An address of this machine that is not loopback: a client that connects to it also has it as its own address.
fn outer_address() -> Option<String> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    // Nothing is sent: the system only determines the local address.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().unwrap().ip();
    (!address.is_loopback()).then(|| address.to_string())
}

#[test]
fn clients_of_other_machines_send_no_password_in_the_clear() {
    let Some(cluster) = cluster() else { return };
    let Some(address) = outer_address() else {
        crate::harness::skipped("this machine has no address but loopback");
        return;
    };
    let users = userlist(&[("app", "of the app")]);
    for (auth_type, good) in [("plain", false), ("scram-sha-256", true), ("trust", true)] {
        let paceline = start(&cluster)
            .set(&format!("auth_type={auth_type}"))
            .set(&format!("auth_file={}", users.display()))
            .set("auth_trust_remote=true")
            .listen("0.0.0.0:0")
            .spawn();
        let here = output(&mut psql("127.0.0.1", paceline.port(), "app", "of the app"));
        assert_eq!(here.trim(), "app");
        let done = psql(&address, paceline.port(), "app", "of the app")
            .output()
            .unwrap();
        assert_eq!(done.status.success(), good, "{auth_type}");
        let told = String::from_utf8(done.stderr).unwrap();
        assert!(
            good || told.contains("not taken over an unencrypted connection"),
            "{told}"
        );
    }
}

#[test]
fn errors_in_files_are_reported_before_the_start() {
    if Target::chosen() == Target::Bare {
        return;
    }
    let users = file("userlist.txt", "\"a\" \"b\"\n\"c\" hush\n");
    let rules = file("hba.conf", "local all all trust\nhost all all all ldap\n");
    let absent = caretaker::folder("a").join("absent");
    for (auth_type, key, path, what) in [
        ("md5", "auth_file", &users, ":2: write"),
        (
            "hba",
            "auth_hba_file",
            &rules,
            ":2: method ldap is not supported",
        ),
        ("md5", "auth_file", &absent, "cannot read auth_file"),
    ] {
        let path = path.display();
        let text = format!(
            "[paceline]\nlisten = \"127.0.0.1:0\"\nauth_type = \"{auth_type}\"\n{key} = \"{path}\"\n\
                            [databases.app]\nprimary = \"postgres://127.0.0.1/app\"\n"
        );
        let config = file("paceline.toml", &text);
        let config = config.to_str().unwrap();
        for arguments in [["check", config], ["--config", config]] {
            let (good, told) = paceline(&arguments);
            assert!(
                !good && told.contains(what) && !told.contains("hush"),
                "{told}"
            );
        }
    }
}
