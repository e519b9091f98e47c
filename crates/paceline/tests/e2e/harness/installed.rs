//! Clients of other languages that scripts install for the tests, see `scripts/clients.sh`: whether they are here.

use std::path::{Path, PathBuf};

use super::watchdog::skipped;

/// The folder of an installed client, `target/FAMILY/CLIENT`. If the client is not installed, prints why and returns `None`.
pub(crate) fn installed(family: &str, client: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("target").join(family).join(client);
    if folder.join("ready").exists() {
        return Some(folder);
    }
    let reason = std::fs::read_to_string(folder.join("missing"));
    let reason = reason.unwrap_or_else(|_| "scripts/setup.sh test installs it".to_owned());
    skipped(&format!("{client}: {}", reason.trim()));
    None
}
