//! The log: its contents, and its targets.

use super::{Site, console, text_of};
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::until;
use crate::harness::wait::LIMIT;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

#[track_caller]
fn hears(paceline: &Paceline, text: &str) {
    until(text, || paceline.logged(text));
}

#[test]
fn connections_come_and_go_in_the_log() {
    let Some(site) = Site::new("pool_mode = transaction\nserver_idle_timeout = 1", "") else {
        return;
    };
    let paceline = site.served();
    let mut client = site.client(paceline.port());
    client.ok("SELECT 1");
    let who = format!("C: {}/postgres@127.0.0.1:", site.database);
    let server = format!(
        "S: {}/postgres@127.0.0.1:{} ",
        site.database,
        site.cluster.port()
    );
    let attempt = format!(
        "login attempt: db={} user=postgres tls=no replication=no",
        site.database
    );
    hears(&paceline, &who);
    hears(&paceline, &attempt);
    hears(
        &paceline,
        &format!("{server}new connection to server (from 127.0.0.1:"),
    );
    client.send(&crate::harness::message::terminate());
    hears(&paceline, "closing because: client close request (age=0s)");
    site.client(paceline.port()).hang_up();
    hears(&paceline, "closing because: client unexpected eof (age=");
    hears(
        &paceline,
        &format!("{server}closing because: server idle timeout (age="),
    );
    console(paceline.port()).hang_up();
    hears(&paceline, "C: pgbouncer/boss@127.0.0.1:");
}

/// Under the names of the pool, as clients send them, and with PgBouncer's reasons.
#[test]
fn connections_to_servers_say_whose_they_are_and_why_they_are_closed() {
    let Some(site) = Site::new("", "") else {
        return;
    };
    let settings = "pool_mode = transaction\nidle_transaction_timeout = 1";
    site.write(settings, &format!("dbname={} user=postgres", site.database));
    let text = text_of(&site.ini).replace(&format!("\n{} = ", site.database), "\nshop = ");
    std::fs::write(&site.ini, text).unwrap();
    let paceline = site.served();
    let mut boss = console(paceline.port());
    let web = || RawClient::connect(paceline.port(), &[("user", "web"), ("database", "shop")]);
    let server = format!("S: shop/web@127.0.0.1:{} ", site.cluster.port());
    let closed = |why: &str| hears(&paceline, &format!("{server}closing because: {why} (age="));
    let mut client = web();
    client.ok("SELECT 1");
    boss.ok("RECONNECT");
    closed("database configuration changed");
    client.ok("SELECT 1");
    boss.ok("PAUSE");
    closed("pause mode");
    boss.ok("RESUME");
    let mut other = web();
    other.ok("BEGIN");
    other.hang_up();
    closed("client disconnect while server was not ready");
    let backend = client.value("SELECT pg_backend_pid()");
    let mut direct = site.direct();
    direct.ok(&format!("SELECT pg_terminate_backend({backend}, 10000)"));
    client.ok("SELECT 1");
    closed("server conn crashed?");
    client.ok("BEGIN");
    client.receive_to_end();
    closed("idle transaction timeout");
    let mut client = web();
    client.ok("BEGIN");
    boss.ok("KILL");
    closed("database removed");
}

#[test]
fn errors_of_paceline_are_in_the_log() {
    let Some(site) = Site::new("pool_mode = statement\nmax_client_conn = 1", "") else {
        return;
    };
    let paceline = site.served();
    let mut client = site.client(paceline.port());
    let refused = RawClient::try_connect(paceline.port(), &site.parameters());
    assert!(refused.is_err());
    hears(
        &paceline,
        "pooler error: no more connections allowed (max_client_conn)",
    );
    client.send(&crate::harness::message::query("BEGIN"));
    client.receive_to_end();
    hears(
        &paceline,
        &format!("C: {}/postgres@127.0.0.1:", site.database),
    );
    hears(
        &paceline,
        "pooler error: transaction blocks not allowed in statement pooling mode",
    );
}

/// Events that are switched off are not logged; the console may switch them on again.
#[test]
fn settings_choose_what_is_logged() {
    let off = "log_connections = 0\nlog_disconnections = 0\nlog_pooler_errors = 0\nlog_stats = 0\nstats_period = 1";
    let Some(site) = Site::new(off, "") else {
        return;
    };
    let paceline = site.served();
    let nowhere = [("user", "postgres"), ("database", "nowhere")];
    let round = || {
        site.client(paceline.port()).ok("SELECT 1");
        assert!(RawClient::try_connect(paceline.port(), &nowhere).is_err());
    };
    round();
    let mut boss = console(paceline.port());
    boss.ok("SET verbose = 1");
    boss.ok("SET verbose = 0");
    for text in [
        "login attempt",
        "closing because",
        "pooler error",
        "stats: ",
        "new connection",
    ] {
        assert!(!paceline.logged(text), "{text}");
    }
    for key in [
        "log_connections",
        "log_disconnections",
        "log_pooler_errors",
        "log_stats",
    ] {
        boss.ok(&format!("SET {key} = 1"));
    }
    round();
    for text in [
        "login attempt",
        "closing because",
        "pooler error: no such database",
        "stats: ",
    ] {
        hears(&paceline, text);
    }
}

#[test]
fn statistics_are_logged_in_pgbouncers_words() {
    let Some(site) = Site::new("stats_period = 1\npool_mode = transaction", "") else {
        return;
    };
    let paceline = site.served();
    let mut client = site.client(paceline.port());
    until("a period with queries is in the log", || {
        client.ok("SELECT 1");
        let line = "stats: ";
        paceline.logged(line) && !paceline.logged("xacts/s, 0 queries/s")
            || paceline.heard(line) > 1
    });
    hears(&paceline, " client parses/s, ");
    hears(&paceline, " server parses/s, ");
}

