//! PgBouncer's command line, given to a symbolic link called `pgbouncer`.

use super::{Site, text_of};
use crate::harness::caretaker::{self, Adopted};
use crate::harness::message::terminate;
use crate::harness::until;
use crate::harness::wait::LIMIT;
use std::fs::{File, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread;

/// Root runs it as this user, as PgBouncer does not run as root.
const USER: &str = "postgres";

impl Site {
    /// The program, by the name of PgBouncer.
    fn pgbouncer(&self) -> Command {
        let link = self.folder.join("pgbouncer");
        if !link.exists() {
            symlink(env!("CARGO_BIN_EXE_paceline"), &link).unwrap();
            // Another user writes its files there.
            let permissions = Permissions::from_mode(0o777);
            std::fs::set_permissions(&self.folder, permissions).unwrap();
        }
        let mut command = Command::new(link);
        command.env_remove("PACELINE_LOG");
        command.stdin(Stdio::null());
        command
    }

    /// With the options that the account which runs the tests needs.
    fn as_user(&self) -> Command {
        let mut command = self.pgbouncer();
        if is_root() {
            command.args(["-u", USER]);
        }
        command
    }

    /// A port that is free, and settings for a process in the background that listens there.
    fn in_background(&self, more: &str) -> (u16, String) {
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = port.local_addr().unwrap().port();
        let folder = self.folder.display();
        let settings = format!(
            "listen_port = {port}\npidfile = {folder}/p.pid\nlogfile = {folder}/p.log\npool_mode = transaction\n{more}"
        );
        (port, settings)
    }

    /// The process that the pidfile names.
    fn process(&self) -> Option<u32> {
        text_of(&self.folder.join("p.pid")).trim().parse().ok()
    }

    /// Starts it in the background; the caretaker ends it if the test does not.
    #[track_caller]
    fn started(&self, options: &[&str]) -> (u32, Adopted) {
        let output = finished(self.as_user().args(options).arg(&self.ini));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        // The process that started it need not wait any longer: it listens.
        let pid = self.process().unwrap();
        (pid, caretaker::adopt("KILL", pid))
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Its output, when it has ended and no process has its streams any more.
#[track_caller]
fn finished(command: &mut Command) -> Output {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _adopted = caretaker::adopt("KILL", child.id());
    let (sender, output) = channel();
    thread::spawn(move || sender.send(child.wait_with_output().unwrap()));
    output.recv_timeout(LIMIT).unwrap()
}

fn runs(pid: u32) -> bool {
    // A process that has ended, but whose parent has not waited for it, has no command line.
    !text_of(Path::new(&format!("/proc/{pid}/cmdline"))).is_empty()
}

/// A line of the process's state, by its name.
fn state(pid: u32, name: &str) -> String {
    let status = text_of(Path::new(&format!("/proc/{pid}/status")));
    let found = status.lines().find_map(|line| line.strip_prefix(name));
    found.unwrap_or_default().trim().to_owned()
}

#[test]
fn help_and_version_are_pgbouncers() {
    let Some(site) = Site::new("", "") else {
        return;
    };
    let said = |option: &str| {
        let output = finished(site.pgbouncer().arg(option));
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    for option in ["-V", "--version"] {
        assert!(said(option).starts_with("PgBouncer 1.25."), "{option}");
    }
    for option in ["-h", "--help"] {
        let help = said(option);
        assert!(help.contains("pgbouncer [OPTION]... CONFIG_FILE"), "{help}");
        assert!(
            help.contains("-R, --reboot") && !help.contains("--upstream"),
            "{help}"
        );
    }
    for wrong in [&[][..], &["--upstream", "postgres://x"]] {
        let output = finished(site.pgbouncer().args(wrong));
        assert_eq!(output.status.code(), Some(1), "{wrong:?}");
        assert!(!output.stderr.is_empty());
    }
}

/// It runs as a user, in a session of its own, without the terminal; it ends as PgBouncer does, and removes its pidfile.
#[test]
fn it_runs_in_the_background() {
    let Some(site) = Site::new("", "") else {
        return;
    };
    let (port, settings) = site.in_background("");
    site.write(&settings, "");
    let (pid, _adopted) = site.started(&["-d"]);
    let mut client = site.client(port);
    client.ok("SELECT 1");
    assert!(text_of(&site.folder.join("p.log")).contains("login attempt"));
    let stat = text_of(Path::new(&format!("/proc/{pid}/stat")));
    let session = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(3);
    assert_eq!(session, Some(pid.to_string().as_str()));
    for stream in 0..3 {
        let target = std::fs::read_link(format!("/proc/{pid}/fd/{stream}")).unwrap();
        assert_eq!(target, Path::new("/dev/null"), "stream {stream}");
    }
    if is_root() {
        let id = |option| {
            let output = finished(Command::new("id").args([option, USER])).stdout;
            String::from_utf8(output).unwrap().trim().to_owned()
        };
        assert_eq!(
            state(pid, "Uid:").split_whitespace().next(),
            Some(&*id("-u"))
        );
        let sorted = |text: String| {
            let mut groups: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            groups.sort();
            groups
        };
        assert_eq!(sorted(state(pid, "Groups:")), sorted(id("-G")));
    }
    // It waits for clients as long as they stay.
    caretaker::signal("TERM", pid);
    until("it takes no more clients", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
    });
    client.ok("SELECT 1");
    client.send(&terminate());
    until("it has ended", || !runs(pid));
    assert_eq!(site.process(), None);
}

/// The configuration may be in a file that the user cannot read, as without `-d`. The process is found by the name that it was
/// called by, and an option is one in front of `--` only.
#[test]
fn in_the_background_it_reads_as_root_and_keeps_its_name() {
    let Some(site) = Site::new("", "") else {
        return;
    };
    let (port, settings) = site.in_background("");
    site.write(&settings, "");
    std::fs::set_permissions(&site.ini, Permissions::from_mode(0o600)).unwrap();
    let (pid, _adopted) = site.started(&["-d", "--"]);
    site.client(port).ok("SELECT 1");
    assert_eq!(state(pid, "Name:"), "pgbouncer");
    caretaker::signal("QUIT", pid);
    until("it has ended", || !runs(pid));
    // Found by the search path.
    let mut command = Command::new("pgbouncer");
    let path = format!("{}:/usr/sbin:/usr/bin:/bin", site.folder.display());
    command.env("PATH", path).arg("-d").arg(&site.ini);
    if is_root() {
        command.args(["-u", USER]);
    }
    let output = finished(command.stdin(Stdio::null()));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    let pid = site.process().unwrap();
    let _adopted = caretaker::adopt("KILL", pid);
    assert_eq!(state(pid, "Name:"), "pgbouncer");
    caretaker::signal("QUIT", pid);
    until("it has ended", || !runs(pid));
}

/// Called as PgBouncer, a file is a `pgbouncer.ini` whatever its name and its first lines are.
#[test]
fn the_file_is_a_pgbouncer_ini_by_any_name() {
    let Some(site) = Site::new("", "") else {
        return;
    };
    let (port, settings) = site.in_background("verbose = 3\n");
    for name in ["pgbouncer.toml", "pgbouncer.conf"] {
        site.write(&settings, "");
        let text = text_of(&site.ini).replace("[pgbouncer]", "  [pgbouncer] ; all of it");
        let file = site.folder.join(name);
        std::fs::write(&file, format!("# no other section\n{text}")).unwrap();
        let output = finished(site.as_user().arg("-d").arg(&file));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{name}: {told}");
        let pid = site.process().unwrap();
        let _adopted = caretaker::adopt("KILL", pid);
        site.client(port).ok("SELECT 1");
        // A reload reads the same kind of file.
        super::console(port).ok("RELOAD");
        caretaker::signal("QUIT", pid);
        until("it has ended", || !runs(pid));
    }
}

#[test]
fn a_cause_is_reported_once() {
    let Some(site) = Site::new("auth_file = /nonexistent/users.txt", "") else {
        return;
    };
    let output = finished(site.as_user().arg(&site.ini));
    let error = String::from_utf8(output.stderr).unwrap();
    let line = error.lines().find(|line| line.starts_with("paceline: "));
    let line = line.unwrap_or_else(|| panic!("{error}"));
    assert!(
        line.contains("cannot read auth_file /nonexistent/users.txt"),
        "{line}"
    );
    assert_eq!(line.matches("No such file").count(), 1, "{line}");
}

#[test]
fn what_the_background_needs_is_reported() {
    let Some(site) = Site::new("", "") else {
        return;
    };
    let (port, settings) = site.in_background("");
    let told = |settings: &str| {
        site.write(settings, "");
        let output = finished(site.as_user().arg("-d").arg(&site.ini));
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let without = |key: &str| {
        let lines = settings.lines().filter(|line| !line.starts_with(key));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert!(told(&without("pidfile")).contains("daemon needs pidfile configured"));
    assert!(told(&without("logfile")).contains("daemon needs logfile or syslog configured"));
    // The process in the background finds out, and the one that has started it ends with its error.
    let _taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let error = told(&settings);
    assert!(
        error.contains(&format!("cannot listen on 127.0.0.1:{port}")),
        "{error}"
    );
    assert!(text_of(&site.folder.join("p.log")).contains("cannot listen on"));
    if is_root() {
        let output = finished(site.pgbouncer().arg("-d").arg(&site.ini));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("does not run as root"), "{error}");
        let output = finished(site.pgbouncer().args(["-u", "no_such_user"]).arg(&site.ini));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            error.contains("user no_such_user does not exist"),
            "{error}"
        );
    }
}

/// The user may be in the file, too.
#[test]
fn an_online_restart_lets_clients_of_the_old_process_stay() {
    let user = if is_root() { "user = postgres" } else { "" };
    let Some(site) = Site::new("", "") else {
        return;
    };
    let (port, settings) = site.in_background(&format!("so_reuseport = 1\n{user}"));
    site.write(&settings, "");
    let start = |options: &[&str]| {
        let output = finished(site.pgbouncer().args(options).arg(&site.ini));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        let pid = site.process().unwrap();
        (pid, caretaker::adopt("KILL", pid))
    };
    // There is no old process yet.
    let (first, _first) = start(&["-d", "-R"]);
    let log = || text_of(&site.folder.join("p.log"));
    assert!(log().contains("old process not found"));
    let mut old = site.client(port);
    old.ok("BEGIN");
    let (second, _second) = start(&["-Rd"]);
    assert_ne!(first, second);
    until("the first takes no more clients", || {
        log().contains("shutting down")
    });
    for _ in 0..20 {
        site.client(port).ok("SELECT 1");
    }
    old.ok("COMMIT");
    old.ok("SELECT 1");
    assert!(runs(first) && runs(second));
    old.send(&terminate());
    until("the first has ended", || !runs(first));
    assert_eq!(site.process(), Some(second));
    site.client(port).ok("SELECT 1");
    caretaker::signal("QUIT", second);
    until("the second has ended", || !runs(second));
}

#[test]
fn an_online_restart_says_what_prevents_it() {
    let Some(site) = Site::new("", "") else {
        return;
    };
    let (port, settings) = site.in_background("");
    site.write(&settings, "");
    let (pid, _adopted) = site.started(&["-d"]);
    // The old process does not share its port.
    let output = finished(site.as_user().arg("-R").arg(&site.ini));
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains(&format!("cannot listen on 127.0.0.1:{port}: "))
            && error.contains("without so_reuseport"),
        "{error}"
    );
    site.client(port).ok("SELECT 1");
    caretaker::signal("QUIT", pid);
    until("it has ended", || !runs(pid));
    // The process id has been given to another program meanwhile: it gets no signal.
    let mut other = Running(Command::new("sleep").arg("600").spawn().unwrap());
    let _other = caretaker::adopt("KILL", other.0.id());
    let pidfile = site.folder.join("p.pid");
    std::fs::write(&pidfile, format!("{}\n", other.0.id())).unwrap();
    let all = Permissions::from_mode(0o666);
    std::fs::set_permissions(&pidfile, all).unwrap();
    let (pid, _adopted) = site.started(&["-dR"]);
    let log = text_of(&site.folder.join("p.log"));
    assert!(
        log.contains("which is called sleep: it is neither "),
        "{log}"
    );
    assert!(other.0.try_wait().unwrap().is_none());
    caretaker::signal("QUIT", pid);
    until("it has ended", || !runs(pid));
}

/// A process in the foreground, which ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn it_may_be_quiet_or_say_more() {
    let Some(site) = Site::new("", "") else {
        return;
    };
    let (port, settings) = site.in_background("");
    site.write(&settings, "");
    let (log, stderr) = (site.folder.join("p.log"), site.folder.join("stderr"));
    for (option, is_quiet) in [("-q", true), ("-v", false)] {
        let _ = std::fs::remove_file(&log);
        let mut command = site.as_user();
        command.arg(option).arg(&site.ini);
        command.stderr(File::create(&stderr).unwrap());
        let mut process = Running(command.spawn().unwrap());
        let _adopted = caretaker::adopt("KILL", process.0.id());
        until("it listens", || text_of(&log).contains("listening on "));
        let mut client = site.client(port);
        client.ok("SELECT 1");
        client.send(&terminate());
        let last = "closing because: client close request";
        until("the client has left", || text_of(&log).contains(last));
        assert_eq!(text_of(&stderr).is_empty(), is_quiet, "{option}");
        assert_eq!(text_of(&log).contains("DEBUG "), !is_quiet, "{option}");
        caretaker::signal("TERM", process.0.id());
        assert!(process.0.wait().unwrap().success());
    }
}
