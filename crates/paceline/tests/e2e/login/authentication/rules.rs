//! What a client must show is said by rules, and the system vouches for its users.

use super::*;

fn ruled(cluster: &Cluster, rules: &str, users: &[(&str, &str)]) -> (Paceline, PathBuf) {
    let folder = caretaker::folder("s");
    let maps = file(
        "ident.conf",
        "staff root postgres\nstrangers nobody postgres\n",
    );
    let paceline = start(cluster)
        .set("auth_type=hba")
        .set(&format!(
            "auth_hba_file={}",
            file("hba.conf", rules).display()
        ))
        .set(&format!("auth_ident_file={}", maps.display()))
        .set(&format!("auth_file={}", userlist(users).display()))
        .set(&format!("unix_socket_dir={}", folder.display()))
        .spawn();
    (paceline, folder)
}

#[test]
fn the_first_rule_that_fits_says_what_is_shown() {
    let Some(cluster) = cluster() else { return };
    let users = [
        ("app", "of the app"),
        ("by_md5", MD5_PASSWORD),
        ("postgres", ""),
    ];
    let (paceline, folder) = ruled(
        &cluster,
        "local postgres app trust\n\
         host postgres by_md5 127.0.0.1/32 md5\n\
         host postgres app 127.0.0.0 255.0.0.0 scram-sha-256\n\
         host postgres postgres 127.0.0.1/32 reject\n\
         host postgres nobody 127.0.0.1/32 trust\n",
        &users,
    );
    let (port, folder) = (paceline.port(), folder.display().to_string());
    assert_eq!(output(&mut psql(&folder, port, "app", "")).trim(), "app");
    assert_eq!(
        output(&mut psql("127.0.0.1", port, "app", "of the app")).trim(),
        "app"
    );
    assert_eq!(
        output(&mut psql("127.0.0.1", port, "by_md5", MD5_PASSWORD)).trim(),
        "by_md5"
    );
    for (user, message) in [
        ("postgres", "login rejected"),
        ("somebody", "no authentication method is found"),
        (
            "nobody",
            "\"trust\" authentication failed for user \"nobody\"",
        ),
    ] {
        let told = refusal(port, user);
        assert_eq!((told.sqlstate(), told.text()), ("28000", message));
    }
}

/// The tests run as whoever runs them: that name is asked of the system.
#[test]
fn the_system_vouches_for_its_users() {
    let Some(cluster) = cluster() else { return };
    let me = output(Command::new("id").arg("-un"));
    let me = me.trim();
    cluster.client("postgres").ok(&format!(
        "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{me}') THEN CREATE ROLE \"{me}\" LOGIN PASSWORD 'mine'; END IF; END $$"
    ));
    let users = [(me, "mine"), ("app", "of the app"), ("postgres", "")];
    let (paceline, folder) = ruled(
        &cluster,
        "local all all peer\nhost all all all peer\n",
        &users,
    );
    let (port, folder) = (paceline.port(), folder.display().to_string());
    assert_eq!(output(&mut psql(&folder, port, me, "")).trim(), me);
    let other = psql(&folder, port, "app", "").output().unwrap();
    let told = String::from_utf8(other.stderr).unwrap();
    assert!(told.contains("unix socket login rejected"), "{told}");
    assert_eq!(refusal(port, me).text(), "unix socket login rejected");
}

#[test]
fn a_map_says_for_whom_else() {
    let Some(cluster) = cluster() else { return };
    let me = output(Command::new("id").arg("-un"));
    if me.trim() != "root" {
        crate::harness::skipped("the map is for root");
        return;
    }
    for (map, good) in [("staff", true), ("strangers", false)] {
        let rules = format!("local all all peer map={map}\n");
        let (paceline, folder) = ruled(&cluster, &rules, &[("postgres", ""), ("root", "")]);
        let folder = folder.display().to_string();
        let done = psql(&folder, paceline.port(), "postgres", "")
            .output()
            .unwrap();
        assert_eq!(done.status.success(), good, "{map}");
        // With a map, one's own name is no better than another.
        let done = psql(&folder, paceline.port(), "root", "").output().unwrap();
        assert!(!done.status.success());
    }
}