#[test]
fn verbose_says_how_much() {
    let Some(site) = Site::new("verbose = 1", "") else {
        return;
    };
    let paceline = site.served();
    site.client(paceline.port()).ok("SELECT 1");
    hears(&paceline, "DEBUG ");
    site.write("verbose = 0", "");
    paceline.signal_and_hear("HUP", "Reload: done");
    let before = paceline.heard("DEBUG ");
    site.client(paceline.port()).ok("SELECT 1");
    hears(&paceline, "login attempt");
    assert_eq!(paceline.heard("DEBUG "), before);
}

/// As logrotate does it: rename, then a signal.
#[test]
fn the_file_is_opened_again() {
    let Some(site) = Site::new("", "") else {
        return;
    };
    let (log, rotated) = (site.folder.join("p.log"), site.folder.join("p.log.1"));
    let settings = format!("logfile = {}", log.display());
    site.write(&settings, "");
    std::fs::write(&log, "as it was\n").unwrap();
    let paceline = site.served();
    until("it has begun", || text_of(&log).contains("listening on "));
    assert!(
        text_of(&log).starts_with("as it was\n20"),
        "{}",
        text_of(&log)
    );
    for (round, order) in ["HUP", "RELOAD"].into_iter().enumerate() {
        std::fs::rename(&log, &rotated).unwrap();
        match order {
            "HUP" => paceline.signal_and_hear("HUP", "Reload: done"),
            order => drop(console(paceline.port()).ok(order)),
        }
        until("a new file is there", || !text_of(&log).is_empty());
        assert!(text_of(&rotated).contains("Reload"), "round {round}");
    }
    // Standard error has it, too.
    assert!(paceline.logged("Reload: done"));
}

#[test]
fn a_file_that_cannot_be_opened_changes_nothing() {
    let Some(site) = Site::new("", "") else {
        return;
    };
    let log = site.folder.join("p.log");
    let settings = format!("logfile = {}", log.display());
    site.write(&settings, "");
    let paceline = site.served();
    let mut boss = console(paceline.port());
    let error = boss.simple("SET logfile = '/dev/null/x'").error().unwrap();
    assert!(error.get('D').contains("logfile /dev/null/x"), "{error:?}");
    site.write("logfile = /dev/null/x", "");
    assert!(boss.simple("RELOAD").error().is_some());
    boss.ok("SET query_timeout = 7");
    until("the first file is still in use", || {
        text_of(&log).contains("query_timeout")
    });
    let other = site.folder.join("other.log");
    boss.ok(&format!("SET logfile = '{}'", other.display()));
    until("the other file is in use", || !text_of(&other).is_empty());
}

/// The socket of the system's log. Only one test at a time can replace the system's log, and only where there is none.
#[test]
fn the_systems_log_gets_lines() {
    let path = Path::new("/dev/log");
    let system = match UnixDatagram::bind(path) {
        Ok(system) => system,
        Err(error) => {
            crate::harness::skipped(&format!("{}: {error}", path.display()));
            return;
        }
    };
    struct Removed<'a>(&'a Path);
    impl Drop for Removed<'_> {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(self.0);
        }
    }
    let _removed = Removed(path);
    system.set_read_timeout(Some(LIMIT)).unwrap();
    let Some(site) = Site::new("syslog = 1\nsyslog_facility = local0", "") else {
        return;
    };
    let paceline = site.served();
    let tag = format!("pgbouncer[{}]: ", paceline.pid());
    let mut heard = [0; 512];
    loop {
        let len = system.recv(&mut heard).unwrap();
        let line = String::from_utf8_lossy(&heard[..len]);
        assert!(line.contains(&tag), "{line}");
        if line.contains("listening on") {
            assert!(line.starts_with("<134>"), "{line}");
            break;
        }
    }
    site.client(paceline.port()).ok("SELECT 1");
    loop {
        let len = system.recv(&mut heard).unwrap();
        if String::from_utf8_lossy(&heard[..len]).contains("login attempt") {
            break;
        }
    }
}

/// systemd connects standard error with the journal and passes its device and inode.
#[test]
fn the_journal_gets_priorities() {
    let Some(site) = Site::new("pkt_buf = 1", "") else {
        return;
    };
    let journal = site.folder.join("journal");
    for is_journal in [true, false] {
        let file = File::create(&journal).unwrap();
        let meta = file.metadata().unwrap();
        let inode = meta.ino() + u64::from(!is_journal);
        let mut child = Command::new(env!("CARGO_BIN_EXE_paceline"))
            .arg("--config")
            .arg(&site.ini)
            .args(["--listen", "127.0.0.1:0"])
            .env("JOURNAL_STREAM", format!("{}:{inode}", meta.dev()))
            .env_remove("PACELINE_LOG")
            .stderr(file)
            .spawn()
            .unwrap();
        let _adopted = crate::harness::caretaker::adopt("KILL", child.id());
        until("it listens", || text_of(&journal).contains("listening on"));
        child.kill().unwrap();
        child.wait().unwrap();
        let text = text_of(&journal);
        let begins = |words: &str| text.lines().any(|line| line.starts_with(words));
        assert_eq!(begins("<6>listening on 127.0.0.1:"), is_journal, "{text}");
        assert_eq!(begins("<4> WARN"), is_journal, "{text}");
        assert_eq!(begins("listening on 127.0.0.1:"), !is_journal, "{text}");
    }
}
