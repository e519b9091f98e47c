//! Logins to the console: the account of the process by its user id, others by the rules for `pgbouncer`; and the cases in which logins are
//! rejected.

use super::{Stage, console, stage};
use crate::harness::caretaker;
use crate::harness::message::{bind, execute, parse, startup, sync};
use crate::harness::raw::{Line, PROTOCOL, RawClient};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

impl Line for UnixStream {
    fn close_sending(&mut self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn names<'a>(user: &'a str, database: &'a str) -> [(&'a str, &'a str); 2] {
    [("user", user), ("database", database)]
}

#[test]
fn the_account_of_the_process_needs_no_password() {
    let folder = caretaker::folder("o");
    let users = file(&folder, "users", "\"somebody\" \"secret\"");
    let Some(stage) = stage(
        Stage::on_shared()
            .set("auth_type=scram-sha-256")
            .set(&format!("auth_file={}", users.display()))
            .set(&format!("unix_socket_dir={}", folder.display())),
    ) else {
        return;
    };
    let path = folder.join(format!(".s.PGSQL.{}", stage.port()));
    for (user, database) in [("pgbouncer", "pgbouncer"), ("paceline", "paceline")] {
        let line = UnixStream::connect(&path).unwrap();
        let owner = RawClient::over(stage.port(), Box::new(line));
        let mut owner = owner.try_log_in(&names(user, database)).unwrap();
        // Only an admin may do this.
        owner.ok("SET query_timeout = 0");
    }
    for (user, database) in [("boss", "pgbouncer"), ("pgbouncer", "postgres")] {
        let mut other =
            RawClient::over(stage.port(), Box::new(UnixStream::connect(&path).unwrap()));
        other.send(&startup(PROTOCOL, &names(user, database)));
        assert_eq!(other.receive().body[..4], [0, 0, 0, 10], "{user} is asked");
    }
}

#[test]
fn rules_know_the_console_by_one_name() {
    let folder = caretaker::folder("o");
    let rules = "host pgbouncer boss all trust\nhost all all all reject\n";
    let rules = file(&folder, "hba.conf", rules);
    let Some(stage) = stage(
        Stage::on_shared()
            .set("auth_type=hba")
            .set(&format!("auth_hba_file={}", rules.display())),
    ) else {
        return;
    };
    for database in ["pgbouncer", "paceline"] {
        console(&stage, database, "boss").ok("SHOW POOLS");
        let refused = RawClient::try_connect(stage.port(), &names("watch", database));
        assert_eq!(refused.err().unwrap().text(), "login rejected");
    }
}

/// A client above the limit is rejected before it is asked for a password; a client that has not sent its password counts.
#[test]
fn the_limit_of_clients_is_checked_before_the_password() {
    let folder = caretaker::folder("o");
    let users = file(&folder, "users", "\"somebody\" \"secret\"");
    let Some(stage) = stage(
        Stage::on_shared()
            .set("auth_type=scram-sha-256")
            .set(&format!("auth_file={}", users.display()))
            .set("max_client_conn=1"),
    ) else {
        return;
    };
    let mut asked = RawClient::open(stage.port());
    asked.send(&startup(PROTOCOL, &names("somebody", "postgres")));
    assert_eq!(asked.receive().tag, b'R');
    let refused = RawClient::try_connect(stage.port(), &names("somebody", "postgres"));
    let refused = refused.err().unwrap();
    let text = "no more connections allowed (max_client_conn)";
    assert_eq!((refused.sqlstate(), refused.text()), ("08P01", text));
}

/// Names of templates contain no values, even if another client has prepared them.
#[test]
fn groups_show_no_values_of_others() {
    let Some(stage) = stage(Stage::on_shared()) else {
        return;
    };
    let mut client = stage.client();
    let text = "SELECT 'pin 4711'::text";
    let prepared = [
        parse("s", text, &[]),
        bind("", "s", &[]),
        execute("", 0),
        sync(),
    ];
    client.ask(&prepared.concat()).expect_ok(text);
    let mut operator = console(&stage, "pgbouncer", "watch");
    let shown: Vec<String> = super::table(&operator.ok("SHOW GROUPS"))
        .into_iter()
        .map(|mut row| row.remove("template").unwrap())
        .collect();
    assert!(!shown.is_empty());
    assert!(shown.iter().all(|text| !text.contains("4711")), "{shown:?}");
}
