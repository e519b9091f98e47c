//! Host names that only one Paceline knows, and whose addresses a test can change: Paceline has another file instead of `/etc/hosts`, in a
//! mount namespace of its own (Linux). No name server is asked.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;

use super::caretaker;
use super::watchdog::skipped;

/// Size of the file. It is replaced by one write of this size, so that no reader sees it without its names.
const SIZE: usize = 1024;

/// Shows its files as those of the system, and then runs a program.
const SCRIPT: &str = r#"
mount --bind "$1/hosts" /etc/hosts || exit
[ ! -e /etc/nsswitch.conf ] || mount --bind "$1/nsswitch.conf" /etc/nsswitch.conf || exit
shift
exec "$@"
"#;

/// The names of one Paceline.
pub(crate) struct Names(PathBuf);

impl Names {
    /// Each name resolves to its address. `None`: the machine does not permit it, and standard error says so.
    pub(crate) fn new(names: &[(&str, Ipv4Addr)]) -> Option<Self> {
        let own = Self(caretaker::folder("n"));
        std::fs::write(own.0.join("nsswitch.conf"), "hosts: files\n").unwrap();
        std::fs::write(own.0.join("hosts"), "").unwrap();
        own.lead(names);
        match own.starter().arg("true").output() {
            Ok(tried) if tried.status.success() => Some(own),
            Ok(tried) => {
                let why = String::from_utf8_lossy(&tried.stderr).into_owned();
                skipped(&format!("host names of its own: {}", why.trim()));
                None
            }
            Err(error) => {
                skipped(&format!("host names of its own: unshare: {error}"));
                None
            }
        }
    }

    /// From now on each name leads to its address, and other names nowhere.
    pub(crate) fn lead(&self, names: &[(&str, Ipv4Addr)]) {
        let lines = names
            .iter()
            .map(|(name, address)| format!("{address} {name}\n"));
        let mut text: String = lines.collect();
        assert!(text.len() <= SIZE, "{text}");
        text.extend(std::iter::repeat_n('\n', SIZE - text.len()));
        // In place: another file of this name would not be the one that Paceline sees.
        let mut file = OpenOptions::new()
            .write(true)
            .open(self.0.join("hosts"))
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// A command that runs its further arguments where these names are known.
    pub(crate) fn starter(&self) -> Command {
        let mut starter = Command::new("unshare");
        starter
            .args(["--mount", "sh", "-c", SCRIPT, "names"])
            .arg(&self.0);
        starter
    }
}
