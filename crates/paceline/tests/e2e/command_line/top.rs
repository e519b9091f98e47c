//! `paceline top` on a terminal, in front of a running Paceline.

use crate::harness::Stage;
use crate::harness::paceline::Paceline;
use crate::harness::raw::RawClient;
use crate::harness::stage::Target;
use crate::harness::until;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

const PROGRAM: &str = env!("CARGO_BIN_EXE_paceline");

/// A program on a terminal of its own (`script` of util-linux).
struct Terminal {
    script: Child,
    printed: Arc<Mutex<String>>,
}

impl Terminal {
    fn run(command: &str) -> Self {
        let command = format!("stty rows 30 cols 120; exec {command}");
        let mut script = Command::new("script")
            .args([
                "--quiet",
                "--return",
                "--flush",
                "--command",
                &command,
                "/dev/null",
            ])
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let printed = Arc::new(Mutex::new(String::new()));
        let (mut out, all) = (script.stdout.take().unwrap(), Arc::clone(&printed));
        thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(len @ 1..) = out.read(&mut part) {
                all.lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&part[..len]));
            }
        });
        Self { script, printed }
    }

    /// Waits for a word: blanks that are on the screen already are not printed again.
    fn shows(&self, part: &str) {
        until(part, || self.printed.lock().unwrap().contains(part));
    }

    fn press(&mut self, keys: &str) {
        let mut stdin = self.script.stdin.as_ref().unwrap();
        stdin.write_all(keys.as_bytes()).unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

fn stage() -> Option<Stage> {
    let stage = Stage::on_shared().set("admin_users=boss").open();
    (stage.target() == Target::Paceline).then_some(stage)
}

fn top(stage: &Stage) -> Terminal {
    let url = format!("postgres://boss@127.0.0.1:{}", stage.port());
    Terminal::run(&format!("{PROGRAM} top {url} --interval 200ms"))
}

#[test]
fn top_shows_what_clients_do_until_q_is_pressed() {
    let Some(stage) = stage() else {
        return;
    };
    let mut client = stage.client_with(&[("application_name", "clerk")]);
    client.ok("SELECT 4711 AS article");
    let mut terminal = top(&stage);
    terminal.shows("units/s");
    terminal.shows("article");
    terminal.press("4");
    terminal.shows("transaction");
    terminal.press("6");
    terminal.shows("clerk");
    client.simple("SELECT 1/0");
    terminal.press("7");
    terminal.shows("22012");
    terminal.press("q");
    assert_eq!(terminal.script.wait().unwrap().code(), Some(0));
}

#[test]
fn top_connects_again_after_a_restart() {
    let Some(mut stage) = stage() else {
        return;
    };
    let mut terminal = top(&stage);
    terminal.shows("units/s");
    let port = stage.port();
    drop(stage.take_paceline());
    terminal.shows("no answer");
    let again = Paceline::start(&stage.direct_url()).set("admin_users=boss");
    let _again = again.at(port).spawn();
    let mut client =
        RawClient::connect(port, &[("user", "postgres"), ("database", &stage.database)]);
    client.ok("SELECT 4712 AS again");
    terminal.shows("again");
    terminal.press("q");
    assert_eq!(terminal.script.wait().unwrap().code(), Some(0));
}

#[test]
fn without_a_terminal_top_says_so() {
    let ended = Command::new(PROGRAM)
        .args(["top", "postgres://boss@127.0.0.1:1"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let err = String::from_utf8(ended.stderr).unwrap();
    assert!(err.contains("top needs a terminal"), "{err}");
}
