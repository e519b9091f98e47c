//! Cleans up after the test process, however it ends: a shell that holds the other end of a pipe. When the pipe closes it
//! ends the processes that were entrusted to it and not released, and removes network cards and the tests' folder.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use super::watchdog::watch;

const SCRIPT: &str = r#"
trap '' INT TERM HUP
adopted=
while read -r verb entry; do
    case $verb in
        adopt) adopted="$adopted $entry" ;;
        release)
            rest=
            for each in $adopted; do [ "$each" = "$entry" ] || rest="$rest $each"; done
            adopted=$rest ;;
    esac
done
for each in $adopted; do
    case $each in
        CARD:*) ip link del "${each##*:}" ;;
        *) kill -s "${each%%:*}" "${each##*:}" ;;
    esac
done
for each in $adopted; do
    tries=0
    while kill -s 0 "${each##*:}" && [ $tries -lt 200 ]; do sleep 0.05; tries=$((tries + 1)); done
    kill -s KILL "${each##*:}"
done
rm -rf "$1"
"#;

static CARETAKER: OnceLock<Mutex<Caretaker>> = OnceLock::new();

struct Caretaker {
    shell: Child,
    folder: PathBuf,
}

/// A process that the caretaker ends, or a network card that it removes; released when this is dropped.
#[derive(Debug)]
pub(crate) struct Adopted(String);

/// Ends process `pid` with `signal` (a name without SIG), should the tests end before it does.
pub(crate) fn adopt(signal: &str, pid: u32) -> Adopted {
    watch();
    let entry = format!("{signal}:{pid}");
    tell(&format!("adopt {entry}"));
    Adopted(entry)
}

/// Removes this virtual network card, should the tests end before it is.
pub(crate) fn adopt_card(name: &str) -> Adopted {
    let entry = format!("CARD:{name}");
    tell(&format!("adopt {entry}"));
    Adopted(entry)
}

impl Drop for Adopted {
    fn drop(&mut self) {
        tell(&format!("release {}", self.0));
    }
}

/// A new folder below the tests' folder, which is removed at the end.
pub(crate) fn folder(name: &str) -> PathBuf {
    watch();
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let root = caretaker().lock().unwrap().folder.clone();
    let path = root.join(format!("{name}{number}"));
    std::fs::create_dir(&path).unwrap();
    path
}

/// Sends a signal (a name without SIG) to a process.
pub(crate) fn signal(signal: &str, pid: u32) {
    let status = Command::new("sh")
        .args(["-c", &format!("kill -s {signal} {pid}")])
        .stderr(Stdio::null())
        .status();
    assert!(status.is_ok(), "sh does not run");
}

fn tell(line: &str) {
    let mut caretaker = caretaker()
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let pipe = caretaker.shell.stdin.as_mut().unwrap();
    writeln!(pipe, "{line}").unwrap();
}

fn caretaker() -> &'static Mutex<Caretaker> {
    CARETAKER.get_or_init(|| {
        // Short, because Unix-socket paths are limited to some 100 bytes.
        let folder = std::env::temp_dir().join(format!("pl{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        Mutex::new(Caretaker {
            shell: hire(&folder),
            folder,
        })
    })
}

fn hire(folder: &Path) -> Child {
    Command::new("sh")
        .args(["-c", SCRIPT, "caretaker"])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}
